// A list of the API, of any length: pages are asked for as one scrolls, and of what was asked for only
// the rows in sight are in the page.

import { html, useCallback, useEffect, useLayoutEffect, useRef, useState } from '../lib/html.js'
import { get } from '../lib/api.js'
import { anyOf, onEvents } from '../lib/events.js'
import { problemOf } from '../lib/load.js'
import { number } from '../lib/format.js'
import { t } from '../lib/words.js'
import { Empty, Loading, Problem } from './states.js'

const PAGE = 100
/** Rows that are made beyond those in sight, on each side. */
const BESIDE = 8
const NARROW = matchMedia('(max-width: 760px)')

/** @typedef {{key: string, label: string, grow?: number, end?: boolean, show: (item: any) => any}} Column */

/**
 * @param {object} props
 * @param {string} props.path
 * @param {Record<string, string | undefined>} [props.query]
 * @param {Column[]} props.columns the first one names the row
 * @param {(item: any) => string} props.idOf
 * @param {string} props.label
 * @param {any} [props.empty]
 * @param {(subject: string, type: string) => boolean} [props.concerns] events of what it lists
 */
export function Listing({ path, query = {}, columns, idOf, label, empty, concerns }) {
  const [items, setItems] = useState(/** @type {any[]} */ ([]))
  const [next, setNext] = useState(/** @type {string | null | undefined} */ (undefined))
  const [problem, setProblem] = useState(/** @type {any} */ (null))
  const [news, setNews] = useState(0)
  const [narrow, setNarrow] = useState(NARROW.matches)
  const [view, setView] = useState({ top: 0, height: 600 })
  const box = useRef(/** @type {HTMLDivElement | null} */ (null))
  const asking = useRef(/** @type {AbortController | null} */ (null))
  const key = JSON.stringify([path, query])
  const rowHeight = narrow ? 76 : 37

  const ask = useCallback((/** @type {string | undefined} */ cursor) => {
    asking.current?.abort()
    const abort = new AbortController()
    asking.current = abort
    const began = performance.now()
    get(path, { ...query, limit: PAGE, cursor }, abort.signal).then(
      (page) => {
        if (abort.signal.aborted) return
        asking.current = null
        setProblem(null)
        setItems((old) => (cursor ? [...old, ...page.items] : page.items))
        setNext(page.next)
        requestAnimationFrame(() => performance.measure('carebook.page', { start: began, end: performance.now() }))
      },
      (error) => {
        if (abort.signal.aborted) return
        asking.current = null
        setProblem(problemOf(error))
      },
    )
  }, [key])

  useEffect(() => {
    setItems([])
    setNext(undefined)
    setNews(0)
    if (box.current) box.current.scrollTop = 0
    ask(undefined)
    return () => asking.current?.abort()
  }, [key])

  useEffect(() => {
    const changed = () => setNarrow(NARROW.matches)
    NARROW.addEventListener('change', changed)
    return () => NARROW.removeEventListener('change', changed)
  }, [])

  useEffect(() => {
    if (!concerns) return
    return onEvents((events) => {
      if (!anyOf(events, concerns)) return
      const ours = events.filter((event) => concerns(event.subject, event.type))
      if ((box.current?.scrollTop ?? 0) < 40) ask(undefined)
      else setNews((news) => news + Math.max(1, ours.length))
    })
  }, [key])

  useLayoutEffect(() => {
    const element = box.current
    if (!element) return
    const look = () => setView({ top: element.scrollTop, height: element.clientHeight })
    look()
    element.addEventListener('scroll', look, { passive: true })
    const observer = new ResizeObserver(look)
    observer.observe(element)
    return () => {
      element.removeEventListener('scroll', look)
      observer.disconnect()
    }
  }, [])

  const first = Math.max(0, Math.floor(view.top / rowHeight) - BESIDE)
  const last = Math.min(items.length, Math.ceil((view.top + view.height) / rowHeight) + BESIDE)
  useEffect(() => {
    if (next && last >= items.length - BESIDE * 2 && !asking.current && !problem) ask(next)
  }, [last, next, items.length, problem])

  /** The arrows go from row to row. @param {KeyboardEvent} event */
  const move = (event) => {
    const by = event.key === 'ArrowDown' ? 1 : event.key === 'ArrowUp' ? -1 : 0
    const row = /** @type {HTMLElement | null} */ (document.activeElement)?.closest('[data-row]')
    if (!by || !row) return
    event.preventDefault()
    const index = Number(row.getAttribute('data-row')) + by
    const element = box.current
    const target = () => /** @type {HTMLElement | null | undefined} */ (element?.querySelector(`[data-row="${index}"] a, [data-row="${index}"] button`))
    if (element && index >= 0 && index < items.length) {
      const top = index * rowHeight
      if (top < element.scrollTop) element.scrollTop = top
      if (top + rowHeight > element.scrollTop + element.clientHeight) element.scrollTop = top + rowHeight - element.clientHeight
      target()?.focus({ preventScroll: true })
    }
  }

  const isOut = next === null
  const grow = columns.map((column) => `minmax(0, ${column.grow ?? 1}fr)`).join(' ')
  return html`<div class="listing">
    ${news ? html`<button type="button" class="news" onClick=${() => { if (box.current) box.current.scrollTop = 0; setNews(0); ask(undefined) }}>${t('list.news', { n: number(news) })}</button>` : ''}
    ${problem ? html`<${Problem} problem=${problem} again=${() => ask(items.length ? next ?? undefined : undefined)} />` : ''}
    <div class="rows" role="table" aria-label=${label} aria-rowcount=${isOut ? items.length + 1 : -1} aria-busy=${next === undefined}>
      <div class="row head" role="row" style=${{ gridTemplateColumns: grow }}>
        ${columns.map((column) => html`<div key=${column.key} role="columnheader" class=${column.end ? 'end' : ''}>${column.label}</div>`)}
      </div>
      <div class="window" ref=${box} role="rowgroup" tabindex="0" aria-label=${label} onKeyDown=${move}>
        <div class="tall" role="presentation" style=${{ height: `${items.length * rowHeight}px` }}>
          ${items.slice(first, last).map((item, offset) => html`
            <div key=${idOf(item)} class="row" role="row" data-row=${first + offset} aria-rowindex=${first + offset + 2}
              style=${{ transform: `translateY(${(first + offset) * rowHeight}px)`, height: `${rowHeight}px`, gridTemplateColumns: narrow ? undefined : grow }}>
              ${columns.map((column) => html`<div key=${column.key} role="cell" class=${column.end ? 'end' : ''} data-label=${column.label}>${column.show(item)}</div>`)}
            </div>`)}
        </div>
        ${items.length === 0 && isOut ? html`<div role="row"><div role="cell"><${Empty}>${empty}<//></div></div>` : ''}
        ${next === undefined && !problem ? html`<div role="row"><div role="cell"><${Loading} /></div></div>` : ''}
      </div>
    </div>
    <p class="foot muted small" aria-live="polite">${next === undefined ? '' : t(isOut ? 'list.all' : 'list.some', { n: number(items.length) })}</p>
  </div>`
}
