// What is committed, as it is committed: one stream for the whole page, while somebody listens. After
// a break it goes on after the last event, so nothing is asked for where nothing is new. Where more is
// committed than people can read, it pauses, longer each time, and tells that much has changed instead of
// each change. Out of sight nothing is followed. What was answered as of a time before the stream begins is asked for
// again: nothing tells what came between.

import { effect, signal } from './html.js'
import { call, get, onPosition, Refused, send } from './api.js'
import { actor } from './session.js'

/** @typedef {{id: string, type: string, subject: string, time: string, data: Record<string, any>}} Told */

/**
 * `live`, `waiting` (it is connecting), `busy` (more is committed than is told, so that what is shown is asked for
 * again now and then), `off` (nobody is signed in), `refused` (not for this actor).
 */
export const stream = signal(/** @type {'live' | 'waiting' | 'busy' | 'off' | 'refused'} */ ('off'))

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
/** How long the stream pauses then, in milliseconds: twice as long each time, as long as there are too many. */
const PAUSE = 2_000
const PAUSE_MAX = 30_000
/** Pages that begin together do not all come again together: this share more or less. */
const SPREAD = 0.25
/** After a pause it is first looked for so long, in milliseconds, whether there still are too many. */
const TRIED_FOR = 1_000
/** How long a page is out of sight before it follows no more, in milliseconds. */
const OUT_OF_SIGHT = 5_000
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

/** @param {number} time in milliseconds */
const rest = (time) => new Promise((done) => setTimeout(done, time))

/** Comes back once the page is in sight, or nothing is to be followed any more. @param {AbortSignal} signal */
function inSight(signal) {
  return new Promise((done) => {
    const look = () => {
      if (document.hidden && !signal.aborted) return
      document.removeEventListener('visibilitychange', look)
      signal.removeEventListener('abort', look)
      done(undefined)
    }
    document.addEventListener('visibilitychange', look)
    signal.addEventListener('abort', look)
    look()
  })
}

/**
 * Does this after so many milliseconds, once the page is in sight, unless that is given up before.
 * @param {() => void} what @param {number} time @param {AbortSignal} signal
 */
export async function later(what, time, signal) {
  await rest(time)
  await inSight(signal)
  if (!signal.aborted) what()
}

/**
 * Ends an attempt when nothing is to be followed any more, or the page has been out of sight for a while. What it
 * gives is to be called when the attempt is over.
 * @param {AbortController} attempt @param {AbortSignal} signal
 */
function ends(attempt, signal) {
  let timer = 0
  const end = () => attempt.abort()
  const look = () => {
    clearTimeout(timer)
    if (document.hidden) timer = setTimeout(end, OUT_OF_SIGHT)
  }
  signal.addEventListener('abort', end)
  document.addEventListener('visibilitychange', look)
  look()
  return () => {
    clearTimeout(timer)
    signal.removeEventListener('abort', end)
    document.removeEventListener('visibilitychange', look)
  }
}

/**
 * How far a page has come: the last event's identifier, and how long it pauses, in milliseconds, while more comes than
 * is told; 0 while less does.
 * @typedef {{last: string | undefined, pausing: number}} Course
 */

/**
 * Reads what a stream tells, until it ends, or tells more than people can read: `true`.
 * @param {NonNullable<Response['body']>} body @param {Course} course @param {AbortSignal} signal
 */
async function listen(body, course, signal) {
  const reader = body.pipeThrough(new TextDecoderStream()).getReader()
  /** What came since a pause, told once it is known that it is not too much. @type {Told[]} */
  let held = []
  const settle = () => {
    course.pausing = 0
    stream.value = 'live'
    held.forEach(tell)
    held = []
  }
  const trying = course.pausing ? setTimeout(settle, TRIED_FOR) : undefined
  if (!course.pausing) settle()
  try {
    let text = ''
    let [second, count] = [performance.now(), 0]
    for (;;) {
      const { done, value } = await within(reader.read(), SILENCE)
      if (done) return false
      if (performance.now() - second > 1_000) [second, count] = [performance.now(), 0]
      const blocks = (text + value).split('\n\n')
      text = blocks.pop() ?? ''
      for (const block of blocks) {
        const { id, event } = read(block)
        if (id) course.last = id
        if (!event || count++ >= MUCH_A_SECOND) continue
        if (course.pausing) held.push(event)
        else tell(event)
      }
      if (count >= MUCH_A_SECOND) {
        held = []
        await reader.cancel()
        return true
      }
    }
  } finally {
    clearTimeout(trying)
    if (!signal.aborted) held.forEach(tell)
  }
}

