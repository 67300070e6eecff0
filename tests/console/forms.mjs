// What a form sends, what leads where, and what is seen on paper, in forced colours and on a small phone: `node forms.mjs
// TOOLS CHROMIUM BASE`, with a token of headquarters in TOKEN, against the demonstration's data after its walk. Ends with 1
// when something is not as it should be.

import { en } from '../../console/words/en.js'
import { ko } from '../../console/words/ko.js'
import { opened } from './window.mjs'

const [tools, chromium, base] = process.argv.slice(2)
const headers = { authorization: `Bearer ${process.env.TOKEN}`, 'content-type': 'application/json' }
const { browser, page } = await opened(tools, chromium)
const complaints = []
page.on('pageerror', (error) => complaints.push(String(error.stack)))

function check(holds, what) {
  if (!holds) throw new Error(what)
}

const go = (hash) => page.evaluate((hash) => { location.hash = hash }, hash)
const frames = () => page.evaluate(() => new Promise((done) => requestAnimationFrame(() => requestAnimationFrame(() => setTimeout(done)))))
const settled = () => page.waitForFunction(() => !document.querySelector('main .spinner'))
const examples = await (await fetch(`${base}/openapi.json`)).json()
const example = examples.paths['/settlement-deposit-requests'].post.requestBody.content['application/json'].example

// Some of each kind of events, as they are told of everything at first.
const told = (subject, number) => ({ id: `1-${number}`, type: 'carebook.told', subject, time: '2026-11-24T00:00:00Z', data: { operation: 'reference_fact', actorKind: null } })
const subjects = ['reference-facts/actor/one', 'mother-profiles/one', 'webhook-subscriptions/one', 'settlement-statements/one', 'outbox/7', 'organization']
const isLog = (url) => url.pathname === '/events'
await page.route(isLog, (route) => {
  if (route.request().headers().accept === 'text/event-stream') return route.continue()
  return route.fulfill({ status: 200, contentType: 'application/json', body: JSON.stringify({ events: subjects.map(told), next: '1-9', end: true }) })
})
// The figures wait after the first ones, so that the charts have one point.
const figures = (url) => url.pathname === '/console/figures'
let answered = 0
const held = []
await page.route(figures, (route) => {
  answered += 1
  return answered === 1 ? route.continue() : held.push(route)
})
await page.addInitScript(() => {
  window.drawn = []
  const draw = CanvasRenderingContext2D.prototype.fillText
  CanvasRenderingContext2D.prototype.fillText = function (text, ...at) {
    window.drawn.push(String(text))
    return draw.call(this, text, ...at)
  }
})

// The first figures are of one time: the axis has none to tell yet.
await page.goto(`${base}/console`)
await page.fill('#token', process.env.TOKEN)
await page.keyboard.press('Enter')
await page.waitForFunction(() => document.querySelectorAll('.feed li').length === 6)
await page.waitForSelector('main > .columns > .panel')
await page.waitForFunction(() => document.querySelector('.chart .now b')?.textContent !== undefined && window.drawn.length > 0)
await frames()
const times = () => page.evaluate(() => window.drawn.filter((text) => /^\d\d:\d\d:\d\d$/.test(text)))
check((await times()).length === 0, `around one point the axis tells of ${await times()}`)
await page.waitForFunction(() => document.querySelectorAll('main > .columns > .panel').length === 6)
for (const width of [1440, 1100, 900]) {
  await page.setViewportSize({ width, height: 900 })
  await frames()
  const gap = await page.evaluate(() => {
    const bottoms = [...document.querySelectorAll('main > .columns > .panel')].map((one) => one.getBoundingClientRect().bottom)
    return document.querySelector('main > section.panel').getBoundingClientRect().top - Math.max(...bottoms)
  })
  check(gap >= 13.5, `at ${width} pixels the panels are ${gap} pixels apart`)
}
await page.setViewportSize({ width: 1440, height: 900 })

// What nobody here can read is no link; a webhook has a page of its own.
const hrefs = await page.locator('.feed li').evaluateAll((all) => all.map((one) => [one.querySelector('.id').title, one.querySelector('a')?.getAttribute('href') ?? null]))
const wanted = {
  'reference-facts/actor/one': null,
  'mother-profiles/one': null,
  'webhook-subscriptions/one': '#/webhooks/one',
  'settlement-statements/one': '#/resource/settlement-statements/one',
  'outbox/7': '#/messages/7',
  organization: '#/resource/organization',
}
for (const [subject, href] of hrefs) check(href === wanted[subject], `${subject} leads to ${href}`)
await page.unroute(figures)
for (const route of held) await route.continue()
await page.waitForFunction(() => window.drawn.some((text) => /^\d\d:\d\d:\d\d$/.test(text)))

