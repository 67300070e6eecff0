// oidc-provider as a server over TLS, for the tests of identity providers.
//
//   node provider.mjs MODULES CERT KEY
//
// MODULES is the directory that `npm ci` has filled. Prints `listening on PORT`; then does what each
// line of standard input says, and answers with one line of JSON each:
//
//   {"do": "token", "alg": "ES256"}     a token for a client of its own (client credentials)
//   {"do": "sign-in", "alg": "ES256"}   a token for somebody who signs in (authorization code, PKCE)
//   {"do": "publish"}                   a new key of each algorithm beside the old ones; not signed
//                                       with yet
//   {"do": "sign-with-newest"}          from here on the newest keys sign
//   {"do": "withdraw"}                  all keys but the newest are gone
//   {"do": "console-client", "redirect": URL}  a public client `console`, whose pages may ask for tokens
//   {"do": "keys-asked"}                how often the keys were asked for

import crypto from 'node:crypto'
import fs from 'node:fs'
import https from 'node:https'
import path from 'node:path'
import readline from 'node:readline'
import { pathToFileURL } from 'node:url'

// Its advice is for people.
console.info = console.error

const [modules, certFile, keyFile] = process.argv.slice(2)
const entry = path.join(modules, 'node_modules/oidc-provider/lib/index.js')
const { Provider } = await import(pathToFileURL(path.resolve(entry)))

const ALGORITHMS = ['ES256', 'EdDSA', 'RS256']
const AUDIENCE = 'carebook-test'
const REDIRECT = 'https://client.test/back'
const VERIFIER = 'v'.repeat(64)

let generation = 0
function newKeys() {
  generation += 1
  // Encoded and read again: what generates a key and the key share a lock, and a collection of garbage
  // while such a key is exported waits for ever for the lock that it holds itself (seen with Node 20).
  const privateKeyEncoding = { type: 'pkcs8', format: 'pem' }
  const publicKeyEncoding = { type: 'spki', format: 'pem' }
  const kinds = {
    ES256: ['ec', { namedCurve: 'P-256' }],
    EdDSA: ['ed25519', {}],
    RS256: ['rsa', { modulusLength: 2048 }],
  }
  return ALGORITHMS.map((alg) => {
    const [type, options] = kinds[alg]
    const { privateKey } = crypto.generateKeyPairSync(type, { ...options, privateKeyEncoding, publicKeyEncoding })
    return { ...crypto.createPrivateKey(privateKey).export({ format: 'jwk' }), kid: `${alg}-${generation}`, alg, use: 'sig' }
  })
}

// The first key of an algorithm signs.
let keys = newKeys()
let keysAsked = 0
let callback

const claims = { actor_kind: 'headquarters_administrator', permissions: ['events:read', 'figures:read'] }
const consoles = []

function serve() {
  const provider = new Provider(issuer, {
    jwks: { keys },
    cookies: { keys: ['for the tests'] },
    clients: ALGORITHMS.map((alg) => ({
      client_id: `client-${alg}`,
      client_secret: 'secret-of-the-client',
      grant_types: ['client_credentials', 'authorization_code'],
      redirect_uris: [REDIRECT],
      response_types: ['code'],
      id_token_signed_response_alg: alg,
    })).concat(consoles),
    clientBasedCORS: (_context, _origin, client) => client.clientId === 'console',
    features: {
      clientCredentials: { enabled: true },
      devInteractions: { enabled: true },
      resourceIndicators: {
        enabled: true,
        defaultResource: () => 'urn:carebook',
        useGrantedResource: () => true,
        getResourceServerInfo: (_context, _resource, client) => ({
          scope: 'act',
          audience: AUDIENCE,
          accessTokenFormat: 'jwt',
          accessTokenTTL: 3600,
          jwt: { sign: { alg: client.clientId === 'console' ? 'ES256' : client.clientId.slice('client-'.length) } },
        }),
      },
    },
    extraTokenClaims: () => claims,
    findAccount: (_context, id) => ({ accountId: id, claims: () => ({ sub: id }) }),
  })
  callback = provider.callback()
}

const server = https.createServer(
  { cert: fs.readFileSync(certFile), key: fs.readFileSync(keyFile) },
  (request, response) => {
    if (request.url === '/jwks') keysAsked += 1
    callback(request, response)
  },
)
await new Promise((done) => server.listen(0, '127.0.0.1', done))
const issuer = `https://localhost:${server.address().port}`
serve()

