// The figures of the service, sampled while somebody looks, and what they say over time.

import { effect, signal } from './html.js'
import { call } from './api.js'
import { problemOf } from './load.js'
import { actor } from './session.js'

const EVERY = 2_000
/** How long an answer is waited for, in milliseconds: after that it is not known how the service is. */
const WITHIN = 8_000
/** Ten minutes. */
const SAMPLES = 300

/**
 * @typedef {object} Point
 * @property {number} at seconds since 1970
 * @property {number | null} rate answers a second
 * @property {number | null} refused refusals a second
 * @property {number | null} p50 seconds
 * @property {number | null} p99 seconds
 * @property {number | null} sync seconds, the mean
 * @property {number} queued bytes
 * @property {number} inFlight
 * @property {number} memory bytes
 * @property {number} connections
 */

export const latest = signal(/** @type {any} */ (null))
export const points = signal(/** @type {Point[]} */ ([]))
export const trouble = signal(/** @type {any} */ (null))

// What one actor may read is not shown to the next.
effect(() => {
  void actor.value
  latest.value = null
  points.value = []
  trouble.value = null
})

/** What the page itself asks for is no load of the service's. */
const OWN = new Set(['console', 'read_events', 'metrics', 'healthz', 'readyz'])

/** @param {any} figures */
function sums(figures) {
  const buckets = figures.requestBoundsSeconds.map(() => 0).concat(0)
  let [answered, refused] = [0, 0]
  for (const series of figures.requests) {
    if (OWN.has(series.operation)) continue
    answered += series.answered
    refused += series.refused + series.failed
    series.buckets.forEach((/** @type {number} */ count, /** @type {number} */ index) => (buckets[index] += count))
  }
  const syncs = figures.log.syncBuckets.reduce((/** @type {number} */ all, /** @type {number} */ one) => all + one, 0)
  return { answered, refused, buckets, syncs, syncSeconds: figures.log.syncSeconds }
}

/**
 * The time within which a share of what was counted lies, within its bucket evenly spread.
 * @param {number[]} counts @param {number[]} bounds @param {number} share
 */
export function quantile(counts, bounds, share) {
  const all = counts.reduce((sum, one) => sum + one, 0)
  if (all === 0) return null
  let rest = all * share
  for (let index = 0; index < counts.length; index += 1) {
    if (rest <= counts[index]) {
      const low = index === 0 ? 0 : bounds[index - 1]
      const high = bounds[index] ?? bounds[bounds.length - 1]
      return low + (high - low) * (counts[index] ? rest / counts[index] : 1)
    }
    rest -= counts[index]
  }
  return bounds[bounds.length - 1]
}

/** @param {any} before @param {any} figures @returns {Point} */
function point(before, figures) {
  const at = Date.parse(figures.at) / 1000
  const gauges = {
    at,
    queued: figures.log.queuedBytes,
    inFlight: figures.engine.commandsInFlight,
    memory: figures.process.residentBytes,
    connections: figures.connections.open,
  }
  const since = before ? at - Date.parse(before.at) / 1000 : 0
  if (since <= 0) return { ...gauges, rate: null, refused: null, p50: null, p99: null, sync: null }
  const [was, is] = [sums(before), sums(figures)]
  const counts = is.buckets.map((/** @type {number} */ count, /** @type {number} */ index) => Math.max(0, count - was.buckets[index]))
  const syncs = is.syncs - was.syncs
  return {
    ...gauges,
    rate: Math.max(0, is.answered - was.answered) / since,
    refused: Math.max(0, is.refused - was.refused) / since,
    p50: quantile(counts, figures.requestBoundsSeconds, 0.5),
    p99: quantile(counts, figures.requestBoundsSeconds, 0.99),
    sync: syncs > 0 ? (is.syncSeconds - was.syncSeconds) / syncs : null,
  }
}

/** Samples until it is told to stop, or is told that this is not for who asks; not while the page is out of sight. */
export function sample() {
  const abort = new AbortController()
  let isAsking = false
  const look = async () => {
    if (document.hidden || isAsking) return
    isAsking = true
    try {
      const { body: figures } = await call('GET', '/console/figures', { signal: abort.signal, within: WITHIN })
      const before = latest.value
      // Another process, or a clock that was set back: lines do not go backwards.
      const isOther = before && (before.startedAt !== figures.startedAt || Date.parse(before.at) >= Date.parse(figures.at))
      points.value = [...(isOther ? [] : points.value), point(isOther ? null : before, figures)].slice(-SAMPLES)
      latest.value = figures
      trouble.value = null
    } catch (error) {
      if (!abort.signal.aborted) trouble.value = problemOf(error)
      if (trouble.value?.status === 403) clearInterval(timer)
    }
    isAsking = false
  }
  const timer = setInterval(look, EVERY)
  look()
  return () => {
    clearInterval(timer)
    abort.abort()
  }
}