// Only what has a history offers one.
await go('#/resource/organization')
await page.waitForSelector('.body')
check((await page.locator('[role=tab]').count()) === 1, 'what has no history offers one')

// A wheel changes no amount; what is no number is marked, sent as it stands, and refused.
await go('#/commands/grant_payment_authority')
await page.getByRole('button', { name: en['commands.example'] }).click()
const amount = page.getByLabel('maximumAuthorizedAmountKrw')
const before = await amount.inputValue()
check(Number(before) > 0, `the example has the amount ${before}`)
await amount.focus()
await amount.hover()
for (const by of [120, 120, -120]) await page.mouse.wheel(0, by).then(frames)
check((await amount.inputValue()) === before, `a wheel has made ${before} to ${await amount.inputValue()}`)
/** Tries what stands in the form: what was sent. */
async function tried() {
  const asked = page.waitForRequest((request) => request.url().includes('dryRun=true'))
  await page.getByRole('button', { name: en['commands.try'], exact: true }).click()
  const sent = (await asked).postDataJSON()
  await page.waitForSelector('.results .panel')
  return sent
}
for (const [text, sent] of [['12-5', '12-5'], ['-', '-'], ['1e3', '1e3'], ['9007199254740993', '9007199254740993'], ['250000', 250_000]]) {
  await amount.fill(text)
  await frames()
  if (text === '12-5') check((await amount.getAttribute('aria-invalid')) === 'true', `${text} is not marked before it is tried`)
  const body = await tried()
  check(body.maximumAuthorizedAmountKrw === sent, `${text} was sent as ${JSON.stringify(body.maximumAuthorizedAmountKrw)}`)
  check((await amount.inputValue()) === text, `${text} is shown as ${await amount.inputValue()}`)
  if (text === sent) await page.locator('.faults', { hasText: en['fault.wrong_type'] }).waitFor()
  check((await amount.getAttribute('aria-invalid')) === String(text === sent), `whether ${text} is marked`)
}

// Long text is sent whole, with its lines, and counted as the service counts; what is too long is said, in both languages.
await go('#/commands/request_deposit')
await page.getByRole('button', { name: en['commands.example'] }).click()
await page.getByLabel(en['field.statementCode']).fill('FORMS')
const message = page.getByLabel(en['field.messageToBranch'])
const pasted = async (text) => {
  await message.focus()
  await page.keyboard.press('ControlOrMeta+a')
  await page.keyboard.insertText(text)
  const sent = (await tried()).messageToBranch
  check(sent === text, `of ${text.length} characters ${sent.length} were sent`)
}
await pasted(`one\n${'😀'.repeat(3_996)}`)
await page.getByRole('heading', { name: en['commands.wouldMake'] }).waitFor()
await pasted(`${'x'.repeat(4_000)} end`)
await page.locator('.at-fault', { hasText: en['fault.too_long'] }).waitFor()
await page.getByRole('button', { name: '한', exact: true }).click()
await page.locator('.at-fault', { hasText: ko['fault.too_long'] }).waitFor()
await page.locator('.faults', { hasText: ko['fault.too_long'] }).waitFor()
await page.getByRole('button', { name: 'EN', exact: true }).click()

// What is owed to somebody is less than nothing.
await go('#/resource/reservation-payment-change-adjustments/reservation-booking-1')
await page.locator('.won', { hasText: /^-₩10,000$/ }).first().waitFor()

// A list is where it was left, and a fresh one begins at its top.
const COUNT = 160
const make = (number) => fetch(`${base}/settlement-deposit-requests`, {
  method: 'POST',
  headers,
  body: JSON.stringify({ ...example, branchProfileId: 'branch-forms-1', statementCode: `FORM-${number}`, idempotencyKey: `form-${number}` }),
})
for (let from = 0; from < COUNT; from += 40) await Promise.all(Array.from({ length: 40 }, (_, index) => make(from + index)))
await go('#/statements?branch=branch-forms-1')
await page.waitForSelector('[data-row="0"]')
const scrolled = (to) => page.locator('.window').evaluate((box, to) => { box.scrollTop = to }, to)
/** What stands at the top of the rows. */
const atTop = () => page.evaluate(() => {
  const { left, top } = document.querySelector('.window').getBoundingClientRect()
  return document.elementFromPoint(left + 40, top + 60).closest('[data-row]')?.textContent
})
for (const row of [40, 120]) {
  await scrolled(row * 37)
  await page.waitForSelector(`[data-row="${row + 2}"]`)
  await scrolled(row * 37)
  await frames()
  const left = await atTop()
  await page.locator(`[data-row="${row + 4}"] a`).click()
  await page.waitForSelector('.body')
  await page.goBack()
  await page.waitForSelector(`[data-row="${row + 2}"]`)
  await frames()
  // How long ago it was is told of each.
  check((await atTop())?.slice(0, 40) === left?.slice(0, 40), `the list was left at ${left}, and is at ${await atTop()}`)
}
await go('#/commands')
await page.waitForSelector('.commands')
await go('#/statements?branch=branch-forms-1')
await page.waitForSelector('[data-row="0"]')
check((await page.locator('.window').evaluate((box) => box.scrollTop)) === 0, 'a fresh list is not at its top')

