// A value that is asked for: loading, there, or refused; asked for again when something is told of it.

import { useCallback, useEffect, useMemo, useRef, useState } from './html.js'
import { Refused } from './api.js'
import { anyOf, areMany, later, onEvents } from './events.js'

/**
 * @template T
 * @typedef {{value: T | undefined, problem: import('./api.js').Problem | undefined, isLoading: boolean, again: () => void}} Loaded
 */

/** @param {unknown} error @returns {import('./api.js').Problem} */
export function problemOf(error) {
  if (error instanceof Refused) return error.problem
  return { status: 0, code: 'internal_error', message: String(error) }
}

/**
 * Whether what was asked for may have been done in spite of this: the same is to be sent again then, and nothing else.
 * @param {import('./api.js').Problem | null} problem
 */
export const mayBeDone = (problem) => problem?.asked === 'sent' && (problem.code === 'unreachable' || problem.code === 'outcome_unknown')

/**
 * What is told after one more failure: that one before may have done it counts until that is known.
 * @param {import('./api.js').Problem | null} before
 * @param {import('./api.js').Problem} found
 */
export function failedAgain(before, found) {
  // Who has to sign in again learns nothing of what was done.
  const isKnown = found.status >= 400 && found.status < 500 && ![401, 408, 429].includes(found.status)
  return before && mayBeDone(before) && !isKnown ? before : found
}

/**
 * For one question: aborted with what it is asked under, too.
 * @param {{current: AbortController}} [scope]
 */
function bound(scope) {
  const abort = new AbortController()
  const above = scope?.current.signal
  if (above?.aborted) abort.abort()
  above?.addEventListener('abort', () => abort.abort(), { signal: abort.signal })
  return abort
}

/** How long after a failure what is shown is asked for once more, in milliseconds: twice as long each time. */
const REPEATED_AFTER = 2_000
const REPEATED_AFTER_MAX = 30_000
/** Pages that were refused together do not all ask again together: this share more or less. */
const SPREAD = 0.25

/** Whether the same may be answered later, though nobody does anything about it. @param {import('./api.js').Problem} problem */
const passes = ({ code, status }) => code === 'unreachable' || status === 429 || status >= 500

/**
 * When to ask again for what is shown: when something is told of it. What is told during a request is noted, and it is
 * asked for once more after the answer: if each event began a new request, answers that take long would never come. What
 * could not be renewed is asked for again a little later, until it is answered or refused for good, since no event need
 * follow; events do not shorten that pause, unless so much has changed that not each change is told.
 * @param {(events: number) => void} again asks, or does what takes its place; `events` is how many were noted
 */
export function useRepeat(again) {
  const latest = useRef(again)
  latest.current = again
  const repeat = useMemo(() => {
    /** @type {AbortController | undefined} */
    let asking
    /** @type {AbortController | undefined} */
    let waiting
    /** Whether it is to be asked for once more, after the answer or the pause. */
    let isDue = false
    let isPausing = false
    /** Events since it was asked for last, and those that made it be asked for. */
    let [noted, concerned] = [0, 0]
    let pause = REPEATED_AFTER
    const isAsking = () => asking?.signal.aborted === false
    const rest = () => {
      waiting?.abort()
      isDue = false
      isPausing = false
    }
    const stop = () => {
      asking?.abort()
      rest()
      noted = 0
      concerned = 0
    }
    /** For a request, which takes the place of one that is under way. @param {{current: AbortController}} [scope] */
    const asks = (scope) => {
      // The one before may have been to renew it.
      isDue ||= isAsking()
      noted += concerned
      concerned = 0
      asking?.abort()
      asking = bound(scope)
      return asking
    }
    const go = () => {
      const events = noted
      rest()
      noted = 0
      latest.current(events)
      concerned = isAsking() ? events : 0
    }
    /** @param {number} events @param {boolean} [isMuch] */
    const told = (events, isMuch) => {
      noted += events
      isDue = true
      if (!isAsking() && (!isPausing || isMuch)) go()
    }
    /** Later, though it is at once: what has come is drawn before. @param {number} time */
    const after = (time) => {
      waiting?.abort()
      waiting = new AbortController()
      later(() => told(0, true), time, waiting.signal)
    }
    const answered = () => {
      asking?.abort()
      concerned = 0
      pause = REPEATED_AFTER
      if (isDue) after(0)
    }
    /** @param {import('./api.js').Problem} problem @param {boolean} isShown */
    const failed = (problem, isShown) => {
      asking?.abort()
      noted += concerned
      concerned = 0
      isPausing = passes(problem) && (isShown || isDue)
      if (isPausing) {
        isDue = true
        after(pause * (1 - SPREAD + 2 * SPREAD * Math.random()))
        pause = Math.min(pause * 2, REPEATED_AFTER_MAX)
      } else if (isDue) after(0)
    }
    return { asks, told, answered, failed, isAsking, stop }
  }, [])
  useEffect(() => repeat.stop, [])
  return repeat
}

/**
 * @template T
 * @param {(signal: AbortSignal) => Promise<T>} ask
 * @param {unknown[]} inputs asked anew when one of them changes
 * @param {(subject: string, type: string) => boolean} [concerns] which events make it be asked for again
 * @param {{current: AbortController}} [scope] nothing is asked for once it is aborted, and what is under way is given up
 * @returns {Loaded<T>}
 */
export function useLoad(ask, inputs, concerns, scope) {
  const of = JSON.stringify(inputs)
  const [held, setState] = useState(/** @type {{of: string, value?: T, problem?: any, isLoading: boolean}} */ ({ of, isLoading: true }))
  // What was there for other inputs is not this.
  const state = held.of === of ? held : { of, isLoading: true, value: undefined, problem: undefined }
  const [turn, setTurn] = useState(0)
  const asking = useRef(ask)
  asking.current = ask
  const isShown = useRef(false)
  isShown.current = state.value !== undefined
  const again = useCallback(() => setTurn((turn) => turn + 1), [])
  const repeat = useRepeat(again)
  useEffect(() => {
    repeat.stop()
    const abort = repeat.asks(scope)
    if (abort.signal.aborted) return
    setState((old) => (old.of === of ? { ...old, isLoading: true } : { of, isLoading: true }))
    asking.current(abort.signal).then(
      (value) => {
        if (abort.signal.aborted) return
        repeat.answered()
        setState({ of, value, isLoading: false })
      },
      (error) => {
        if (abort.signal.aborted) return
        const problem = problemOf(error)
        repeat.failed(problem, isShown.current)
        setState((old) => ({ of, value: old.of === of ? old.value : undefined, problem, isLoading: false }))
      },
    )
  }, [of, turn])
  const concerning = useRef(concerns)
  concerning.current = concerns
  useEffect(() => {
    if (!concerns) return
    return onEvents((events) => {
      if (anyOf(events, (subject, type) => Boolean(concerning.current?.(subject, type)))) repeat.told(1, areMany(events))
    })
  }, [Boolean(concerns)])
  return { value: state.value, problem: state.problem, isLoading: state.isLoading, again }
}
