// What goes out of the service: messages to other systems, and webhooks. What waits, what is dead.

import { html, useState } from '../lib/html.js'
import { call, freshKey, get } from '../lib/api.js'
import { failedAgain, mayBeDone, useLoad, problemOf } from '../lib/load.js'
import { link, oneOf, refine } from '../lib/router.js'
import { number } from '../lib/format.js'
import { t, word } from '../lib/words.js'
import { Dialog } from '../components/dialog.js'
import { Listing } from '../components/listing.js'
import { PageHead, Panel } from '../components/panel.js'
import { Problem, When } from '../components/states.js'
import { Copy, Status, Subject, Time } from '../components/values.js'

const TABS = ['messages', 'webhooks']
const STATES = ['waiting', 'dead', 'taken', 'skipped']

/** @param {{query: URLSearchParams}} props */
export function Deliveries({ query }) {
  const tab = oneOf(query.get('tab'), TABS)
  const [isAdding, setAdding] = useState(false)
  /** @param {KeyboardEvent} event */
  const move = (event) => {
    if (event.key !== 'ArrowRight' && event.key !== 'ArrowLeft') return
    const next = tab === 'messages' ? 'webhooks' : 'messages'
    refine({ tab: next })
    requestAnimationFrame(() => document.getElementById(`tab-${next}`)?.focus())
  }
  return html`
    <${PageHead} title=${t('deliveries.title')} lead=${t('deliveries.lead')}>
      <button type="button" class="primary" onClick=${() => setAdding(true)}>${t('webhooks.add')}</button>
    <//>
    <${Receivers} />
    <div class="tabs" role="tablist" aria-label=${t('deliveries.title')} onKeyDown=${move}>
      ${TABS.map((one) => html`<button key=${one} id=${`tab-${one}`} type="button" role="tab" aria-selected=${tab === one} aria-controls="tab-panel" tabindex=${tab === one ? 0 : -1} onClick=${() => refine({ tab: one })}>${t(`deliveries.${one}`)}</button>`)}
    </div>
    <div id="tab-panel" role="tabpanel" aria-labelledby=${`tab-${tab}`} class="tab-panel">
      ${tab === 'webhooks' ? html`<${Webhooks} />` : html`<${Messages} query=${query} />`}
    </div>
    ${isAdding ? html`<${AddWebhook} close=${() => setAdding(false)} />` : ''}`
}

/** Who is brought messages, and how that goes. */
function Receivers() {
  const figures = useLoad((signal) => get('/console/figures', {}, signal).then((figures) => figures.outbox), [], (subject) => subject.startsWith('outbox/'))
  if (!figures.value) return ''
  const { receivers, unclaimed } = figures.value
  return html`<${Panel} title=${t('receivers.title')}>
    ${receivers.length ? html`<ul class="plain-list">${receivers.map((/** @type {any} */ one) => html`<li key=${one.name}><code>${one.name}</code> <${Status} value=${one.isFailing ? 'failing' : 'enabled'} />
      <span class=${one.dead ? 'bad' : ''}>${t('receivers.counts', { waiting: number(one.waiting), dead: number(one.dead), taken: number(one.taken) })}</span></li>`)}</ul>` : html`<p class="muted">${t('receivers.none')}</p>`}
    ${unclaimed ? html`<p class="notice">${t('receivers.unclaimed', { n: number(unclaimed) })}</p>` : ''}<//>`
}

/** @param {{query: URLSearchParams}} props */
function Messages({ query }) {
  const state = oneOf(query.get('state'), [...STATES, 'all'])
  const columns = [
    { key: 'number', label: t('field.number'), grow: 0.6, show: (/** @type {any} */ one) => html`<a href=${link(['messages', String(one.number)])} aria-label=${t('message.number', { n: one.number })}>${one.number}</a>` },
    { key: 'topic', label: t('field.topic'), grow: 2.2, show: (/** @type {any} */ one) => html`<code title=${one.topic}>${one.topic}</code>` },
    { key: 'resource', label: t('field.resource'), grow: 1.8, show: (/** @type {any} */ one) => html`<${Subject} path=${one.resource} />` },
    { key: 'state', label: t('field.state'), grow: 0.8, show: (/** @type {any} */ one) => html`<${Status} value=${one.state} />` },
    { key: 'attempts', label: t('field.attempts'), end: true, grow: 0.5, show: (/** @type {any} */ one) => number(one.attempts) },
    { key: 'why', label: t('deliveries.why'), grow: 1.4, show: (/** @type {any} */ one) => html`<span title=${one.lastError ?? ''}>${why(one)}</span>` },
    { key: 'next', label: t('field.nextAttemptAt'), grow: 1.3, wide: true, show: (/** @type {any} */ one) => html`<${Time} at=${one.nextAttemptAt} />` },
  ]
  return html`<form class="filters"><label><span>${t('field.state')}</span><select value=${state} onChange=${(/** @type {any} */ event) => refine({ state: event.target.value })}>
      ${STATES.map((one) => html`<option key=${one} value=${one} selected=${one === state}>${word(one)}</option>`)}<option value="all" selected=${state === 'all'}>${t('filter.all')}</option></select></label></form>
    <${Listing} path="/outbox" query=${{ state: state === 'all' ? undefined : state }} columns=${columns} idOf=${(/** @type {any} */ one) => String(one.number)}
      label=${t('deliveries.messages')} empty=${t('deliveries.none')} concerns=${() => true} />`
}

