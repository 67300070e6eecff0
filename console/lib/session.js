// Who has signed in. Tokens are in this module's memory and nowhere else: not in storage, not in a
// URL, not in the page. Reloading the page signs out.

import { signal } from './html.js'
import { areShown } from './personal.js'
import { look } from './router.js'
import { hasWords } from './words.js'

/** @typedef {{kind: string, subject: string, token: string}} Actor */
/** @typedef {{issuer: string, clientId: string, scope: string, resource: string | null}} Provider */
/** @typedef {{version: string, provider: Provider | null, link: boolean}} Settings */

/** Who acts now. */
export const actor = signal(/** @type {Actor | null} */ (null))
/** Who may be chosen, where a link has given several. */
export const actors = signal(/** @type {Actor[]} */ ([]))
/** Why nobody is signed in, as a key of words. */
export const reason = signal('')
/** What tries again to sign in, where it was not the sign-in that was refused. */
export const retry = signal(/** @type {(() => void) | null} */ (null))
/** What the service says of itself. */
export const settings = signal(/** @type {Settings | null} */ (null))

const PENDING = 'carebook.signing-in'
/** How long the service is waited for, in milliseconds. */
const PATIENCE = 20_000

/** @param {Uint8Array} bytes */
const base64url = (bytes) =>
  btoa(String.fromCharCode(...bytes)).replaceAll('+', '-').replaceAll('/', '_').replaceAll('=', '')

const random = () => base64url(crypto.getRandomValues(new Uint8Array(32)))

/** The claims of a token, which the service judges and not this page. @param {string} token */
function claims(token) {
  try {
    const part = token.split('.')[1].replaceAll('-', '+').replaceAll('_', '/')
    return JSON.parse(new TextDecoder().decode(Uint8Array.from(atob(part), (c) => c.charCodeAt(0))))
  } catch {
    return {}
  }
}

/** Signs in with a token that one has, also as it stands in a header. @param {string} given */
export function signInWith(given) {
  const token = given.trim().replace(/^Bearer\s+/i, '')
  if (!/^[\w.-]+$/.test(token)) return signOut('signIn.noToken')
  const { actor_kind: kind, sub: subject } = claims(token)
  reason.value = ''
  retry.value = null
  actor.value = { kind: String(kind ?? ''), subject: String(subject ?? ''), token }
}

/** @param {string} [why] a key of words */
export function signOut(why = '') {
  areShown.value = false
  actor.value = null
  actors.value = []
  reason.value = why
  retry.value = null
}

/** @param {Actor} next */
export function actAs(next) {
  areShown.value = false
  actor.value = next
}

/** Where the provider sends people back to. */
const back = () => `${location.origin}${location.pathname}`

/** @param {Provider} provider */
async function discovered(provider) {
  const at = `${provider.issuer.replace(/\/$/, '')}/.well-known/openid-configuration`
  const answer = await fetch(at, { credentials: 'omit', referrerPolicy: 'no-referrer' })
  const document = await answer.json()
  if (document.issuer !== provider.issuer) throw new Error('issuer')
  return /** @type {{authorization_endpoint: string, token_endpoint: string}} */ (document)
}

/** Goes to the provider, to come back with a code. */
export async function goToProvider() {
  const provider = settings.value?.provider
  if (!provider) return
  try {
    const { authorization_endpoint: endpoint } = await discovered(provider)
    const [verifier, state] = [random(), random()]
    const digest = await crypto.subtle.digest('SHA-256', new TextEncoder().encode(verifier))
    try {
      sessionStorage.setItem(PENDING, JSON.stringify({ verifier, state, to: location.hash }))
    } catch {
      reason.value = 'signIn.noStorage'
      return
    }
    const url = new URL(endpoint)
    if (url.protocol !== 'https:') throw new Error('endpoint')
    const query = {
      client_id: provider.clientId,
      response_type: 'code',
      redirect_uri: back(),
      scope: provider.scope,
      state,
      code_challenge: base64url(new Uint8Array(digest)),
      code_challenge_method: 'S256',
      ...(provider.resource ? { resource: provider.resource } : {}),
    }
    for (const [name, value] of Object.entries(query)) url.searchParams.set(name, value)
    location.assign(url)
  } catch {
    reason.value = 'signIn.providerUnreachable'
  }
}

/**
 * Comes back from the provider. The code is gone from the address before anything else is done.
 * @param {URLSearchParams} query
 */
async function comeBack(query) {
  let pending = null
  try {
    pending = JSON.parse(sessionStorage.getItem(PENDING) ?? 'null')
    sessionStorage.removeItem(PENDING)
  } catch {
    // Without it, nothing was begun here.
  }
  history.replaceState(null, '', `${location.pathname}${pending?.to ?? ''}`)
  look()
  const provider = settings.value?.provider
  if (!provider || !pending || pending.state !== query.get('state')) return signOut('signIn.stateMismatch')
  const code = query.get('code')
  if (!code) return signOut('signIn.refusedByProvider')
  try {
    const { token_endpoint: endpoint } = await discovered(provider)
    const answer = await fetch(endpoint, {
      method: 'POST',
      credentials: 'omit',
      referrerPolicy: 'no-referrer',
      body: new URLSearchParams({
        grant_type: 'authorization_code',
        code,
        redirect_uri: back(),
        client_id: provider.clientId,
        code_verifier: pending.verifier,
        ...(provider.resource ? { resource: provider.resource } : {}),
      }),
    })
    const { access_token: token } = await answer.json()
    if (!answer.ok || typeof token !== 'string') return signOut('signIn.refusedByProvider')
    signInWith(token)
  } catch {
    signOut('signIn.providerUnreachable')
  }
}

/** What a refusal is called here, or as an answer of the API, or that no answer came. @param {string | undefined} code */
const named = (code) => [`signIn.${code}`, `problem.${code}`].find(hasWords) ?? 'signIn.unreachable'

/** Signs in with the code of a link, which is gone from the address and its history at once. @param {string} code */
async function useLink(code) {
  history.replaceState(null, '', location.pathname)
  look()
  const answer = await fetch('/console/sign-ins', {
    method: 'POST',
    headers: { 'Content-Type': 'application/json' },
    body: JSON.stringify({ code }),
    signal: AbortSignal.timeout(PATIENCE),
  }).catch(() => null)
  const body = await answer?.json().catch(() => null)
  if (!answer?.ok || !body) {
    signOut(named(body?.code))
    // What the service was too busy for, or has not heard, has not used the link up.
    if (!answer || !body || answer.status === 429 || answer.status >= 500) retry.value = () => useLink(code)
    return
  }
  actors.value = body.actors
  const first = actors.value.find((one) => one.kind === 'headquarters_administrator')
  reason.value = ''
  retry.value = null
  actor.value = first ?? actors.value[0] ?? null
}

/** What the address brings along: a link's code, a provider's, or nothing. */
export async function begin() {
  const answer = await fetch('/console/settings.json', { signal: AbortSignal.timeout(PATIENCE) }).catch(() => null)
  const told = await answer?.json().catch(() => null)
  if (!answer?.ok || !told) {
    settings.value ??= { version: '', provider: null, link: false }
    signOut(named(told?.code))
    // How one signs in here is not known yet.
    retry.value = begin
    return
  }
  settings.value = told
  reason.value = ''
  retry.value = null
  const link = location.hash.match(/^#link=([\w-]+)$/)?.[1]
  if (link) return useLink(link)
  const query = new URLSearchParams(location.search)
  if (query.has('state')) return comeBack(query)
}
