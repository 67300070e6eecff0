// One webhook: how it stands, what waits and what is dead, and what can be done about it.

import { html, useEffect, useMemo, useRef, useState } from '../lib/html.js'
import { get } from '../lib/api.js'
import { number } from '../lib/format.js'
import { useLoad } from '../lib/load.js'
import { link, oneOf, refine } from '../lib/router.js'
import { t, word } from '../lib/words.js'
import { Act } from '../components/act.js'
import { Body } from '../components/body.js'
import { Listing } from '../components/listing.js'
import { PageHead, Panel } from '../components/panel.js'
import { When } from '../components/states.js'
import { Id, Status, Subject, Time } from '../components/values.js'
import { Secret, why } from './deliveries.js'

/** When it is asked what became of a retry, in milliseconds after it. */
const RETRIED = [0, 1_000, 4_000, 16_000]

const STATES = ['waiting', 'dead']

/** @param {{rest: string[], query: URLSearchParams}} props */
export function Subscription({ rest, query }) {
  const id = rest[0] ?? ''
  const path = `/webhook-subscriptions/${encodeURIComponent(id)}`
  const state = oneOf(query.get('state'), STATES)
  // Aborted while it is being deleted: what is about to be gone is not asked for.
  const stands = useMemo(() => ({ current: new AbortController() }), [path])
  const one = useLoad((signal) => get(path, {}, signal), [path], () => true, stands)
  const [turn, setTurn] = useState(0)
  const timers = useRef(/** @type {ReturnType<typeof setTimeout>[]} */ ([]))
  useEffect(() => () => timers.current.forEach(clearTimeout), [path])
  // That a delivery has come off is no event: what became of it is asked for, a few times.
  const lookAfter = () => {
    timers.current.forEach(clearTimeout)
    timers.current = RETRIED.map((after) => setTimeout(() => {
      one.again()
      setTurn((turn) => turn + 1)
    }, after))
  }
  /** @param {boolean} isSending */
  const going = (isSending) => {
    if (isSending) return stands.current.abort()
    stands.current = new AbortController()
    one.again()
    setTurn((turn) => turn + 1)
  }
  const columns = [
    { key: 'event', label: t('field.eventId'), grow: 0.8, show: (/** @type {any} */ delivery) => html`<${Id} id=${delivery.eventId} />` },
    { key: 'type', label: t('field.type'), grow: 2.4, show: (/** @type {any} */ delivery) => html`<code title=${delivery.type}>${delivery.type.replace(/^carebook\./, '')}</code>` },
    { key: 'subject', label: t('field.subject'), grow: 1.3, show: (/** @type {any} */ delivery) => html`<${Subject} path=${delivery.subject} />` },
    { key: 'attempts', label: t('field.attempts'), end: true, grow: 0.6, show: (/** @type {any} */ delivery) => number(delivery.attempts) },
    { key: 'why', label: t('deliveries.why'), grow: 1.7, show: (/** @type {any} */ delivery) => html`<span title=${delivery.lastError ?? ''}>${why(delivery)}</span>` },
    { key: 'next', label: t('field.nextAttemptAt'), grow: 1.3, wide: true, show: (/** @type {any} */ delivery) => html`<${Time} at=${delivery.nextAttemptAt} />` },
    { key: 'do', label: t('action.do'), grow: 1, show: (/** @type {any} */ delivery) => html`<${Act} label=${t('message.retry')} about=${`${delivery.type} ${delivery.eventId}`} explains=${t('webhooks.retryExplains')} method="POST" path=${`${path}/deliveries/${encodeURIComponent(delivery.eventId)}/retries`} done=${lookAfter} />` },
  ]
  const body = one.value
  const isPaused = body?.status === 'paused' || body?.status === 'gone'
  return html`
    <${PageHead} title=${t('subscription.title')} lead=${body && html`<span class="id">${body.url}</span>`}>${body ? html`
      <${Status} value=${body.status} />
      <${Act} label=${t(isPaused ? 'webhooks.resume' : 'webhooks.pause')} explains=${t(isPaused ? 'webhooks.resumeExplains' : 'webhooks.pauseExplains')} method="PATCH" path=${path}
        body=${{ expectedRevision: body.revision, status: isPaused ? 'enabled' : 'paused' }} about=${body.url} refused=${one.again} done=${() => { one.again() }} />
      <${Act} label=${t('webhooks.rotate')} about=${body.url} refused=${one.again} explains=${t('webhooks.rotateExplains')} method="POST" path=${`${path}/secret-rotations`} body=${{ expectedRevision: body.revision }}
        done=${(/** @type {any} */ answer) => { one.again(); return html`<${Secret} secret=${answer.secret} />` }} />
      <${Act} label=${t('webhooks.delete')} about=${body.url} explains=${t('webhooks.deleteExplains')} method="DELETE" path=${path} query=${{ expectedRevision: body.revision }} isGrave=${true}
        sending=${going} done=${() => { location.hash = link(['deliveries'], { tab: 'webhooks' }) }} />` : ''}
    <//>
    <${When} of=${one}>${(/** @type {any} */ body) => html`
      <${Panel} title=${t('resource.state')}><${Body} value=${body} /><//>
      <${Panel} title=${t('webhooks.deliveries')} aside=${html`<label class="inline"><span>${t('field.state')}</span> <select value=${state} onChange=${(/** @type {any} */ event) => refine({ state: event.target.value })}>
          ${STATES.map((value) => html`<option key=${value} value=${value} selected=${value === state}>${word(value)}</option>`)}</select></label>`}>
        <${Listing} path=${`${path}/deliveries`} query=${{ state }} columns=${columns} idOf=${(/** @type {any} */ delivery) => delivery.eventId} label=${t('webhooks.deliveries')} empty=${t('deliveries.none')} concerns=${() => true} turn=${turn} scope=${stands} />
      <//>`}<//>`
}
