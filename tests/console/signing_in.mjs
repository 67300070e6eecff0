// Signs in to the console with an identity provider: `node signing_in.mjs TOOLS CHROMIUM BASE ISSUER`.

import assert from 'node:assert/strict'
import path from 'node:path'
import { pathToFileURL } from 'node:url'

const [tools, chromium, base, issuer] = process.argv.slice(2)
const driver = await import(pathToFileURL(path.join(tools, 'node_modules/playwright-core/index.mjs')))
const browser = await driver.chromium.launch({
  executablePath: chromium,
  args: ['--no-sandbox', '--no-proxy-server', '--disable-background-networking'],
})
// The provider's certificate is of an authority of its own.
const context = await browser.newContext({ ignoreHTTPSErrors: true, locale: 'en-GB' })
await context.addInitScript(() => {
  window.reports = []
  addEventListener('securitypolicyviolation', (event) => window.reports.push(event.violatedDirective))
})
const page = await context.newPage()
page.setDefaultTimeout(20_000)
const tokens = []
page.on('response', async (answer) => {
  if (answer.url() === `${issuer}/token` && answer.request().method() === 'POST') tokens.push((await answer.json()).access_token)
})
const asked = []
// The provider's own page asks others for its letters, which is not for here.
await context.route((url) => ![base, issuer].includes(url.origin), (route) => route.abort())
page.on('request', (request) => {
  if (page.url().startsWith(`${base}/`)) asked.push(request)
})

await page.goto(`${base}/console#/statements`)
await page.getByRole('button', { name: 'Sign in with your provider' }).click()
await page.waitForURL(`${issuer}/**`)
assert.equal(new URL(page.url()).hash, '')
await page.locator('[name=login]').fill('somebody')
await page.locator('[name=password]').fill('any')
await page.locator('button[type=submit]').click()
await page.locator('button[type=submit]', { hasText: /continue|authorize|consent/i }).click()
await page.waitForURL(`${base}/console**`)
// Back where one was, with the provider's code gone.
await page.locator('main h1', { hasText: 'Statements' }).waitFor()
assert.equal(page.url(), `${base}/console#/statements`)
await page.getByText('No statement matches.').waitFor()
assert.equal(tokens.length, 1)
const kept = await page.evaluate(() => JSON.stringify([{ ...localStorage }, { ...sessionStorage }, document.cookie, location.href, history.state]))
assert.ok(!kept.includes(tokens[0].slice(0, 20)) && !kept.includes('verifier') && !kept.includes('code='), kept)
for (const request of asked) {
  const url = request.url()
  assert.ok(url.startsWith(`${base}/`) || url.startsWith(`${issuer}/`), url)
  const referrer = (await request.allHeaders()).referer ?? ''
  assert.ok(!referrer.includes('code='), `${url} is told ${referrer}`)
  assert.ok(!url.includes(tokens[0]), url)
}
assert.deepEqual(await page.evaluate(() => window.reports), [])

// An answer that nobody here has asked for signs nobody in.
await page.goto(`${base}/console?code=stolen&state=guessed`)
await page.getByText('This sign-in was not begun here.').waitFor()
assert.equal(page.url(), `${base}/console`)
assert.equal(tokens.length, 1)
await browser.close()