// On paper there is each row that is loaded, in light colours, and it is said where there are more.
await page.getByRole('button', { name: en['shell.dark'] }).click()
await page.evaluate(() => addEventListener('beforeprint', () => {
  const [dark, rows] = [document.documentElement.dataset.look, () => document.querySelectorAll('[data-row]').length]
  Promise.resolve().then(() => Promise.resolve()).then(() => { window.printed = { dark, rows: rows(), says: document.querySelector('.foot').textContent } })
}))
await page.pdf({ format: 'A4' })
const printed = await page.evaluate(() => window.printed)
check(printed.rows === 100 && printed.says === en['list.printed'].replace('{from}', '1').replace('{to}', '100'), JSON.stringify(printed))
await scrolled(1e6)
await page.locator('.foot', { hasText: en['list.all'].replace('{n}', String(COUNT)) }).waitFor()
await page.pdf({ format: 'A4' })
const whole = await page.evaluate(() => window.printed)
check(whole.rows === COUNT && whole.dark === 'dark', JSON.stringify(whole))
// The list on the screen is still where it was, also where its rows are higher than on paper.
await page.setViewportSize({ width: 900, height: 900 })
await scrolled(60 * 76)
await page.waitForSelector('[data-row="62"]')
await frames()
const shown = await atTop()
await page.pdf({ format: 'A4' })
await frames()
check((await atTop())?.slice(0, 40) === shown.slice(0, 40), `the list was at ${shown}, and is at ${await atTop()} after it was printed`)
await page.setViewportSize({ width: 1440, height: 900 })
await page.emulateMedia({ media: 'print' })
const paper = await page.evaluate(() => ({
  ground: getComputedStyle(document.body).backgroundColor,
  bars: [...document.querySelectorAll('.top, .nav, .filters')].filter((one) => one.getClientRects().length > 0).length,
  hidden: document.querySelector('.window').scrollHeight - document.querySelector('.window').clientHeight,
}))
check(paper.ground === 'rgb(246, 247, 246)' && paper.bars === 0 && paper.hidden <= 0, JSON.stringify(paper))
await page.emulateMedia({ media: null })
await page.getByRole('button', { name: en['shell.light'] }).click()

// With colours of the user's own: the dot, the tab and the page that one is at are seen.
await page.emulateMedia({ forcedColors: 'active' })
await go('#/deliveries')
await page.waitForSelector('.tabs')
await settled()
const seen = await page.evaluate(() => {
  const style = (selector) => getComputedStyle(document.querySelector(selector))
  return {
    dot: style('.live .dot').backgroundColor !== style('.top').backgroundColor,
    tab: style('.tabs [aria-selected=true]').borderBottomColor !== style('.tabs [aria-selected=false]').borderBottomColor,
    page: style('.nav [aria-current]').outlineStyle,
  }
})
check(seen.dot && seen.tab && seen.page === 'solid', JSON.stringify(seen))
await page.emulateMedia({ forcedColors: null })

// On a small phone the end of a period is there.
await page.setViewportSize({ width: 360, height: 740 })
await go('#/statements?branch=branch-forms-1')
await page.waitForSelector('[data-row="0"]')
await frames()
const cut = await page.locator('[data-row="0"] > :nth-child(6)').evaluate((cell) => cell.scrollWidth - cell.clientWidth)
check(cut <= 0, `${cut} pixels of the period are cut off`)
// Nor is a short label cut for the sake of what stands beside it.
await go('#/branches')
await page.waitForSelector('[data-row="0"]')
await frames()
const [label, needed] = await page.locator(`[data-row="0"] > [data-label="${en['branches.pending']}"]`).evaluate((cell) => {
  const style = getComputedStyle(cell, '::before')
  const context = document.createElement('canvas').getContext('2d')
  context.font = `${style.fontSize} ${style.fontFamily}`
  return [parseFloat(style.width), context.measureText(cell.dataset.label).width]
})
check(label >= needed, `the label has ${label} of ${needed} pixels`)
check(complaints.length === 0, complaints.join('\n'))
await browser.close()
