// A list of the API, of any length: pages are asked for as one scrolls. Of what was asked for, the pages
// around what is in sight are kept, and only the rows in sight are elements; a page that was let go is
// asked for again when one comes back to it. With Back or Forward one comes to the row at which the list was left.

import { effect, html, useCallback, useEffect, useLayoutEffect, useMemo, useRef, useState } from '../lib/html.js'
import { freshKey, get } from '../lib/api.js'
import { anyOf, areMany, onEvents } from '../lib/events.js'
import { problemOf, useRepeat } from '../lib/load.js'
import { number } from '../lib/format.js'
import { actor } from '../lib/session.js'
import { t } from '../lib/words.js'
import { Empty, Loading, Problem } from './states.js'

const PAGE = 100
/** Pages that are kept. A browser draws no element of more than some 33 million pixels, so a list of a million rows is never one. */
const PAGES = 20
/** Rows that are made beyond those in sight, on each side. */
const BESIDE = 8
/** A row has several lines then, and no head: the width is the one in console.css. */
const NARROW = matchMedia('screen and (max-width: 1100px)')
const PAPER = matchMedia('print')

/**
 * The pages that are kept.
 * @typedef {object} Held
 * @property {(string | undefined)[]} cursors of every page up to the last that is kept, by its number
 * @property {number} first the number of the first that is kept
 * @property {number} base the number of its first row
 * @property {any[][]} pages
 * @property {string | null | undefined} next the cursor of the page after the last; null where there is none, undefined before an answer
 * @property {number} moved rows by which what was kept before has moved down
 */

/** @type {Held} */
const NOTHING = { cursors: [], first: 0, base: 0, pages: [], next: undefined, moved: 0 }

/** With the first page alone. @param {any} page @returns {Held} */
const begun = (page) => ({ cursors: [undefined], first: 0, base: 0, pages: [page.items], next: page.next, moved: 0 })

/** With the page after those that are kept. @param {Held} held @param {any} page @returns {Held} */
function after(held, page) {
  const cursors = [...held.cursors.slice(0, held.first + held.pages.length), held.next ?? undefined]
  const pages = [...held.pages, page.items]
  const leaves = pages.length > PAGES ? pages.shift() ?? [] : null
  return { cursors, pages, next: page.next, first: held.first + (leaves ? 1 : 0), base: held.base + (leaves?.length ?? 0), moved: -(leaves?.length ?? 0) }
}

/** With the page before those that are kept. @param {Held} held @param {any} page @returns {Held} */
function before(held, page) {
  const first = held.first - 1
  const pages = [page.items, ...held.pages]
  const next = pages.length > PAGES ? held.cursors[first + pages.length - 1] : held.next
  if (pages.length > PAGES) pages.pop()
  return { cursors: held.cursors, pages, next, first, base: first === 0 ? 0 : held.base - page.items.length, moved: page.items.length }
}

/**
 * Where a list was left: the cursors up to the page that was in sight, the number of that page's first row, and which of its
 * rows was at the top.
 * @typedef {{cursors: (string | undefined)[], base: number, row: number}} Left
 */

/** How many lists are known for where they were left. */
const LISTS = 30

/** By who acts, the entry of the browser's history and the list: nobody is led to where another one was. @type {Map<string, Left>} */
const lefts = new Map()
effect(() => {
  if (actor.value !== undefined) lefts.clear()
})

/** The name of this entry of the browser's history. @returns {string} */
function entry() {
  if (!history.state?.entry) history.replaceState({ entry: freshKey() }, '')
  return history.state.entry
}

/** @param {string} at @param {Held} held @param {number} top the row that is at the top, of those that are kept */
function leave(at, held, top) {
  if (held.pages.length === 0) return
  let [page, row, base] = [0, top, held.base]
  for (; page < held.pages.length - 1 && row >= held.pages[page].length; page += 1) {
    row -= held.pages[page].length
    base += held.pages[page].length
  }
  lefts.delete(at)
  if (base + row >= 1) lefts.set(at, { cursors: held.cursors.slice(0, held.first + page + 1), base, row })
  if (lefts.size > LISTS) lefts.delete(/** @type {string} */ (lefts.keys().next().value))
}

/** With the page where it was left alone: as it was there, it moves down to its row. @param {Left} left @param {any} page @returns {Held} */
const comeBack = ({ cursors, base, row }, page) => ({ cursors, first: cursors.length - 1, base, pages: [page.items], next: page.next, moved: row })

/** What is in sight of the rows, and how wide their scrollbar is. @param {HTMLElement} box */
const seen = (box) => ({ top: box.scrollTop, height: box.clientHeight, gutter: box.offsetWidth - box.clientWidth })

/**
 * @typedef {object} Column
 * @property {string} key
 * @property {string} label
 * @property {number} [grow]
 * @property {boolean} [end] whether it is a number
 * @property {boolean} [named] whether its label stands beside it where there is no head
 * @property {boolean} [wide] whether it is left out where there is no room
 * @property {(item: any) => any} show
 */

