// What a reservation costs, who gets which share of it, and who assigned whom.

import { html, useRef } from '../lib/html.js'
import { filled, get } from '../lib/api.js'
import { number } from '../lib/format.js'
import { kindNamed, pathOf } from '../lib/kinds.js'
import { useLoad } from '../lib/load.js'
import { link, linkToResource, refine } from '../lib/router.js'
import { field, t, word } from '../lib/words.js'
import { Ledger } from '../components/ledger.js'
import { Listing } from '../components/listing.js'
import { PageHead, Panel } from '../components/panel.js'
import { Empty, When } from '../components/states.js'
import { Copy, Id, Scalar, Status, Time, Won } from '../components/values.js'

/** How many of each kind are shown at first, and how many more each time. */
const RELATED = 50

/** @param {{rest: string[], query: URLSearchParams}} props */
export function Reservations({ rest, query }) {
  return rest[0] ? html`<${Reservation} key=${rest[0]} id=${rest[0]} />` : html`<${All} query=${query} />`
}

/** @param {{query: URLSearchParams}} props */
function All({ query }) {
  const branch = useRef(/** @type {HTMLInputElement | null} */ (null))
  const mother = useRef(/** @type {HTMLInputElement | null} */ (null))
  const won = (/** @type {string} */ name) => ({ key: name, label: field(name), end: true, show: (/** @type {any} */ one) => html`<${Won} krw=${one[name]} />` })
  const columns = [
    { key: 'id', label: t('field.reservationBookingId'), grow: 1.6, show: (/** @type {any} */ one) => html`<${Id} id=${one.reservationBookingId} href=${link(['reservations', one.reservationBookingId])} />` },
    won('motherVisiblePayableKrw'), won('caregiverPayoutKrw'), won('branchSettlementKrw'), won('hqSettlementKrw'),
    { key: 'days', label: t('field.deliveredDayCount'), end: true, grow: 0.7, show: (/** @type {any} */ one) => html`<${Scalar} path="deliveredDayCount" value=${one.deliveredDayCount} />` },
  ]
  /** @param {Event} event */
  const filter = (event) => {
    event.preventDefault()
    refine({ branch: branch.current?.value.trim(), mother: mother.current?.value.trim() })
  }
  return html`
    <${PageHead} title=${t('reservations.title')} lead=${t('reservations.lead')} />
    <form class="filters" onSubmit=${filter}>
      <label class="grow"><span>${t('statements.branch')}</span><input ref=${branch} value=${query.get('branch') ?? ''} autocomplete="off" spellcheck=${false} /></label>
      <label class="grow"><span>${t('field.motherUserId')}</span><input ref=${mother} value=${query.get('mother') ?? ''} autocomplete="off" spellcheck=${false} /></label>
      <button type="submit">${t('filter.apply')}</button>
    </form>
    <${Listing} path="/reservation-financial-lifecycles" query=${{ branchProfileId: query.get('branch') || undefined, motherUserId: query.get('mother') || undefined }}
      columns=${columns} idOf=${(/** @type {any} */ one) => one.reservationBookingId} label=${t('reservations.title')} empty=${t('reservations.none')}
      concerns=${(/** @type {string} */ subject) => subject.startsWith('reservation-financial-lifecycles/')} />`
}

/** The revision that a decision came with. @param {any[]} revisions @param {any} decision */
const madeIn = (revisions, decision) => revisions.find((revision) => revision.changes.some((/** @type {any} */ change) => change.after === decision.assignmentDecisionId && change.path.endsWith('assignmentDecisionId')))

