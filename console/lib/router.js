// Where one is: the part of the address after the `#`, which no server is told. `#/statements?status=…`

import { signal } from './html.js'

/** @typedef {{path: string[], query: URLSearchParams}} Place */

/** @returns {Place} */
function here() {
  const [path, query] = location.hash.replace(/^#\/?/, '').split('?')
  const parts = path.split('/').filter(Boolean)
  return {
    path: parts.map((part) => {
      try {
        return decodeURIComponent(part)
      } catch {
        return part
      }
    }),
    query: new URLSearchParams(query ?? ''),
  }
}

export const place = signal(here())

/** How many keep what is shown where it is. */
let holds = 0
/** Whether the address has changed since they do. */
let isDue = false

addEventListener('hashchange', () => {
  if (holds) isDue = true
  else look()
})

/** The place that the address says, after it was replaced without an event. */
export function look() {
  isDue = false
  place.value = here()
}

/** Keeps what is shown where it is, whatever the address says: whether that has changed since, and what ends it. */
export function hold() {
  holds += 1
  return {
    isLeft: () => isDue,
    release() {
      holds -= 1
      if (!holds && isDue) look()
    },
  }
}

let stays = 0

/** @param {BeforeUnloadEvent} event */
const ask = (event) => event.preventDefault()

/** Has the browser ask before the page is left or loaded again, until what this gives is called. */
export function stay() {
  if (stays++ === 0) addEventListener('beforeunload', ask)
  return () => {
    if (--stays === 0) removeEventListener('beforeunload', ask)
  }
}

/** A value of the address, or the first of those that it may be. @param {string | null} given @param {string[]} values */
export const oneOf = (given, values) => (given !== null && values.includes(given) ? given : values[0])

/** @param {string[]} path @param {Record<string, string | undefined>} [query] */
export function link(path, query = {}) {
  const given = Object.entries(query).filter((pair) => pair[1])
  const text = new URLSearchParams(/** @type {[string, string][]} */ (given)).toString()
  return `#/${path.map(encodeURIComponent).join('/')}${text ? `?${text}` : ''}`
}

/** The page of the resource that is read at this path (`settlement-statements/…`). @param {string} readPath */
export function linkToResource(readPath) {
  const parts = readPath.split('/').map((part) => {
    try {
      return decodeURIComponent(part)
    } catch {
      return part
    }
  })
  if (parts[0] === 'outbox') return link(['messages', parts[1] ?? ''])
  if (parts[0] === 'webhook-subscriptions') return link(['webhooks', parts[1] ?? ''])
  return link(['resource', ...parts])
}

/** @param {Record<string, string | undefined>} changes to the query, in the same place */
export function refine(changes) {
  const { path, query } = place.value
  const next = { ...Object.fromEntries(query), ...changes }
  history.replaceState(null, '', link(path, next))
  look()
}
