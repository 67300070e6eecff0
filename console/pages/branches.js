// The branches: how far each one's onboarding is, and what of it is pending.

import { html } from '../lib/html.js'
import { link, linkToResource, oneOf, refine } from '../lib/router.js'
import { t, word } from '../lib/words.js'
import { Listing } from '../components/listing.js'
import { PageHead } from '../components/panel.js'
import { Id, Status } from '../components/values.js'

const STATUSES = ['preparing', 'active']

/** Each thing that another system was asked for, with where it stands. @param {any} branch */
export function steps(branch) {
  const of = (/** @type {any[] | undefined} */ effects, /** @type {string} */ part) => (effects ?? []).map((effect) => ({ ...effect, part }))
  return [...of(branch.sideEffects, 'creation'), ...of(branch.managerMembership?.sideEffects, 'membership')]
}

/** @param {{query: URLSearchParams}} props */
export function Branches({ query }) {
  const status = oneOf(query.get('status'), ['', ...STATUSES])
  const columns = [
    { key: 'code', label: t('field.branchCode'), grow: 1.2, show: (/** @type {any} */ one) => html`<${Id} id=${one.branchCode} href=${linkToResource(`admin/branches/${one.branchId}`)} />` },
    { key: 'status', label: t('field.status'), named: true, show: (/** @type {any} */ one) => html`<${Status} value=${one.lifecycleStatus} />` },
    { key: 'invitation', label: t('field.managerInvitationStatus'), named: true, show: (/** @type {any} */ one) => html`<${Status} value=${one.managerInvitationStatus} />` },
    { key: 'relations', label: t('field.authorizationRelationshipStatus'), named: true, show: (/** @type {any} */ one) => html`<${Status} value=${one.authorizationRelationshipStatus} />` },
    { key: 'pending', label: t('branches.pending'), grow: 2.4, named: true, show: (/** @type {any} */ one) => {
      const pending = steps(one).filter((step) => step.status !== 'completed')
      return pending.length
        ? pending.map((step) => html`<a key=${step.outboxMessageId} class="badge waiting" href=${link(['messages', String(step.outboxMessageId)])}>${word(step.kind)}</a> `)
        : html`<span class="muted">${t('value.nothing')}</span>`
    } },
    { key: 'id', label: t('field.branchId'), grow: 1.4, show: (/** @type {any} */ one) => html`<${Id} id=${one.branchId} />` },
  ]
  return html`
    <${PageHead} title=${t('branches.title')} lead=${t('branches.lead')}><a class="button" href=${link(['commands', 'create_branch'])}>${t('branches.create')}</a><//>
    <form class="filters"><label><span>${t('field.status')}</span><select value=${status} onChange=${(/** @type {any} */ event) => refine({ status: event.target.value })}>
      <option value="">${t('filter.all')}</option>${STATUSES.map((one) => html`<option key=${one} value=${one} selected=${one === status}>${word(one)}</option>`)}</select></label></form>
    <${Listing} path="/admin/branches" query=${{ status: status || undefined }} columns=${columns} idOf=${(/** @type {any} */ one) => one.branchId}
      label=${t('branches.title')} empty=${t('branches.none')} concerns=${(/** @type {string} */ subject) => /^(admin\/branches|outbox)/.test(subject)} />`
}