/** Why a delivery did not come off. @param {any} one */
export function why(one) {
  if (one.lastStatus) return `HTTP ${one.lastStatus}`
  if (one.lastError) return one.lastError
  return one.attempts === 0 && one.state === 'waiting' ? t('deliveries.noReceiver') : '–'
}

function Webhooks() {
  const columns = [
    { key: 'url', label: t('field.url'), grow: 2.4, show: (/** @type {any} */ one) => html`<a class="id" href=${link(['webhooks', one.subscriptionId])} title=${one.url}>${one.url}</a>` },
    { key: 'status', label: t('field.status'), show: (/** @type {any} */ one) => html`<${Status} value=${one.status} />` },
    { key: 'types', label: t('field.types'), grow: 2, show: (/** @type {any} */ one) => html`<span title=${one.types.join('\n')}>${one.types.join(', ') || t('webhooks.allTypes')}</span>` },
    { key: 'waiting', label: t('field.waiting'), end: true, grow: 0.6, show: (/** @type {any} */ one) => number(one.waiting) },
    { key: 'dead', label: t('field.dead'), end: true, grow: 0.6, show: (/** @type {any} */ one) => html`<span class=${one.dead ? 'bad' : ''}>${number(one.dead)}</span>` },
    { key: 'at', label: t('field.createdAt'), grow: 1.3, show: (/** @type {any} */ one) => html`<${Time} at=${one.createdAt} />` },
  ]
  return html`<${Listing} path="/webhook-subscriptions" columns=${columns} idOf=${(/** @type {any} */ one) => one.subscriptionId} label=${t('deliveries.webhooks')}
    empty=${t('webhooks.none')} concerns=${() => true} />`
}

/** A secret, shown once. @param {{secret: string}} props */
export function Secret({ secret }) {
  return html`<div class="secret"><p><strong>${t('webhooks.secretOnce')}</strong></p><p class="secret-line"><code id="secret">${secret}</code> <${Copy} text=${secret} label=${t('webhooks.copySecret')} /></p></div>`
}

/** @param {{close: () => void}} props */
function AddWebhook({ close }) {
  const [key] = useState(freshKey)
  const [made, setMade] = useState(/** @type {any} */ (null))
  const [problem, setProblem] = useState(/** @type {any} */ (null))
  const [isSending, setSending] = useState(false)
  /** @param {any} event */
  const add = async (event) => {
    event.preventDefault()
    const given = new FormData(event.currentTarget)
    const types = String(given.get('types')).split(/[\s,]+/).filter(Boolean)
    setSending(true)
    try {
      const body = { url: String(given.get('url')), types, description: String(given.get('description')) || null }
      setMade((await call('POST', '/webhook-subscriptions', { key, body })).body)
      setProblem(null)
    } catch (error) {
      setProblem((/** @type {any} */ before) => failedAgain(before, problemOf(error)))
    }
    setSending(false)
  }
  // What may have been made already is asked for once more as it is: its key stands for nothing else.
  const isFixed = isSending || mayBeDone(problem)
  return html`<${Dialog} title=${t('webhooks.add')} close=${close} isBusy=${isSending} holds=${isSending || Boolean(made) || mayBeDone(problem)}>
    ${made ? html`<${Secret} secret=${made.secret} /><div class="actions"><a class="button primary" href=${link(['webhooks', made.subscriptionId])} onClick=${close}>${t('webhooks.open')}</a><button type="button" onClick=${close}>${t('action.close')}</button></div>`
    : html`<form class="stack" onSubmit=${add}>
      <label for="webhook-url">${t('field.url')}</label><input id="webhook-url" name="url" type="url" required readonly=${isFixed} placeholder="https://receiver.example.com/events" />
      <label for="webhook-types">${t('field.types')}</label><textarea id="webhook-types" name="types" rows="3" required readonly=${isFixed} aria-describedby="webhook-types-hint">carebook.settlement-statement.*</textarea><p id="webhook-types-hint" class="muted small">${t('webhooks.typesHint')}</p>
      <label for="webhook-description">${t('webhooks.description')}</label><input id="webhook-description" name="description" readonly=${isFixed} />
      ${problem ? html`<${Problem} problem=${problem} />` : ''}
      <div class="actions"><button type="submit" class="primary" disabled=${isSending}>${t('webhooks.create')}</button><button type="button" disabled=${isSending} onClick=${close}>${t('action.cancel')}</button></div>
    </form>`}<//>`
}
