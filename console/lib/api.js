// Requests to the service's API, as who has signed in.

import { heard } from './clock.js'
import { actor, signOut } from './session.js'

/**
 * @typedef {object} Problem
 * @property {number} status
 * @property {string} code
 * @property {string} [message]
 * @property {{fieldPath: string, code: string, message?: string}[]} [fieldErrors]
 * @property {string[]} [conflictingFieldPaths]
 * @property {'read' | 'sent'} [asked] whether it was asked for something, or for something to be done
 * @property {string} [requestId]
 */

/** An answer that is no success. */
export class Refused extends Error {
  /** @param {Problem} problem */
  constructor(problem) {
    super(problem.code)
    this.problem = problem
  }
}

/**
 * @typedef {object} Asked
 * @property {Record<string, string | number | undefined | null | boolean>} [query]
 * @property {unknown} [body]
 * @property {string} [key] the idempotency key
 * @property {AbortSignal} [signal]
 * @property {string} [accept]
 * @property {number} [within] how long the answer is waited for, in milliseconds
 */

/** @typedef {{status: number, headers: Headers, body: any}} Answer */

/**
 * @param {string} path
 * @param {Asked['query']} [query]
 */
export function address(path, query) {
  const given = Object.entries(query ?? {}).filter(([, value]) => value !== undefined && value !== null && value !== '')
  const text = new URLSearchParams(given.map(([name, value]) => [name, String(value)])).toString()
  return text ? `${path}?${text}` : path
}

/** How long an answer is waited for, in milliseconds. What is asked may wait for 30 s in the service. */
const PATIENCE = { read: 40_000, sent: 60_000 }

/** What is answered whoever asks. */
const OPEN = ['/openapi.json', '/readyz']
/** The last token that the service has taken. */
let taken = ''
/** @type {(position: number, asked: number) => void} */
let noted = () => {}

/**
 * Names who is told the position that each answer depends on, and when it was asked for, as `performance.now()`.
 * @param {(position: number, asked: number) => void} listener
 */
export function onPosition(listener) {
  noted = listener
}

/** Whether something was to be done. @param {string} method @param {Asked} asked @returns {'read' | 'sent'} */
const kindOf = (method, asked) => (method === 'GET' || asked.query?.dryRun ? 'read' : 'sent')

/**
 * What a failure without an answer comes to.
 * @param {unknown} error @param {string} method @param {Asked} asked
 */
function unanswered(error, method, asked) {
  return asked.signal?.aborted ? error : new Refused({ status: 0, code: 'unreachable', asked: kindOf(method, asked) })
}

/**
 * The bare response: for streams.
 * @param {string} method
 * @param {string} path
 * @param {Asked} [asked]
 * @param {AbortSignal} [signal] what ends it, where that is more than what it is asked under
 */
export async function send(method, path, asked = {}, signal = asked.signal) {
  const token = actor.value?.token
  /** @type {Record<string, string>} */
  const headers = { Accept: asked.accept ?? 'application/json' }
  if (token) headers.Authorization = `Bearer ${token}`
  if (asked.key) headers['Idempotency-Key'] = asked.key
  if (asked.body !== undefined) headers['Content-Type'] = 'application/json'
  const began = performance.now()
  let answer
  try {
    answer = await fetch(address(path, asked.query), {
      method,
      headers,
      body: asked.body === undefined ? undefined : JSON.stringify(asked.body),
      signal,
      credentials: 'omit',
      // Nothing of it is left in the browser's files after signing out.
      cache: 'no-store',
    })
  } catch (error) {
    throw unanswered(error, method, asked)
  }
  heard(answer.headers.get('date'))
  const position = answer.headers.get('carebook-position')
  if (position) noted(Number(position), began)
  if (token && (answer.ok || answer.status === 403) && !OPEN.includes(path)) taken = token
  if (answer.status === 401 && token && token === actor.value?.token) signOut(taken === token ? 'signIn.ended' : 'signIn.notTaken')
  return answer
}

/**
 * The whole answer, with its text. A service that takes a request and says nothing is as one that is not reached.
 * @param {string} method @param {string} path @param {Asked} asked
 */
async function answered(method, path, asked) {
  const late = new AbortController()
  const end = () => late.abort()
  if (asked.signal?.aborted) end()
  asked.signal?.addEventListener('abort', end)
  const timer = setTimeout(end, asked.within ?? PATIENCE[kindOf(method, asked)])
  try {
    const answer = await send(method, path, asked, late.signal)
    const text = await answer.text().catch((error) => {
      throw unanswered(error, method, asked)
    })
    return { answer, text }
  } finally {
    clearTimeout(timer)
    asked.signal?.removeEventListener('abort', end)
  }
}

/**
 * @param {string} method
 * @param {string} path
 * @param {Asked} [asked]
 * @returns {Promise<Answer>}
 */
export async function call(method, path, asked = {}) {
  const { answer, text } = await answered(method, path, asked)
  let body = null
  try {
    body = text ? JSON.parse(text) : null
  } catch {
    body = null
  }
  if (!answer.ok) {
    const requestId = answer.headers.get('x-request-id') ?? ''
    // An answer that is no problem is not the service's: something before it does not reach it.
    const isOurs = typeof (body?.code ?? body?.conflictCode) === 'string'
    const code = body?.conflictCode ?? (!isOurs && answer.status >= 500 ? 'unreachable' : String(answer.status))
    throw new Refused({ code, ...body, status: answer.status, requestId, asked: kindOf(method, asked) })
  }
  return { status: answer.status, headers: answer.headers, body }
}

/** @param {string} path @param {Asked['query']} [query] @param {AbortSignal} [signal] */
export const get = async (path, query, signal) => (await call('GET', path, { query, signal })).body

/** A path with its parameters filled in. @param {string} template @param {Record<string, string>} values */
export function filled(template, values) {
  return template.replace(/\{(\w+)\}/g, (_, name) => encodeURIComponent(values[name] ?? ''))
}

/** A fresh idempotency key. Pages that came without TLS from another machine have no `randomUUID`. */
export const freshKey = () => Array.from(crypto.getRandomValues(new Uint8Array(16)), (byte) => byte.toString(16).padStart(2, '0')).join('')
