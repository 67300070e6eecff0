// Which statements there are: those that await a deposit first, since when, at which branch.

import { html, useRef } from '../lib/html.js'
import { now } from '../lib/clock.js'
import { ago } from '../lib/format.js'
import { linkToResource, oneOf, refine } from '../lib/router.js'
import { t, word } from '../lib/words.js'
import { Listing } from '../components/listing.js'
import { PageHead } from '../components/panel.js'
import { Id, Status, Time } from '../components/values.js'

const STATUSES = ['awaiting_branch_deposit', 'awaiting_confirmation', 'settled', 'reconciliation', 'arrears']

/** @param {{query: URLSearchParams}} props */
export function Statements({ query }) {
  const branch = useRef(/** @type {HTMLInputElement | null} */ (null))
  const status = oneOf(query.get('status'), [...STATUSES, 'all'])
  const order = oneOf(query.get('order'), ['oldest', 'newest'])
  const branchProfileId = query.get('branch') ?? ''
  const columns = [
    { key: 'code', label: t('field.statementCode'), grow: 1.4, show: (/** @type {any} */ one) => html`<${Id} id=${one.statementCode} href=${linkToResource(`settlement-statements/${one.statementId}`)} />` },
    { key: 'branch', label: t('statements.branch'), grow: 1.2, show: (/** @type {any} */ one) => html`<${Id} id=${one.branchProfileId} />` },
    { key: 'status', label: t('field.status'), show: (/** @type {any} */ one) => html`<${Status} value=${one.status} />` },
    { key: 'since', label: t('statements.since'), grow: 1.5, show: (/** @type {any} */ one) => html`<${Time} at=${one.updatedAt} />` },
    { key: 'for', label: t('statements.for'), show: (/** @type {any} */ one) => html`<span title=${one.updatedAt}>${ago(one.updatedAt, now.value)}</span>` },
    { key: 'period', label: t('statements.period'), grow: 1.5, show: (/** @type {any} */ one) => html`<span class="number"><span class="nowrap">${one.settlementPeriodStart}</span> – <span class="nowrap">${one.settlementPeriodEnd}</span></span>` },
    { key: 'by', label: t('field.requestedByActorProfileId'), grow: 1.2, wide: true, show: (/** @type {any} */ one) => html`<${Id} id=${one.requestedByActorProfileId} />` },
  ]
  /** @param {Event} event */
  const filter = (event) => {
    event.preventDefault()
    refine({ branch: branch.current?.value.trim() })
  }
  return html`
    <${PageHead} title=${t('statements.title')} lead=${t('statements.lead')} />
    <form class="filters" onSubmit=${filter}>
      <label><span>${t('field.status')}</span><select value=${status} onChange=${(/** @type {any} */ event) => refine({ status: event.target.value })}>
        ${STATUSES.map((one) => html`<option key=${one} value=${one} selected=${one === status}>${word(one)}</option>`)}<option value="all" selected=${status === 'all'}>${t('filter.all')}</option></select></label>
      <label><span>${t('filter.order')}</span><select value=${order} onChange=${(/** @type {any} */ event) => refine({ order: event.target.value })}>
        <option value="oldest" selected=${order === 'oldest'}>${t('filter.oldest')}</option><option value="newest" selected=${order === 'newest'}>${t('filter.newest')}</option></select></label>
      <label class="grow"><span>${t('statements.branch')}</span><input ref=${branch} value=${branchProfileId} placeholder="branch-seoul-1" autocomplete="off" spellcheck=${false} /></label>
      <button type="submit">${t('filter.apply')}</button>
    </form>
    <${Listing} path="/settlement-statements" query=${{ status: status === 'all' ? undefined : status, order, branchProfileId: branchProfileId || undefined }}
      columns=${columns} idOf=${(/** @type {any} */ one) => one.statementId} label=${t('statements.title')} empty=${t('statements.none')}
      concerns=${(/** @type {string} */ subject) => subject.startsWith('settlement-statements/')} />`
}