/** @param {{id: string}} props */
function Reservation({ id }) {
  const values = { id }
  const concerns = (/** @type {string} */ subject) => subject.split('/').includes(encodeURIComponent(id)) || subject.startsWith('caregiver-payout')
  const ledger = useLoad(async (signal) => {
    const { items } = await get('/reservation-financial-lifecycles', { reservationBookingId: id, limit: 1 }, signal)
    return items.length ? get(filled('/reservation-financial-lifecycles/{id}/ledger', values), {}, signal) : null
  }, [id], concerns)
  const team = useLoad(async (signal) => {
    const path = filled('/care-team-rosters/{id}', values)
    const { items } = await get('/care-team-rosters', { reservationBookingId: id, limit: 1 }, signal)
    if (items.length === 0) return { roster: null, revisions: [] }
    // As far back as each decision was made.
    const [roster, revisions] = [items[0], /** @type {any[]} */ ([])]
    for (let cursor; cursor !== null; ) {
      const page = await get(`${path}/history`, { limit: 100, cursor }, signal)
      revisions.push(...page.revisions)
      cursor = roster.assignmentDecisions.every((/** @type {any} */ one) => madeIn(revisions, one)) ? null : page.next
    }
    return { roster, revisions }
  }, [id], concerns)
  return html`
    <${PageHead} title=${t('reservation.title')} lead=${html`<span class="id">${id}</span> <${Copy} text=${id} />`} />
    <div class="columns halves">
      <${Panel} title=${t('ledger.title')} aside=${ledger.value && html`<a href=${linkToResource(`reservation-financial-lifecycles/${encodeURIComponent(id)}`)}>${t('resource.history')}</a>`}>
        <${When} of=${ledger}>${(/** @type {any} */ charge) => charge
          ? html`<${Ledger} ledger=${charge} /><dl class="figures">
              <div><dt>${field('branchProfileId')}</dt><dd><${Id} id=${charge.branchProfileId} /></dd></div>
              <div><dt>${field('serviceType')}</dt><dd>${word(charge.serviceType)}</dd></div>
              <div><dt>${field('servicePriceKrw')}</dt><dd><${Won} krw=${charge.servicePriceKrw} /></dd></div>
              <div><dt>${field('quotedOn')}</dt><dd>${charge.quotedOn}</dd></div>
              <div><dt>${field('capturedOn')}</dt><dd>${charge.capturedOn}</dd></div>
              <div><dt>${field('finalizedAt')}</dt><dd><${Time} at=${charge.finalizedAt} /></dd></div>
              <div><dt>${field('benefitPolicyId')}</dt><dd><${Id} id=${charge.benefitPolicyId} /></dd></div>
            </dl>`
          : html`<${Empty}>${t('ledger.none')}<//>`}<//>
      <//>
      <${Panel} title=${t('team.title')} aside=${team.value?.roster && html`<a href=${linkToResource(`care-team-rosters/${encodeURIComponent(id)}`)}>${t('resource.history')}</a>`}>
        <${When} of=${team}>${(/** @type {any} */ { roster, revisions }) => roster
          ? html`<ol class="decisions">${roster.assignmentDecisions.map((/** @type {any} */ one, /** @type {number} */ index) => {
              const made = madeIn(revisions, one)
              return html`<li key=${one.assignmentDecisionId}>
                <p><${Status} value=${one.decisionKind} /> <strong>${word(one.role)}</strong> · ${t('team.order', { n: one.handoffOrder })}</p>
                <dl class="figures">
                  <div><dt>${t('team.by')}</dt><dd><${Id} id=${one.actorId} whole=${true} />${made ? html` <span class="muted">${word(made.actorKind ?? '')}</span>` : ''}</dd></div>
                  <div><dt>${t('team.at')}</dt><dd><${Time} at=${made?.at} /></dd></div>
                  <div><dt>${field('targetAssignmentKey')}</dt><dd><${Id} id=${one.targetAssignmentKey} /></dd></div>
                  <div><dt>${field('reasonCode')}</dt><dd>${word(one.reasonCode ?? '–')}</dd></div>
                  <div><dt>${field('selectedCandidateSnapshotId')}</dt><dd><${Id} id=${one.selectedCandidateSnapshotId} /></dd></div>
                </dl></li>`
            })}</ol>`
          : html`<${Empty}>${t('team.none')}<//>`}<//>
      <//>
      ${['adjustment', 'preRegistration', 'payout', 'delegation', 'careHistoryGrant'].map((name) => html`<${Related} key=${name} name=${name} id=${id} concerns=${concerns} />`)}
    </div>`
}

/** What else belongs to the booking, of one kind. @param {{name: string, id: string, concerns: (subject: string) => boolean}} props */
function Related({ name, id, concerns }) {
  const kind = kindNamed(name)
  const pages = useRef(1)
  const page = useLoad(async (signal) => {
    let [items, next] = [/** @type {any[]} */ ([]), /** @type {string | null | undefined} */ (undefined)]
    for (let asked = 0; asked < pages.current && next !== null; asked += 1) {
      const found = await get(`/${kind?.path}`, { reservationBookingId: id, limit: RELATED, cursor: next }, signal)
      items = [...items, ...found.items]
      next = found.next
    }
    return { items, next }
  }, [name, id], concerns)
  const more = () => {
    pages.current += 1
    page.again()
  }
  if (!kind) return ''
  return html`<${Panel} title=${t(`kind.${name}`)}><${When} of=${page}>${(/** @type {any} */ found) => found.items.length === 0
    ? html`<p class="muted small">${t('state.noneToSee')}</p>`
    : html`<ul class="plain-list">${found.items.map((/** @type {any} */ one) => html`<li key=${pathOf(kind, one)}>
        <a class="id" href=${linkToResource(pathOf(kind, one))}>${one[kind.columns[0]] ? String(one[kind.columns[0]]).length < 24 ? word(String(one[kind.columns[0]])) : `${String(one[kind.columns[0]]).slice(0, 12)}…` : t('resource.title')}</a>
        ${kind.columns.slice(1).map((column) => html` <${Scalar} key=${column} path=${column} value=${one[column]} />`)}
        ${kind.status ? html` <${Status} value=${one[kind.status]} />` : ''} ${kind.at ? html`<${Time} at=${one[kind.at]} />` : ''}</li>`)}</ul>
      ${found.next ? html`<p class="actions"><span class="muted small">${t('related.first', { n: number(found.items.length) })}</span> <button type="button" onClick=${more}>${t('related.more')}</button></p>` : ''}`}<//><//>`
}
