// A history: each revision with who, when, by which operation, and its differences side by side.

import { html, useCallback, useEffect, useRef, useState } from '../lib/html.js'
import { get } from '../lib/api.js'
import { anyOf, areMany, onEvents } from '../lib/events.js'
import { problemOf, useRepeat } from '../lib/load.js'
import { t, word } from '../lib/words.js'
import { Differences } from './differences.js'
import { Loading, Problem } from './states.js'
import { Time } from './values.js'

/** @param {{path: string, subject: string, stoodAt: (revision: number) => void}} props */
export function Timeline({ path, subject, stoodAt }) {
  const [revisions, setRevisions] = useState(/** @type {any[] | null} */ (null))
  const [next, setNext] = useState(/** @type {string | null} */ (null))
  const [isComplete, setComplete] = useState(true)
  const [problem, setProblem] = useState(/** @type {any} */ (null))
  const shown = useRef(/** @type {any[] | null} */ (null))
  shown.current = revisions
  /** The position of the one that is open at first. */
  const [opened, setOpened] = useState(/** @type {number | null} */ (null))
  const repeat = useRepeat(() => renew())
  const ask = useCallback((/** @type {string | undefined} */ cursor) => {
    const abort = repeat.asks()
    get(`${path}/history`, { limit: 20, cursor }, abort.signal).then(
      (page) => {
        if (abort.signal.aborted) return
        setProblem(null)
        setRevisions((old) => (cursor && old ? [...old, ...page.revisions] : page.revisions))
        if (!cursor) setOpened(page.revisions[0]?.position ?? null)
        setNext(page.next)
        setComplete(page.complete)
        repeat.answered()
      },
      (error) => {
        if (abort.signal.aborted) return
        setProblem({ ...problemOf(error), cursor })
        repeat.failed(problemOf(error), false)
      },
    )
  }, [path])
  // What is new comes before what is being read, which stays as it is.
  const renew = useCallback(async () => {
    repeat.stop()
    const newest = shown.current?.[0]?.position
    if (newest === undefined) return ask(undefined)
    const abort = repeat.asks()
    try {
      /** @type {any[]} */
      const fresh = []
      for (let cursor; cursor !== null; ) {
        const page = await get(`${path}/history`, { limit: 20, cursor }, abort.signal)
        const newer = page.revisions.filter((/** @type {any} */ one) => one.position > newest)
        fresh.push(...newer)
        cursor = newer.length < page.revisions.length ? null : page.next
      }
      if (abort.signal.aborted) return
      // Older revisions that were refused are still missing.
      setProblem((/** @type {any} */ old) => (old?.cursor ? old : null))
      setRevisions((old) => [...fresh.filter((one) => one.position > (old?.[0]?.position ?? 0)), ...(old ?? [])])
      repeat.answered()
    } catch (error) {
      if (abort.signal.aborted) return
      setProblem(problemOf(error))
      repeat.failed(problemOf(error), true)
    }
  }, [path])
  useEffect(() => {
    setRevisions(null)
    ask(undefined)
    return repeat.stop
  }, [path])
  useEffect(() => onEvents((events) => {
    if (anyOf(events, (told) => told === subject)) repeat.told(1, areMany(events))
  }), [path, subject])
  if (problem && !revisions) return html`<${Problem} problem=${problem} again=${() => ask(undefined)} />`
  if (!revisions) return html`<${Loading} />`
  return html`${problem ? html`<${Problem} problem=${problem} again=${() => (problem.cursor ? ask(problem.cursor) : renew())} />` : ''}<ol class="timeline">
    ${revisions.map((one) => html`<li key=${one.position} class="revision">
      <details open=${one.position === opened}>
        <summary>
          <span class="revision-number">${t('timeline.revision', { n: one.revision })}</span>
          <span class="revision-what">${word(one.operation)}</span>
          <span class="revision-who">${one.actorKind ? html`${word(one.actorKind)} <span class="muted">${one.actorProfileId ?? ''}</span>` : html`<span class="muted">${t('value.nobody')}</span>`}</span>
          <${Time} at=${one.at} />
          <span class="muted small">${t('timeline.changes', { n: one.changes.length })}</span>
        </summary>
        <${Differences} changes=${one.changes} label=${t('timeline.differencesOf', { n: one.revision })} />
        <p class="actions"><button type="button" onClick=${() => stoodAt(one.revision)}>${t('timeline.asItStood')}</button> <span class="muted small">${t('timeline.position', { n: one.position })}</span></p>
      </details></li>`)}
  </ol>
  ${next ? html`<button type="button" onClick=${() => ask(next)}>${t('timeline.older')}</button>` : html`<p class="muted small">${t(isComplete ? 'timeline.complete' : 'timeline.incomplete')}</p>`}`
}
