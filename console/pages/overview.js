// For who is on call: does it take commands, how fast, what is refused, how the log and the keys are.

import { html, useEffect, useState } from '../lib/html.js'
import { get } from '../lib/api.js'
import { now } from '../lib/clock.js'
import { areMany, onEvents, recent } from '../lib/events.js'
import { latest, points, quantile, sample, trouble } from '../lib/figures.js'
import { ago, bytes, duration, number, time } from '../lib/format.js'
import { useLoad } from '../lib/load.js'
import { link } from '../lib/router.js'
import { t, word } from '../lib/words.js'
import { Chart, STEPS } from '../components/chart.js'
import { PageHead, Panel } from '../components/panel.js'
import { Empty, Loading, Problem, When } from '../components/states.js'
import { Id, Subject, Time } from '../components/values.js'

/** What is for others is no fault: it is said once, and quietly. @param {import('../lib/api.js').Problem | undefined} problem */
const isForbidden = (problem) => problem?.status === 403

export function Overview() {
  useEffect(sample, [])
  const figures = latest.value
  return html`
    <${PageHead} title=${t('overview.title')} lead=${figures ? t('overview.lead', { version: figures.version, since: duration((Date.parse(figures.at) - Date.parse(figures.startedAt)) / 1000) }) : ''}>
      ${figures ? html`<${Ready} figures=${figures} isOld=${Boolean(trouble.value)} />` : ''}
    <//>
    ${trouble.value ? isForbidden(trouble.value) ? html`<p class="muted">${t('overview.forbidden')}</p>` : html`<${Problem} problem=${trouble.value} />` : ''}
    ${figures ? html`<${Lines} /><div class=${trouble.value ? 'columns old' : 'columns'}>
      <${Needs} /><${Refusals} figures=${figures} /><${Log} figures=${figures} /><${Snapshots} figures=${figures} /><${Keys} figures=${figures} /><${Operations} figures=${figures} />
    </div>` : trouble.value ? '' : html`<${Loading} />`}
    <${Feed} />`
}

/** @param {{figures: any, isOld: boolean}} props */
function Ready({ figures, isOld }) {
  if (isOld) return html`<p class="ready bad" role="status"><span class="dot" aria-hidden="true"></span> ${t('overview.notKnown', { time: time(figures.at) })}</p>`
  if (figures.role === 'standby') return html`<p class="ready waiting" role="status"><span class="dot" aria-hidden="true"></span> ${t('overview.standby')}</p>`
  return html`<p class=${figures.ready ? 'ready good' : 'ready bad'} role="status"><span class="dot" aria-hidden="true"></span>
    ${figures.ready ? t('overview.ready') : t('overview.unready', { why: figures.unready.map((/** @type {string} */ one) => t(`unready.${one}`)).join(', ') })}</p>`
}

function Lines() {
  const all = points.value
  const seconds = (/** @type {number} */ value) => duration(value)
  return html`<div class="charts" role="group" aria-label=${t('overview.lines')}>
    <${Chart} title=${t('chart.rate')} steps=${STEPS.counts} points=${all} show=${(/** @type {number} */ one) => `${number(one, one < 10 ? 1 : 0)}/s`} lines=${[{ key: 'rate', label: t('chart.answered'), tone: 'one' }, { key: 'refused', label: t('chart.refused'), tone: 'two' }]} />
    <${Chart} title=${t('chart.latency')} steps=${STEPS.seconds} points=${all} show=${seconds} lines=${[{ key: 'p50', label: 'p50', tone: 'one' }, { key: 'p99', label: 'p99', tone: 'two' }]} />
    <${Chart} title=${t('chart.sync')} steps=${STEPS.seconds} points=${all} show=${seconds} lines=${[{ key: 'sync', label: t('chart.mean'), tone: 'one' }]} />
    <${Chart} title=${t('chart.queue')} steps=${STEPS.bytes} points=${all} show=${(/** @type {number} */ one) => bytes(one)} lines=${[{ key: 'queued', label: t('chart.bytes'), tone: 'one' }]} />
    <${Chart} title=${t('chart.memory')} steps=${STEPS.bytes} points=${all} show=${(/** @type {number} */ one) => bytes(one)} lines=${[{ key: 'memory', label: t('chart.bytes'), tone: 'one' }]} />
    <${Chart} title=${t('chart.connections')} steps=${STEPS.counts} points=${all} show=${(/** @type {number} */ one) => number(one, 1)} lines=${[{ key: 'connections', label: t('chart.open'), tone: 'one' }, { key: 'inFlight', label: t('chart.inFlight'), tone: 'two' }]} />
  </div>`
}

