// What is committed, as it is committed: one stream for the whole page, while somebody listens. After
// a break it goes on after the last event, so nothing is asked for where nothing is new. Where more is
// committed than people can read, it pauses, and tells that much has changed instead of each change.

import { effect, signal } from './html.js'
import { get, send } from './api.js'
import { actor } from './session.js'

/** @typedef {{id: string, type: string, subject: string, time: string, data: Record<string, any>}} Told */

/** `live`, `waiting` (it is connecting), `off` (nobody is signed in), `refused` (not for this actor). */
export const stream = signal(/** @type {'live' | 'waiting' | 'off' | 'refused'} */ ('off'))

/** @type {Set<(events: Told[]) => void>} */
const listeners = new Set()

/** @param {(events: Told[]) => void} listener */
export function onEvents(listener) {
  listeners.add(listener)
  return () => {
    listeners.delete(listener)
  }
}

/** @type {Told[]} */
let gathered = []
let isDue = false

/** What stands for more changes than are told. */
const MUCH = '*'
/** @type {Told} */
const MANY = { id: '', type: '', subject: MUCH, time: '', data: {} }
/** Events of a second, beyond which they are not told one by one. */
const MUCH_A_SECOND = 200
/** How long the stream pauses then, in milliseconds. */
const PAUSE = 2_000
/** Several that come at once are told at once, and not more often than once in so many milliseconds. */
const TOLD_EVERY = 1_000
let toldAt = 0
/** The service says something every 15 seconds; a stream that says nothing for so long, in milliseconds, is none. */
const SILENCE = 45_000

/** @param {Told} event */
function tell(event) {
  gathered.push(event)
  if (isDue) return
  isDue = true
  setTimeout(() => {
    const events = gathered
    gathered = []
    isDue = false
    toldAt = performance.now()
    for (const listener of listeners) listener(events)
  }, Math.max(120, toldAt + TOLD_EVERY - performance.now()))
}

/**
 * Whether one of these events is about what this says, or so much has changed that one may be.
 * @param {Told[]} events @param {(subject: string, type: string) => boolean} concerns
 */
export const anyOf = (events, concerns) => events.some((event) => event.subject === MUCH || concerns(event.subject, event.type))

/** Whether events stand for more than is told. @param {Told[]} events */
export const areMany = (events) => events.some((event) => event.subject === MUCH)

/** @param {string} block */
function read(block) {
  let [id, data] = ['', '']
  for (const line of block.split('\n')) {
    if (line.startsWith('id:')) id = line.slice(3).trim()
    else if (line.startsWith('data:')) data += line.slice(5)
  }
  return { id, event: data ? /** @type {Told} */ (JSON.parse(data)) : null }
}

/** What is promised, if it comes within so many milliseconds. @template T @param {Promise<T>} promised @param {number} most @returns {Promise<T>} */
function within(promised, most) {
  return new Promise((done, refuse) => {
    const timer = setTimeout(() => refuse(new Error('silence')), most)
    promised.then(done, refuse).finally(() => clearTimeout(timer))
  })
}

/** @param {AbortSignal} signal */
async function follow(signal) {
  /** @type {string | undefined} */
  let last
  let pause = 500
  while (!signal.aborted) {
    stream.value = 'waiting'
    const attempt = new AbortController()
    const end = () => attempt.abort()
    signal.addEventListener('abort', end)
    try {
      last ??= await newest(signal)
      const answer = await send('GET', '/events', { query: { after: last }, accept: 'text/event-stream', signal: attempt.signal })
      if (answer.status === 403) {
        stream.value = 'refused'
        return
      }
      if (answer.status === 410) {
        // What came meanwhile is no longer told.
        last = await newest(signal)
        tell(MANY)
      }
      if (answer.ok && answer.body) {
        stream.value = 'live'
        pause = 500
        const reader = answer.body.pipeThrough(new TextDecoderStream()).getReader()
        let rest = ''
        let [second, count] = [performance.now(), 0]
        for (;;) {
          const { done, value } = await within(reader.read(), SILENCE)
          if (done) break
          if (performance.now() - second > 1_000) [second, count] = [performance.now(), 0]
          const blocks = (rest + value).split('\n\n')
          rest = blocks.pop() ?? ''
          for (const block of blocks) {
            const { id, event } = read(block)
            if (id) last = id
            if (event && count++ < MUCH_A_SECOND) tell(event)
          }
          if (count >= MUCH_A_SECOND) {
            await reader.cancel()
            await new Promise((done) => setTimeout(done, PAUSE))
            // What is asked for again then is as new as what is told from there on.
            last = await newest(signal)
            tell(MANY)
            break
          }
        }
      }
    } catch {
      // It is tried again.
    } finally {
      attempt.abort()
      signal.removeEventListener('abort', end)
    }
    if (signal.aborted) return
    stream.value = 'waiting'
    await new Promise((done) => setTimeout(done, pause))
    pause = Math.min(pause * 2, 10_000)
  }
}

/** Where the log is now: what was before is no news. @param {AbortSignal} signal */
async function newest(signal) {
  const answer = await send('GET', '/events', { query: { limit: 1 }, signal })
  const position = answer.headers.get('carebook-position')
  if (answer.status === 403) return '0-0'
  // Not from the beginning of the log, only because the service could not say where its end is.
  if (!answer.ok || !position) throw new Error('no position')
  return `${position}-0`
}

effect(() => {
  if (!actor.value) {
    stream.value = 'off'
    return
  }
  const abort = new AbortController()
  follow(abort.signal)
  return () => {
    abort.abort()
    // What one actor may be told is not told to the next.
    gathered = []
  }
})

/** The newest events, for a feed. @param {AbortSignal} signal @param {number} count */
export async function recent(signal, count) {
  const answer = await send('GET', '/events', { query: { limit: 1 }, signal })
  const position = Number(answer.headers.get('carebook-position') ?? 0)
  const after = Math.max(0, position - count)
  const page = await get('/events', { after: `${after}-0`, limit: count * 4 }, signal)
  return /** @type {Told[]} */ (page.events).slice(-count).reverse()
}