/** Whether this comes from a dialog, which a row may have. @param {Event} event */
const isOfDialog = (event) => Boolean(/** @type {Element} */ (event.target).closest('dialog'))

/** What is cut off is in the title. @param {Event} event */
function explain(event) {
  if (isOfDialog(event)) return
  const cell = /** @type {HTMLElement | null} */ (/** @type {Element} */ (event.target).closest('[role=cell]'))
  const isCut = (/** @type {Element} */ element) => element.scrollWidth > element.clientWidth
  if (cell) cell.title = isCut(cell) || [...cell.querySelectorAll('.badge')].some(isCut) ? cell.innerText : ''
}

/**
 * @param {object} props
 * @param {string} props.path
 * @param {Record<string, string | undefined>} [props.query]
 * @param {Column[]} props.columns the first one names the row; six at the most are not `wide`
 * @param {(item: any) => string} props.idOf
 * @param {string} props.label
 * @param {any} [props.empty]
 * @param {(subject: string, type: string) => boolean} [props.concerns] events of what it lists
 * @param {number} [props.turn] asked for again when it changes
 * @param {{current: AbortController}} [props.scope] nothing is asked for once it is aborted, and what is under way is given up
 */
export function Listing({ path, query = {}, columns: all, idOf, label, empty, concerns, turn = 0, scope }) {
  const [held, setHeld] = useState(NOTHING)
  const [problem, setProblem] = useState(/** @type {any} */ (null))
  const [news, setNews] = useState(0)
  const [isNarrow, setNarrow] = useState(NARROW.matches)
  const [isPrinted, setPrinted] = useState(false)
  const [view, setView] = useState({ top: 0, height: 600, gutter: 0 })
  const box = useRef(/** @type {HTMLDivElement | null} */ (null))
  const key = JSON.stringify([path, query])
  const rowHeight = isNarrow ? 76 : 37
  // On paper a row has its columns side by side, and a height of its own.
  const narrow = isNarrow && !isPrinted
  const columns = narrow ? all.filter((column) => !column.wide) : all
  const { next, base } = held
  const items = useMemo(() => held.pages.flat(), [held])
  // What `held` is from the next time on that this is drawn.
  const kept = useRef(held)
  const top = useRef(0)
  top.current = view.top / rowHeight
  const hold = (/** @type {Held} */ held) => {
    kept.current = held
    setHeld(held)
  }

  // What is being read lower down stays as it is.
  const repeat = useRepeat((events) => {
    if ((box.current?.scrollTop ?? 0) < 40 && held.first === 0) begin()
    else setNews((news) => news + events)
  })
  const ask = useCallback((/** @type {string | undefined} */ cursor, /** @type {(held: Held, page: any) => Held} */ join, limit = PAGE) => {
    const abort = repeat.asks(scope)
    if (abort.signal.aborted) return
    const began = performance.now()
    get(path, { ...query, limit, cursor }, abort.signal).then(
      (page) => {
        if (abort.signal.aborted) return
        setProblem(null)
        hold(join(kept.current, page))
        repeat.answered()
        // One that stands: a browser keeps them all, for as long as the page is open.
        performance.clearMeasures('carebook.page')
        requestAnimationFrame(() => setTimeout(() => performance.measure('carebook.page', { start: began, end: performance.now() })))
      },
      (error) => {
        if (abort.signal.aborted) return
        setProblem(problemOf(error))
        repeat.failed(problemOf(error), !cursor && kept.current.pages.length > 0)
      },
    )
  }, [key])
  const begin = useCallback(() => {
    // A row that leaves would take its dialog along, and what that is to tell.
    if (box.current?.querySelector('dialog[open]')) {
      setNews((news) => news + 1)
      return
    }
    repeat.stop()
    setNews(0)
    if (box.current) box.current.scrollTop = 0
    ask(undefined, (_, page) => begun(page))
  }, [ask])

  useEffect(() => {
    hold(NOTHING)
    setProblem(null)
    const at = `${actor.value?.subject} ${entry()} ${key}`
    const left = lefts.get(at)
    // With the page after it: it may have been left at its last row.
    if (left) ask(left.cursors[left.cursors.length - 1], (_, page) => comeBack(left, page), 2 * PAGE)
    else begin()
    return () => {
      repeat.stop()
      leave(at, kept.current, top.current)
    }
  }, [key])

  useEffect(() => {
    // Paper is none of the window's widths.
    const changed = () => PAPER.matches || setNarrow(NARROW.matches)
    const [printed, shown] = [() => setPrinted(true), () => setPrinted(false)]
    NARROW.addEventListener('change', changed)
    addEventListener('beforeprint', printed)
    addEventListener('afterprint', shown)
    return () => {
      NARROW.removeEventListener('change', changed)
      removeEventListener('beforeprint', printed)
      removeEventListener('afterprint', shown)
    }
  }, [])

  useEffect(() => {
    if (turn) begin()
  }, [turn])

  useEffect(() => {
    if (!concerns) return
    return onEvents((events) => {
      if (!anyOf(events, concerns)) return
      const ours = events.filter((event) => concerns(event.subject, event.type))
      repeat.told(Math.max(1, ours.length), areMany(events))
    })
  }, [key])

  useLayoutEffect(() => {
    const element = box.current
    if (!element) return
    const look = () => setView(seen(element))
    look()
    element.addEventListener('scroll', look, { passive: true })
    const observer = new ResizeObserver(look)
    observer.observe(element)
    if (element.firstElementChild) observer.observe(element.firstElementChild)
    return () => {
      element.removeEventListener('scroll', look)
      observer.disconnect()
    }
  }, [])

  // What is in sight stays where it is, when a page before it comes or goes.
  useLayoutEffect(() => {
    const element = box.current
    if (!element || held.moved === 0) return
    element.scrollTop += held.moved * rowHeight
    setView(seen(element))
  }, [held])

  const first = Math.max(0, Math.floor(view.top / rowHeight) - BESIDE)
  const last = Math.min(items.length, Math.ceil((view.top + view.height) / rowHeight) + BESIDE)
  // On paper there is every row that is kept.
  const [from, to] = isPrinted ? [0, items.length] : [first, last]
  useEffect(() => {
    // This may run after a page has come, and before it is drawn: it is not asked for once more.
    if (isPrinted || repeat.isAsking() || problem || next === undefined || kept.current !== held) return
    if (next && last >= items.length - BESIDE * 2) ask(next, after)
    else if (held.first > 0 && first <= BESIDE * 2) ask(held.cursors[held.first - 1], before)
  }, [first, last, held, problem])

  /** The arrows go from row to row, Home to the first of all. @param {KeyboardEvent} event */
  const move = (event) => {
    if (isOfDialog(event)) return
    if (event.key === 'Home' && held.first > 0) {
      event.preventDefault()
      begin()
    }
    const by = event.key === 'ArrowDown' ? 1 : event.key === 'ArrowUp' ? -1 : 0
    const row = /** @type {HTMLElement | null} */ (document.activeElement)?.closest('[data-row]')
    if (!by || !row) return
    event.preventDefault()
    const index = Number(row.getAttribute('data-row')) + by
    const at = index - base
    const element = box.current
    const target = () => /** @type {HTMLElement | null | undefined} */ (element?.querySelector(`[data-row="${index}"] a, [data-row="${index}"] button`))
    if (element && at >= 0 && at < items.length) {
      const top = at * rowHeight
      if (top < element.scrollTop) element.scrollTop = top
      if (top + rowHeight > element.scrollTop + element.clientHeight) element.scrollTop = top + rowHeight - element.clientHeight
      target()?.focus({ preventScroll: true })
    }
  }

  const isOut = next === null
  const isPart = isPrinted && (!isOut || base > 0)
  const grow = columns.map((column) => `minmax(0, ${column.grow ?? 1}fr)`).join(' ')
  return html`<div class="listing">
    ${news ? html`<button type="button" class="news" onClick=${begin}>${t('list.news', { n: number(news) })}</button>` : ''}
    ${problem ? html`<${Problem} problem=${problem} again=${() => (items.length && next && problem.status !== 400 ? ask(next, after) : begin())} />` : ''}
    <div class="rows" role="table" aria-label=${label} aria-rowcount=${isOut ? base + items.length + 1 : -1} aria-busy=${next === undefined}>
      <div class="row head" role="row" style=${{ gridTemplateColumns: grow, paddingRight: `${14 + view.gutter}px` }}>
        ${columns.map((column) => html`<div key=${column.key} role="columnheader" class=${column.end ? 'end' : ''}>${column.label}</div>`)}
      </div>
      <div class="window" ref=${box} role="rowgroup" tabindex="0" aria-label=${label} onKeyDown=${move} onMouseOver=${explain}>
        <div class="tall" role="presentation" style=${{ height: `${items.length * rowHeight}px` }}>
          ${items.slice(from, to).map((item, offset) => html`
            <div key=${idOf(item)} class="row" role="row" data-row=${base + from + offset} aria-rowindex=${base + from + offset + 2}
              style=${{ transform: `translateY(${(from + offset) * rowHeight}px)`, height: `${rowHeight}px`, gridTemplateColumns: narrow ? undefined : grow }}>
              ${columns.map((column) => html`<div key=${column.key} role="cell" class=${column.end ? 'end' : ''} data-label=${column.label} data-named=${column.named || column.end || undefined}>${column.show(item)}</div>`)}
            </div>`)}
        </div>
        ${items.length === 0 && isOut ? html`<div role="row"><div role="cell"><${Empty}>${empty}<//></div></div>` : ''}
        ${next === undefined && !problem ? html`<div role="row"><div role="cell"><${Loading} /></div></div>` : ''}
      </div>
    </div>
    <p class="foot muted small" aria-live="polite">${next === undefined ? '' : isPart ? t('list.printed', { from: number(base + 1), to: number(base + items.length) }) : t(isOut ? 'list.all' : 'list.some', { n: number(base + items.length) })}</p>
  </div>`
}