/** What was not told is not none. @param {number | undefined} count */
const counted = (count) => (count === undefined ? '–' : number(count))

/** What somebody has to look after. */
function Needs() {
  const waiting = useLoad(async (signal) => {
    const [statements, ready] = await Promise.all([
      get('/settlement-statements', { status: 'awaiting_branch_deposit', order: 'oldest', limit: 1 }, signal),
      // One that is not ready says as much of them.
      get('/readyz', {}, signal).catch((error) => error.problem ?? null),
    ])
    const { outbox, webhooks } = ready ?? {}
    return { oldest: statements.items[0] ?? null, waiting: outbox && outbox.waiting + outbox.withoutReceiver, dead: outbox?.dead, failing: webhooks?.failing }
  }, [], (subject) => /^(settlement-statements|outbox)/.test(subject))
  return html`<${Panel} title=${t('needs.title')}><${When} of=${waiting}>${(/** @type {any} */ { oldest, waiting, dead, failing }) => html`<dl class="figures">
    <div><dt><a href=${link(['statements'], { status: 'awaiting_branch_deposit' })}>${t('needs.oldestStatement')}</a></dt><dd>${oldest ? html`<span title=${oldest.createdAt}>${ago(oldest.createdAt, now.value)}</span>` : t('value.nothing')}</dd></div>
    <div><dt><a href=${link(['deliveries'], { state: 'waiting' })}>${t('needs.messagesWaiting')}</a></dt><dd>${counted(waiting)}</dd></div>
    <div><dt><a href=${link(['deliveries'], { state: 'dead' })}>${t('needs.messagesDead')}</a></dt><dd class=${dead ? 'bad' : ''}>${counted(dead)}</dd></div>
    <div><dt><a href=${link(['deliveries'], { tab: 'webhooks' })}>${t('needs.webhooksFailing')}</a></dt><dd class=${failing ? 'bad' : ''}>${counted(failing)}</dd></div>
  </dl>`}<//><//>`
}

/** @param {{figures: any}} props */
function Refusals({ figures }) {
  const codes = Object.entries({ ...figures.refusals }).sort((a, b) => Number(b[1]) - Number(a[1]))
  return html`<${Panel} title=${t('refusals.title')} aside=${html`<span class="muted small">${t('overview.sinceStart')}</span>`}>
    ${codes.length ? html`<dl class="figures">${codes.slice(0, 8).map(([code, count]) => html`<div key=${code}><dt><code>${code}</code></dt><dd>${number(Number(count))}</dd></div>`)}</dl>` : html`<${Empty}>${t('refusals.none')}<//>`}
    ${Object.keys(figures.tokensRefused).length ? html`<h3>${t('refusals.tokens')}</h3><dl class="figures">${Object.entries(figures.tokensRefused).map(([code, count]) => html`<div key=${code}><dt><code>${code}</code></dt><dd>${number(Number(count))}</dd></div>`)}</dl>` : ''}
  <//>`
}

/** @param {{figures: any}} props */
function Log({ figures }) {
  const { log, kept, engine } = figures
  return html`<${Panel} title=${t('log.title')}><dl class="figures">
    <div><dt>${t('log.position')}</dt><dd>${number(log.durablePosition)}</dd></div>
    <div><dt>${t('log.first')}</dt><dd>${number(log.firstPosition)}</dd></div>
    <div><dt>${t('log.bytes')}</dt><dd>${bytes(log.bytes)}</dd></div>
    <div><dt>${t('log.kept')}</dt><dd>${t('log.keptFor', { time: duration(kept.logSeconds), bytes: bytes(kept.logBytes) })}</dd></div>
    <div><dt>${t('log.keptForDelivery')}</dt><dd>${t('log.keptFor', { time: duration(kept.logForDeliverySeconds), bytes: bytes(kept.logForDeliveryBytes) })}</dd></div>
    <div><dt>${t('log.keys')}</dt><dd>${kept.idempotencyKeysSeconds === null ? t('log.forEver') : duration(kept.idempotencyKeysSeconds)} · ${number(engine.idempotencyKeys)}</dd></div>
    <div><dt>${t('log.archive')}</dt><dd>${kept.isArchived ? t('value.yes') : t('value.no')}</dd></div>
    <div><dt>${t('log.sync')}</dt><dd>${duration(quantile(log.syncBuckets, log.syncBoundsSeconds, 0.99) ?? 0)}</dd></div>
    <div><dt>${t('log.disk')}</dt><dd>${log.diskFreeBytes === null ? '–' : bytes(log.diskFreeBytes)}</dd></div>
    <div><dt>${t('log.role')}</dt><dd>${t(`role.${figures.role}`)}${figures.behind ? html` · ${t('log.behind', { n: number(figures.behind.positions), time: duration(figures.behind.seconds) })}` : ''}</dd></div>
    <div><dt>${t('log.resources')}</dt><dd>${number(engine.resources)}</dd></div>
  </dl><//>`
}