// A browser: cookies, and each redirect as it comes.
function browser() {
  const cookies = new Map()
  return (url, { method = 'GET', form, headers = {} } = {}) =>
    new Promise((done, failed) => {
      const body = form && new URLSearchParams(form).toString()
      const jar = [...cookies].map(([name, value]) => `${name}=${value}`).join('; ')
      const all = { ...headers, ...(jar && { cookie: jar }) }
      if (body) all['content-type'] = 'application/x-www-form-urlencoded'
      const options = { method, headers: all, ca: fs.readFileSync(certFile), servername: 'localhost' }
      const request = https.request(new URL(url, issuer), options, (response) => {
        for (const line of response.headers['set-cookie'] ?? []) {
          const [, name, value] = line.match(/^([^=]+)=([^;]*)/)
          if (value) cookies.set(name, value)
          else cookies.delete(name)
        }
        let text = ''
        response.on('data', (piece) => (text += piece))
        response.on('end', () => done({ status: response.statusCode, headers: response.headers, text }))
      })
      request.on('error', failed)
      request.end(body)
    })
}

function basic(alg) {
  const text = `client-${alg}:secret-of-the-client`
  return { authorization: `Basic ${Buffer.from(text).toString('base64')}` }
}

async function token(alg, form, ask = browser()) {
  const answer = await ask('/token', { method: 'POST', headers: basic(alg), form })
  const token = JSON.parse(answer.text).access_token
  if (!token) throw new Error(answer.text)
  return { token }
}

async function signIn(alg) {
  const ask = browser()
  const challenge = crypto.createHash('sha256').update(VERIFIER).digest('base64url')
  const query = new URLSearchParams({
    client_id: `client-${alg}`,
    response_type: 'code',
    redirect_uri: REDIRECT,
    scope: 'openid act',
    resource: 'urn:carebook',
    code_challenge: challenge,
    code_challenge_method: 'S256',
  })
  let answer = await ask(`/auth?${query}`)
  for (let step = 0; step < 12; step += 1) {
    const to = answer.headers.location
    if (to?.startsWith(REDIRECT)) {
      const code = new URL(to).searchParams.get('code')
      if (!code) throw new Error(to)
      return token(
        alg,
        { grant_type: 'authorization_code', code, redirect_uri: REDIRECT, code_verifier: VERIFIER },
        ask,
      )
    }
    if (to) {
      answer = await ask(to)
      continue
    }
    const action = answer.text.match(/<form[^>]* action="([^"]+)"/)?.[1]
    const prompt = answer.text.match(/name="prompt" value="([^"]+)"/)?.[1]
    if (!action) throw new Error(`${answer.status} ${answer.text}`)
    answer = await ask(action, { method: 'POST', form: { prompt, login: 'somebody', password: 'any' } })
  }
  throw new Error('the sign-in goes round in circles')
}

const newest = () => keys.filter((key) => key.kid.endsWith(`-${generation}`))
const others = () => keys.filter((key) => !key.kid.endsWith(`-${generation}`))

const what = {
  token: ({ alg }) => token(alg, { grant_type: 'client_credentials', scope: 'act', resource: 'urn:carebook' }),
  'sign-in': ({ alg }) => signIn(alg),
  publish() {
    keys = [...keys, ...newKeys()]
    serve()
    return {}
  },
  'sign-with-newest'() {
    keys = [...newest(), ...others()]
    serve()
    return {}
  },
  withdraw() {
    keys = newest()
    serve()
    return {}
  },
  'console-client'({ redirect }) {
    consoles.push({
      client_id: 'console',
      token_endpoint_auth_method: 'none',
      grant_types: ['authorization_code'],
      redirect_uris: [redirect],
      response_types: ['code'],
      id_token_signed_response_alg: 'ES256',
    })
    serve()
    return {}
  },
  'keys-asked': () => ({ count: keysAsked }),
}

console.log(`listening on ${server.address().port}`)
for await (const line of readline.createInterface({ input: process.stdin })) {
  const said = JSON.parse(line)
  try {
    console.log(JSON.stringify(await what[said.do](said)))
  } catch (error) {
    console.log(JSON.stringify({ error: String(error.stack ?? error) }))
  }
}
process.exit(0)
