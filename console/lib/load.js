// A value that is asked for: loading, there, or refused; asked for again when something is told of it.

import { useCallback, useEffect, useRef, useState } from './html.js'
import { Refused } from './api.js'
import { anyOf, onEvents } from './events.js'

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
export function bound(scope) {
  const abort = new AbortController()
  const above = scope?.current.signal
  if (above?.aborted) abort.abort()
  above?.addEventListener('abort', () => abort.abort(), { signal: abort.signal })
  return abort
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
  useEffect(() => {
    const abort = bound(scope)
    if (abort.signal.aborted) return
    setState((old) => (old.of === of ? { ...old, isLoading: true } : { of, isLoading: true }))
    asking.current(abort.signal).then(
      (value) => !abort.signal.aborted && setState({ of, value, isLoading: false }),
      (error) => !abort.signal.aborted && setState((old) => ({ of, value: old.of === of ? old.value : undefined, problem: problemOf(error), isLoading: false })),
    )
    return () => abort.abort()
  }, [of, turn])
  const again = useCallback(() => setTurn((turn) => turn + 1), [])
  const concerning = useRef(concerns)
  concerning.current = concerns
  useEffect(() => {
    if (!concerns) return
    return onEvents((events) => {
      if (anyOf(events, (subject, type) => Boolean(concerning.current?.(subject, type)))) again()
    })
  }, [Boolean(concerns)])
  return { value: state.value, problem: state.problem, isLoading: state.isLoading, again }
}