/** @param {{figures: any}} props */
function Snapshots({ figures }) {
  const { snapshots, kept, log } = figures
  return html`<${Panel} title=${t('snapshots.title')}><dl class="figures">
    <div><dt>${t('snapshots.at')}</dt><dd>${snapshots.at ? html`<${Time} at=${snapshots.at} />` : t('value.nothing')}</dd></div>
    <div><dt>${t('snapshots.position')}</dt><dd>${number(snapshots.position)}</dd></div>
    <div><dt>${t('snapshots.bytes')}</dt><dd>${bytes(snapshots.bytes)}</dd></div>
    <div><dt>${t('snapshots.every')}</dt><dd>${t('snapshots.everyOf', { time: duration(kept.snapshotIntervalSeconds), bytes: bytes(kept.snapshotLogBytes) })}</dd></div>
    <div><dt>${t('snapshots.failures')}</dt><dd class=${snapshots.failures ? 'bad' : ''}>${number(snapshots.failures)}</dd></div>
    <div><dt>${t('snapshots.segments')}</dt><dd>${number(log.removedSegments)}</dd></div>
  </dl><//>`
}

/** @param {{figures: any}} props */
function Keys({ figures }) {
  const { keys } = figures
  return html`<${Panel} title=${t('keys.title')}><dl class="figures">
    <div><dt>${t('keys.age')}</dt><dd>${duration(Math.floor(keys.ageSeconds))}</dd></div>
    <div><dt>${t('keys.failures')}</dt><dd class=${keys.failures ? 'bad' : ''}>${number(keys.failures)}</dd></div>
    ${keys.inUse.map((/** @type {any} */ key) => html`<div key=${key.kid}><dt><${Id} id=${key.kid} /></dt><dd><code>${key.alg}</code></dd></div>`)}
  </dl>${keys.inUse.length ? '' : html`<p class="bad">${t('keys.none')}</p>`}<//>`
}

/** @param {{figures: any}} props */
function Operations({ figures }) {
  const busiest = [...figures.requests].filter((one) => one.operation !== 'console').sort((a, b) => b.answered - a.answered).slice(0, 8)
  return html`<${Panel} title=${t('operations.title')} aside=${html`<span class="muted small">${t('overview.sinceStart')}</span>`}>
    <div class="scroll-x" tabindex="0" role="group" aria-label=${t('operations.title')}><table class="plain"><thead><tr><th scope="col">${t('operations.name')}</th><th scope="col" class="end">${t('operations.answered')}</th><th scope="col" class="end">${t('operations.refused')}</th><th scope="col" class="end">p99</th></tr></thead>
    <tbody>${busiest.map((one) => html`<tr key=${one.operation}><th scope="row"><code>${one.operation}</code></th><td class="end">${number(one.answered)}</td><td class="end">${number(one.refused + one.failed)}</td><td class="end">${duration(quantile(one.buckets, figures.requestBoundsSeconds, 0.99) ?? 0)}</td></tr>`)}</tbody></table></div>
  <//>`
}

/** What was committed last, and what is committed now. */
function Feed() {
  const [told, setTold] = useState(/** @type {import('../lib/events.js').Told[]} */ ([]))
  // It is asked for again when much has changed, which concerns everybody: what came in between is not told then.
  const first = useLoad((signal) => recent(signal, 12), [], () => false)
  useEffect(() => onEvents((events) => {
    if (areMany(events)) setTold([])
    else setTold((old) => [...events].reverse().concat(old).slice(0, 12))
  }), [])
  if (isForbidden(first.problem)) return ''
  return html`<${Panel} title=${t('feed.title')}><${When} of=${first}>${(/** @type {any[]} */ before) => {
    const all = told.concat(before.filter((event) => !told.some((one) => one.id === event.id))).slice(0, 12)
    if (all.length === 0) return html`<${Empty} />`
    return html`<ol class="feed">${all.map((event) => html`<li key=${event.id}>
      <${Time} at=${event.time} /><span class="feed-what">${word(event.data.operation)}</span>
      <${Subject} path=${event.subject} byKind=${true} />
      <span class="muted">${event.data.actorKind ? word(event.data.actorKind) : t('value.nobody')}</span></li>`)}</ol>`
  }}<//><//>`
}
