// The console in a browser beside a server that a bench has started, measured:
// `node campaign.mjs TOOLS CHROMIUM BASE first`: how soon its first pages are useful.
// `… BASE list COUNT`: the list of COUNT statements, scrolled through from end to end, and filtered. That
//     takes some 20 minutes of a million; SCROLLED=N scrolls through the first N of them.
// `… BASE open COUNT`: so many open pages until a line is read; what they have asked for.
// A token of headquarters is in TOKEN. The last line is what came of it, as JSON.

import path from 'node:path'
import { once } from 'node:events'
import { pathToFileURL } from 'node:url'

import { scrolledBack, scrolledThrough } from './lists.mjs'

const [tools, chromium, base, mode, count] = process.argv.slice(2)
const token = process.env.TOKEN
const { chromium: driver } = await import(pathToFileURL(path.join(tools, 'node_modules/playwright-core/index.mjs')))
const browser = await driver.launch({
  executablePath: chromium,
  args: ['--no-sandbox', '--no-proxy-server', '--disable-background-networking', '--disable-component-update'],
})

const share = (sorted, part) => Math.round(sorted[Math.min(sorted.length - 1, Math.floor(sorted.length * part))] * 10) / 10
/** The middle, the 99th percentile and the most, in milliseconds. */
function told(times) {
  const sorted = [...times].sort((a, b) => a - b)
  return { count: sorted.length, p50Ms: share(sorted, 0.5), p99Ms: share(sorted, 0.99), mostMs: share(sorted, 1) }
}

async function signedIn(page) {
  await page.fill('#token', token)
  await page.keyboard.press('Enter')
  await page.waitForSelector('main h1')
}

/** First pages of browsers that have been here never, and before. */
async function first() {
  const times = { firstOfTheServer: [], cold: [], warm: [], overviewCold: [], overviewWarm: [] }
  for (let round = 0; round < 10; round += 1) {
    const context = await browser.newContext()
    const page = await context.newPage()
    await page.goto('about:blank')
    for (const kind of ['cold', 'warm']) {
      let at = performance.now()
      await page.goto(`${base}/console`, { waitUntil: 'commit' })
      await page.waitForSelector('#token')
      times[round === 0 && kind === 'cold' ? 'firstOfTheServer' : kind].push(performance.now() - at)
      await page.fill('#token', token)
      at = performance.now()
      await page.keyboard.press('Enter')
      await page.waitForSelector('.ready')
      times[kind === 'cold' ? 'overviewCold' : 'overviewWarm'].push(performance.now() - at)
    }
    await context.close()
  }
  return Object.fromEntries(Object.entries(times).map(([name, all]) => [name, told(all)]))
}

async function list() {
  const FILTERED = 250
  const document = await (await fetch(`${base}/openapi.json`)).json()
  const example = document.paths['/settlement-deposit-requests'].post.requestBody.content['application/json'].example
  for (let number = 0; number < FILTERED; number += 1) {
    const answer = await fetch(`${base}/settlement-deposit-requests`, {
      method: 'POST',
      headers: { Authorization: `Bearer ${token}`, 'Content-Type': 'application/json' },
      body: JSON.stringify({ ...example, branchProfileId: 'branch-filtered-1', statementCode: `FILTERED-${number}`, idempotencyKey: `filtered-${number}` }),
    })
    if (answer.status !== 201) throw new Error(await answer.text())
  }
  const all = Number(count) + FILTERED
  const scrolled = Math.min(all, Number(process.env.SCROLLED ?? all))
  // As high as a window on a desk.
  const page = await (await browser.newContext({ viewport: { width: 1440, height: 1_000 } })).newPage()
  page.setDefaultTimeout(60_000)
  await page.goto(`${base}/console#/statements?status=all`)
  await signedIn(page)
  await page.waitForSelector('[data-row="0"]')
  const began = performance.now()
  const { took, ...seen } = await scrolledThrough(page, scrolled)
  const seconds = Math.round((performance.now() - began) / 1000)
  if (seen.rows < scrolled || seen.missing || seen.twice) throw new Error(JSON.stringify({ ...seen, all }))
  const back = await scrolledBack(page, 10_000)
  if (back.others) throw new Error(`${back.others} rows are other ones on the way back`)
  const session = await page.context().newCDPSession(page)
  await page.evaluate(() => { delete window.names })
  await session.send('HeapProfiler.collectGarbage')
  const { metrics } = await session.send('Performance.enable').then(() => session.send('Performance.getMetrics'))
  const heap = metrics.find((one) => one.name === 'JSHeapUsedSize').value
  // Each filter is a page of its own: from what is chosen to the rows.
  const filters = []
  const measured = async (act, there) => {
    await page.evaluate(() => performance.clearMeasures())
    await act()
    await there()
    const took = await page.waitForFunction(() => performance.getEntriesByName('carebook.page').at(-1)?.duration)
    filters.push(await took.jsonValue())
  }
  const [status, order] = [page.locator('.filters select').nth(0), page.locator('.filters select').nth(1)]
  const total = (n) => page.waitForFunction((n) => document.querySelector('.rows').getAttribute('aria-rowcount') === String(n + 1), n)
  for (let round = 0; round < 20; round += 1) {
    await measured(() => page.fill('.filters input', 'branch-filtered-1').then(() => page.keyboard.press('Enter')), () => page.getByText('FILTERED-0', { exact: true }).waitFor())
    await measured(() => status.selectOption('awaiting_confirmation'), () => total(0))
    await measured(() => status.selectOption('awaiting_branch_deposit'), () => page.getByText('FILTERED-0', { exact: true }).waitFor())
    await measured(() => order.selectOption('newest'), () => page.getByText('FILTERED-249', { exact: true }).waitFor())
    await measured(() => page.fill('.filters input', '').then(() => page.keyboard.press('Enter')), () => page.getByText('FILTERED-249', { exact: true }).waitFor())
    await measured(() => order.selectOption('oldest'), () => page.waitForFunction(() => !document.querySelector('[data-row="0"]')?.textContent.includes('FILTERED')))
    await measured(() => status.selectOption('all'), () => page.waitForSelector('[data-row="0"]'))
  }
  return { ...seen, seconds, pages: told(took), filters: told(filters), back: back.seen, heapBytesAfterwards: heap }
}

async function open() {
  const asked = {}
  const pages = []
  for (let number = 0; number < Number(count); number += 1) {
    const page = await (await browser.newContext()).newPage()
    page.on('request', (request) => {
      const at = new URL(request.url())
      if (at.pathname.includes('/files/')) return
      const name = `${at.pathname}${request.headers().accept === 'text/event-stream' ? ' (stream)' : ''}`
      asked[name] = (asked[name] ?? 0) + 1
    })
    await page.goto(`${base}/console${number % 2 ? '#/statements' : ''}`)
    await signedIn(page)
    pages.push(page)
  }
  console.log('open')
  await once(process.stdin, 'data')
  return asked
}

try {
  const outcome = await { first, list, open }[mode]()
  console.log(JSON.stringify(outcome))
  await browser.close()
  process.exit(0)
} catch (error) {
  console.log(String(error.stack ?? error).replaceAll('\n', ' '))
  await browser.close()
  process.exit(1)
}
