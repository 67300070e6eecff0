// A delivery that is dead, sent again; and the webhook paused while something happens, and resumed: `node
// deliveries.mjs TOOLS CHROMIUM BASE WEBHOOK`, with a token in TOKEN. The receiver takes what is sent now. In the end
// the webhook is deleted, at first in vain.
// Ends with 1 when something is not as it should be.

import { en } from '../../console/words/en.js'
import { opened } from './window.mjs'

const [tools, chromium, base, webhook] = process.argv.slice(2)
const { browser, page } = await opened(tools, chromium)
const complaints = []
page.on('console', (message) => message.type() === 'error' && complaints.push(message.text()))
page.on('pageerror', (error) => complaints.push(String(error.stack)))

const PATIENCE = 20_000
const headers = { authorization: `Bearer ${process.env.TOKEN}`, 'content-type': 'application/json' }
const pause = (time) => new Promise((done) => setTimeout(done, time))
const read = async () => (await fetch(`${base}/webhook-subscriptions/${webhook}`, { headers })).json()

/** @param {() => boolean | Promise<boolean>} isIt @param {string} otherwise */
async function until(isIt, otherwise) {
  for (const end = Date.now() + PATIENCE; !(await isIt()); await pause(20)) {
    if (Date.now() > end) throw new Error(otherwise)
  }
}

/** @param {number} revision */
async function commitFact(revision) {
  const facts = [{ kind: 'actor', id: 'one', revision, facts: { lifecycle: 'active' } }]
  const answer = await fetch(`${base}/reference-facts`, { method: 'POST', headers, body: JSON.stringify({ facts }) })
  if (!answer.ok) throw new Error(await answer.text())
}

await page.goto(`${base}/console#/webhooks/${webhook}?state=dead`)
await page.fill('#token', process.env.TOKEN)
await page.keyboard.press('Enter')

// Which is dead, how often it was tried, and why.
const row = page.locator('[data-row="0"]')
await row.waitFor()
const told = await row.innerText()
if (!told.includes('reference-fact.applied') || !told.includes('10') || !/400/.test(told)) throw new Error(told)

await row.getByRole('button', { name: en['message.retry'] }).click()
await page.locator('dialog button[type=submit]').click()
await page.waitForSelector('dialog', { state: 'detached' })
// It is seen to be gone without anything being asked for by hand.
await page.getByText(en['deliveries.none']).waitFor()

for (const [button, value] of [['webhooks.pause', 'value.paused'], ['webhooks.resume', 'value.enabled']]) {
  await page.getByRole('button', { name: en[button] }).click()
  await page.locator('dialog button[type=submit]').click()
  await page.locator('.page-head .badge', { hasText: en[value] }).waitFor()
  if (value === 'value.enabled') break
  await commitFact(2)
}

// Both were taken, and the webhook is as it shall be.
await until(async () => (await read()).waiting === 0, 'something waits')
const stands = await read()
if (stands.dead !== 0 || stands.status !== 'enabled') throw new Error(JSON.stringify(stands))

// While it is being deleted the page gives up what it has asked of it, which would not be found, and asks nothing.
const isOfWebhook = (url) => url.pathname.startsWith(`/webhook-subscriptions/${webhook}`)
const [asked, given, deletions] = [new Set(), new Set(), []]
page.on('requestfailed', (request) => { if (asked.has(request)) given.add(request) })
let areHeld = true
await page.route(isOfWebhook, (route) => {
  if (!areHeld) return route.continue()
  if (route.request().method() === 'DELETE') deletions.push(route)
  else asked.add(route.request())
})
await commitFact(3)
await until(() => asked.size >= 2, 'an event is no news for the page')
await page.getByRole('button', { name: en['webhooks.delete'] }).click()
await page.locator('dialog button[type=submit]').click()
await until(() => deletions.length === 1, 'it is not deleted')
await until(() => given.size === asked.size, 'what is about to be gone is still asked for')
const before = asked.size
await commitFact(4)
await pause(1_500)
if (asked.size !== before) throw new Error('what is about to be gone is asked for')

// What was refused is asked for again, and can be deleted then.
areHeld = false
const problem = { status: 409, code: 'revision_stale', message: 'Stale.', fieldErrors: [], conflictingFieldPaths: [], retryable: false }
const shown = page.waitForResponse((answer) => isOfWebhook(new URL(answer.url())) && answer.request().method() === 'GET')
await deletions[0].fulfill({ status: 409, contentType: 'application/json', body: JSON.stringify(problem) })
await shown
await page.locator('dialog button[type=submit]').click()
await page.waitForSelector('#tab-webhooks[aria-selected=true]')
if ((await read()).status !== 404) throw new Error('it is still there')
if (complaints.length !== 1 || !complaints[0].includes('409')) throw new Error(complaints.join('\n'))
await browser.close()
