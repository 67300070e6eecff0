// A page where more is committed than people can read, and one that is out of sight: `node busy.mjs TOOLS
// CHROMIUM BASE`, with a token in TOKEN. Ends with 1 when something is not as it should be.

import { en } from '../../console/words/en.js'
import { opened } from './window.mjs'

const [tools, chromium, base] = process.argv.slice(2)
const { browser, page } = await opened(tools, chromium)

function check(holds, what) {
  if (!holds) throw new Error(what)
}

// The first two streams tell of much at once; those after them are the service's own.
const event = (number) => {
  const told = { id: `1-${number}`, type: 'carebook.settlement-statement.opened', subject: `settlement-statements/${number}`, time: '2026-11-24T00:00:00Z', data: {} }
  return `id: 1-${number}\ndata: ${JSON.stringify(told)}\n\n`
}
const much = Array.from({ length: 250 }, (_, number) => event(number)).join('')
/** When a stream was asked for. @type {number[]} */
const streams = []
/** When what the page shows was asked for again. @type {number[]} */
const again = []
await page.route((url) => url.pathname === '/events', (route) => {
  if (route.request().headers().accept !== 'text/event-stream') return route.continue()
  streams.push(Date.now())
  if (streams.length > 2) return route.continue()
  return route.fulfill({ status: 200, contentType: 'text/event-stream', body: much })
})
page.on('request', (request) => new URL(request.url()).pathname === '/settlement-statements' && again.push(Date.now()))
const until = async (holds, what) => {
  for (const from = Date.now(); !holds(); await page.waitForTimeout(50)) check(Date.now() - from < 20_000, what)
}
const says = (word) => page.locator('.live', { hasText: en[`stream.${word}`] }).waitFor()

await page.goto(`${base}/console`)
await page.fill('#token', process.env.TOKEN)
await page.keyboard.press('Enter')
await says('busy')
await until(() => streams.length === 3, 'a page that is told of much never follows again')
// A quarter more or less: 2 s, and then 4 s.
const pauses = [streams[1] - streams[0], streams[2] - streams[1]]
check(pauses[0] >= 1_450 && pauses[1] >= 2_950, `it does not wait longer each time: ${pauses}`)
// Once when the pause was over, and not a second time for what was told before the next one.
const asked = again.filter((at) => at > streams[1] - 200 && at < streams[2] - 200).length
check(asked <= 2, `what it shows was asked for ${asked} times`)
await says('live')

const facts = async (revision) => {
  const fact = { kind: 'actor', id: 'one', revision, facts: { lifecycle: 'active' } }
  const headers = { authorization: `Bearer ${process.env.TOKEN}`, 'content-type': 'application/json' }
  const answer = await fetch(`${base}/reference-facts`, { method: 'POST', headers, body: JSON.stringify({ facts: [fact] }) })
  check(answer.ok, await answer.text())
}
const fed = (count) => page.waitForFunction((count) => document.querySelectorAll('.feed li').length === count, count)
const show = (isHidden) => page.evaluate((isHidden) => {
  Object.defineProperty(document, 'hidden', { value: isHidden, configurable: true })
  document.dispatchEvent(new Event('visibilitychange'))
}, isHidden)
const before = await page.locator('.feed li').count()
await facts(2)
await fed(before + 1)

// Out of sight for a moment it goes on, for longer it does not; what it has missed it is told when it is seen.
const ended = page.waitForEvent('requestfailed', (request) => new URL(request.url()).pathname === '/events')
await show(true)
await show(false)
await facts(3)
await fed(before + 2)
check(streams.length === 3, 'a moment out of sight ends a stream')
await show(true)
await ended
await facts(4)
await page.waitForTimeout(1_500)
check(streams.length === 3, 'what is out of sight follows again')
check((await page.locator('.feed li').count()) === before + 2, 'what is out of sight is told')
await show(false)
await fed(before + 3)
await says('live')
check(streams.length === 4, `${streams.length} streams`)
await browser.close()
