// A delivery that is dead, sent again; and the webhook paused while something happens, and resumed: `node
// deliveries.mjs TOOLS CHROMIUM BASE WEBHOOK`, with a token in TOKEN. The receiver takes what is sent now.
// Ends with 1 when something is not as it should be.

import { en } from '../../console/words/en.js'
import { opened } from './window.mjs'

const [tools, chromium, base, webhook] = process.argv.slice(2)
const { browser, page } = await opened(tools, chromium)
const complaints = []
page.on('console', (message) => message.type() === 'error' && complaints.push(message.text()))
page.on('pageerror', (error) => complaints.push(String(error.stack)))

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
  await page.getByRole('button', { name: en[button], exact: true }).click()
  await page.locator('dialog button[type=submit]').click()
  await page.locator('.page-head .badge', { hasText: en[value] }).waitFor()
  if (value === 'value.enabled') break
  const facts = [{ kind: 'actor', id: 'one', revision: 2, facts: { lifecycle: 'active' } }]
  const headers = { authorization: `Bearer ${process.env.TOKEN}`, 'content-type': 'application/json' }
  const answer = await fetch(`${base}/reference-facts`, { method: 'POST', headers, body: JSON.stringify({ facts }) })
  if (!answer.ok) throw new Error(await answer.text())
}
if (complaints.length) throw new Error(complaints.join('\n'))
await browser.close()