/** @param {AbortSignal} signal */
async function follow(signal) {
  /** @type {Course} */
  const course = { last: undefined, pausing: 0 }
  let pause = 500
  /** Whether an attempt has failed since the last stream: what was asked for meanwhile may have, too. */
  let hasFailed = false
  while (!signal.aborted) {
    await inSight(signal)
    if (signal.aborted) return
    stream.value = course.pausing ? 'busy' : 'waiting'
    const attempt = new AbortController()
    const over = ends(attempt, signal)
    try {
      course.last ??= await newest(signal)
      const answer = await within(send('GET', '/events', { query: { after: course.last }, accept: 'text/event-stream', signal: attempt.signal }), SILENCE)
      if (answer.status === 403) {
        stream.value = 'refused'
        return
      }
      if (answer.status === 410) {
        // What came meanwhile is no longer told.
        course.last = await newest(signal)
        tellMany()
      }
      if (answer.ok && answer.body) {
        pause = 500
        if (hasFailed) tellMany()
        hasFailed = false
        if (await listen(answer.body, course, signal)) {
          stream.value = 'busy'
          course.pausing = Math.min(course.pausing ? course.pausing * 2 : PAUSE, PAUSE_MAX)
          await rest(course.pausing * (1 - SPREAD + 2 * SPREAD * Math.random()))
          await inSight(signal)
          // What is asked for again then is as new as what is told from there on.
          course.last = await newest(signal)
          tellMany()
          continue
        }
      } else if (answer.status !== 410) hasFailed = true
    } catch {
      // It is tried again.
      hasFailed ||= !attempt.signal.aborted
    } finally {
      attempt.abort()
      over()
    }
    if (signal.aborted) return
    stream.value = 'waiting'
    await rest(pause)
    pause = Math.min(pause * 2, 10_000)
  }
}

/** Where the log was when its end was last asked for, and when that was known; before, nothing is. */
let end = { position: 0, known: 0 }
/** The lowest position of what was answered before the end was known. */
let lowest = Infinity

onPosition((position, asked) => {
  if (!end.known) lowest = Math.min(lowest, position)
  else if (asked < end.known && position < end.position) tellMany()
})

/** Tells it once: what is still being asked for then is asked for again, too. */
function tellMany() {
  end.position = 0
  tell(MANY)
}

/** Where the log is now: what was before is no news, except to what was answered without it. @param {AbortSignal} signal */
async function newest(signal) {
  const answer = await call('GET', '/events', { query: { limit: 1 }, signal }).catch((error) => {
    if (error instanceof Refused && error.problem.status === 403) return null
    throw error
  })
  if (!answer) return '0-0'
  // Not from the beginning of the log, only because the service could not say where its end is.
  const position = answer.headers.get('carebook-position')
  if (!position) throw new Error('no position')
  end = { position: Number(position), known: performance.now() }
  if (lowest < end.position) tellMany()
  lowest = Infinity
  return `${position}-0`
}

effect(() => {
  if (!actor.value) {
    stream.value = 'off'
    return
  }
  const abort = new AbortController()
  end = { position: 0, known: 0 }
  lowest = Infinity
  follow(abort.signal)
  return () => {
    abort.abort()
    // What one actor may be told is not told to the next.
    gathered = []
  }
})

/** The newest events, for a feed. @param {AbortSignal} signal @param {number} count */
export async function recent(signal, count) {
  const answer = await call('GET', '/events', { query: { limit: 1 }, signal })
  const position = Number(answer.headers.get('carebook-position') ?? 0)
  // Commits without events lie between those with: it looks further back until there are enough.
  for (let back = count; ; back *= 8) {
    const isAll = back >= position
    try {
      const events = await told(isAll ? undefined : `${position - back}-0`, position, count, signal)
      if (events.length >= count || isAll) return events.reverse()
    } catch (error) {
      if (!(error instanceof Refused) || error.problem.status !== 410) throw error
      // So far back nothing is kept.
      return (await told(undefined, position, count, signal)).reverse()
    }
  }
}

/**
 * The last events up to a position, of those after a place; without one, of all that are kept.
 * @param {string | undefined} after @param {number} position @param {number} count @param {AbortSignal} signal
 */
async function told(after, position, count, signal) {
  /** @type {Told[]} */
  let last = []
  for (;;) {
    const page = await get('/events', { after, limit: 1_000 }, signal)
    last = [...last, ...page.events].slice(-count)
    if (page.end || Number.parseInt(page.next) >= position) return last
    after = page.next
  }
}
