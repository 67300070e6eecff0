// One search for any identifier: whatever is read by it, and whatever it is a part of.

import { html, useEffect, useRef } from '../lib/html.js'
import { get } from '../lib/api.js'
import { KINDS, kindAt, pathOf } from '../lib/kinds.js'
import { problemOf, useLoad } from '../lib/load.js'
import { link, linkToResource } from '../lib/router.js'
import { field, t } from '../lib/words.js'
import { PageHead, Panel } from '../components/panel.js'
import { Empty, When } from '../components/states.js'
import { Id, Scalar, Status, Time } from '../components/values.js'

/** By what a list is looked through, besides where it stands. */
const BY = ['branchProfileId', 'reservationBookingId', 'paymentId', 'motherUserId']

/** How many of a kind are shown for each of them. */
const FIRST = 10

/** Where all of a kind are listed by such a name. @type {Record<string, Record<string, (term: string) => string>>} */
const ALL = {
  statement: { branchProfileId: (term) => link(['statements'], { status: 'all', branch: term }) },
  lifecycle: {
    branchProfileId: (term) => link(['reservations'], { branch: term }),
    motherUserId: (term) => link(['reservations'], { mother: term }),
  },
}

/** @typedef {{kind: import('../lib/kinds.js').Kind, path: string, body: any, by: string}} Found */

/** What somebody may not list is not found, and hides nothing else. @param {any} error */
function unlessForbidden(error) {
  if (problemOf(error).status !== 403) throw error
}

/** @param {string} term @param {AbortSignal} signal */
async function search(term, signal) {
  /** @type {Map<string, Found>} */
  const found = new Map()
  /** Of which kinds there may be more, by what, beyond how many. @type {{kind: import('../lib/kinds.js').Kind, by: string, n: number}[]} */
  const more = []
  /** @type {Promise<void>[]} */
  const asked = []
  /** @param {import('../lib/kinds.js').Kind} kind @param {any} body @param {string} by */
  const add = (kind, body, by) => {
    const path = pathOf(kind, body)
    if (!found.has(path)) found.set(path, { kind, path, body, by })
  }
  for (const kind of KINDS) {
    for (const by of BY.filter((name) => kind.filters.includes(name))) {
      asked.push(get(`/${kind.path}`, { [by]: term, limit: FIRST }, signal).then((page) => {
        page.items.forEach((/** @type {any} */ body) => add(kind, body, by))
        if (page.next) more.push({ kind, by, n: page.items.length })
      }, unlessForbidden))
    }
  }
  /** @type {any} */
  let [message, subscription] = [null, null]
  /** @param {{read: string, path: string}} named */
  const look = async ({ read, path }) => {
    const body = await get(`/${path}`, {}, signal)
    if (read === 'read_outbox_message') message = body
    else if (read === 'read_webhook_subscription') subscription = body
    const kind = kindAt(decodeURIComponent(path).split('/'))
    // By one of its identifiers, or by its code.
    if (kind) add(kind, body, kind.ids.find((name) => body[name] === term) ?? kind.columns[0])
  }
  const named = get('/console/found', { id: term }, signal)
  asked.push(named.then(({ found }) => Promise.all(found.filter((/** @type {any} */ one) => one.read !== 'read_charge_ledger').map(look))).then(() => {}))
  await Promise.all(asked)
  return { found: [...found.values()], more, message, subscription }
}

/** @param {{query: URLSearchParams}} props */
export function Find({ query }) {
  const term = (query.get('q') ?? '').trim()
  const results = useLoad((signal) => (term ? search(term, signal) : Promise.resolve({ found: [], more: [], message: null, subscription: null })), [term])
  // Searched for once more, it is asked for once more.
  const last = useRef({ term, query })
  useEffect(() => {
    if (last.current.term === term && last.current.query !== query) results.again()
    last.current = { term, query }
  }, [term, query])
  return html`
    <${PageHead} title=${t('find.title')} lead=${term ? html`<span class="id">${term}</span>` : t('find.hint')} />
    <${When} of=${results}>${(/** @type {any} */ { found, more, message, subscription }) => {
      if (found.length === 0 && more.length === 0 && !message && !subscription) return html`<${Empty}>${t('find.none')}<//>`
      const kinds = KINDS.filter((kind) => [...found, ...more].some((one) => one.kind === kind))
      return html`<p class="muted" role="status">${t(more.length ? 'find.shown' : 'find.count', { n: found.length + (message ? 1 : 0) + (subscription ? 1 : 0) })}</p>
        ${message ? html`<${Panel} title=${t('message.title')}><ul class="plain-list"><li><a href=${link(['messages', String(message.number)])}>${t('message.number', { n: message.number })}</a> <code>${message.topic}</code> <${Status} value=${message.state} /></li></ul><//>` : ''}
        ${subscription ? html`<${Panel} title=${t('subscription.title')}><ul class="plain-list"><li><a href=${link(['webhooks', subscription.subscriptionId])}>${subscription.url}</a> <${Status} value=${subscription.status} /></li></ul><//>` : ''}
        ${kinds.map((kind) => html`<${Panel} key=${kind.name} title=${t(`kind.${kind.name}`)}><ul class="plain-list">
          ${found.filter((/** @type {Found} */ one) => one.kind === kind).map((/** @type {Found} */ one) => html`<li key=${one.path}>
            <${Id} id=${decodeURIComponent(one.path.slice(kind.path.length + 1))} href=${kind.name === 'lifecycle' ? link(['reservations', one.body.reservationBookingId]) : linkToResource(one.path)} whole=${true} />
            ${kind.columns.slice(0, 2).map((column) => html` <${Scalar} key=${column} path=${column} value=${one.body[column]} />`)}
            ${kind.status ? html` <${Status} value=${one.body[kind.status]} />` : ''} ${kind.at ? html`<${Time} at=${one.body[kind.at]} />` : ''}
            <span class="muted small">${t('find.by', { name: field(one.by) })}</span></li>`)}
        </ul>
          ${more.filter((/** @type {any} */ one) => one.kind === kind).map((/** @type {any} */ { by, n }) => html`<p key=${by} class="muted small">${t('find.first', { n, name: field(by) })} ${ALL[kind.name]?.[by] ? html`<a href=${ALL[kind.name][by](term)}>${t('find.all')}</a>` : ''}</p>`)}<//>`)}`
    }}<//>`
}
