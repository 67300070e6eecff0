// The console's tasks in a real Chromium: `node browser.mjs TOOLS CHROMIUM BASE CODE`, with a token of
// headquarters in TOKEN. CODE is that of the link which signs in once. With PICTURES=FOLDER it takes a
// picture of every page. Prints what it did and measured; ends with 1 when something is not as it
// should be.

import path from 'node:path'
import fs from 'node:fs'
import { pathToFileURL } from 'node:url'

import { scrolledBack, scrolledThrough } from './lists.mjs'

const [tools, chromium, base, code] = process.argv.slice(2)
const modules = path.join(tools, 'node_modules')
const { chromium: driver } = await import(pathToFileURL(path.join(modules, 'playwright-core/index.mjs')))
const axeSource = fs.readFileSync(path.join(modules, 'axe-core/axe.min.js'), 'utf8')
const words = {
  ko: (await import(pathToFileURL(path.resolve('console/words/ko.js')))).ko,
  en: (await import(pathToFileURL(path.resolve('console/words/en.js')))).en,
}
const token = process.env.TOKEN
const pictures = process.env.PICTURES
const faults = []
const began = Date.now()

const browser = await driver.launch({
  executablePath: chromium,
  args: ['--no-sandbox', '--no-proxy-server', '--disable-background-networking', '--disable-component-update'],
})

const pause = (time) => new Promise((done) => setTimeout(done, time))

function check(holds, what) {
  if (!holds) throw new Error(what)
}

async function step(name, run) {
  const at = Date.now()
  try {
    await run()
    console.log(`ok   ${name} (${Date.now() - at} ms)`)
  } catch (error) {
    faults.push(`${name}: ${error.stack ?? error}\n${await inSight()}`)
    console.log(`FAIL ${name}`)
  }
}

/** What the newest page that is open shows, and complained of. */
async function inSight() {
  const page = browser.contexts().flatMap((context) => context.pages()).at(-1)
  if (!page) return 'no page is open'
  const shown = await page.locator('main').innerText({ timeout: 2_000 }).catch((error) => String(error))
  return `at ${page.url()}: ${shown.slice(0, 2_000)}\ncomplaints: ${page.complaints?.join('\n')}`
}

/** A page of its own, whose complaints are kept. */
async function opened({ language, width, look = 'light' }) {
  const context = await browser.newContext({
    viewport: { width, height: width < 500 ? 844 : 900 },
    locale: language === 'ko' ? 'ko-KR' : 'en-GB',
    timezoneId: 'America/New_York',
    reducedMotion: 'reduce',
    bypassCSP: false,
    permissions: ['clipboard-write', 'clipboard-read'],
  })
  await context.addInitScript(([language, look]) => {
    if (!localStorage.getItem('carebook.language')) localStorage.setItem('carebook.language', language)
    if (!localStorage.getItem('carebook.look')) localStorage.setItem('carebook.look', look)
    window.reports = []
    addEventListener('securitypolicyviolation', (event) => window.reports.push(`${event.violatedDirective} ${event.blockedURI}`))
  }, [language, look])
  const page = await context.newPage()
  page.setDefaultTimeout(15_000)
  page.complaints = []
  page.refusals = 0
  page.on('console', (message) => {
    if (message.type() !== 'error' && message.type() !== 'warning') return
    // A refusal that a step asks for is told by the browser, too.
    if (page.refusals > 0 && message.text().startsWith('Failed to load resource')) page.refusals -= 1
    else page.complaints.push(`${message.text()} ${message.location().url}`)
  })
  page.on('pageerror', (error) => page.complaints.push(String(error.stack)))
  page.on('request', (request) => {
    const url = request.url()
    if (!url.startsWith(`${base}/`) && !url.startsWith('blob:')) page.complaints.push(`asked ${url}`)
  })
  page.t = (key, values = {}) => words[language][key].replace(/\{(\w+)\}/g, (_, name) => values[name] ?? '')
  return page
}

/** Goes on with Tab until what has the focus is this. What is still being asked for may come while it goes round. */
async function tabTo(page, what, matches, most = 90) {
  for (const until = Date.now() + 10_000; ; await pause(100)) {
    for (let times = 0; times < most; times += 1) {
      if (await page.evaluate(matches[0], matches[1])) return
      await page.keyboard.press('Tab')
    }
    if (Date.now() > until) throw new Error(`the keyboard does not come to ${what}`)
  }
}

const isLink = (text) => [(text) => document.activeElement?.matches('a') && document.activeElement.textContent.trim() === text, text]
const isButton = (text) => [(text) => document.activeElement?.matches('button') && (document.activeElement.textContent.trim() === text || document.activeElement.ariaLabel === text), text]
const matches = (selector) => [(selector) => Boolean(document.activeElement?.matches(selector)), selector]

async function signedIn(page, hash = '') {
  await page.goto(`${base}/console${hash}`)
  await page.waitForSelector('#token')
  await tabTo(page, 'the token', matches('#token'))
  await page.keyboard.insertText(token)
  await page.keyboard.press('Enter')
  await page.waitForSelector('main:not(.alone) h1')
}

/** To a page of the navigation, by keyboard. */
async function visit(page, key) {
  await page.evaluate(() => /** @type {any} */ (document.activeElement)?.blur())
  await tabTo(page, page.t(key), isLink(page.t(key)))
  await page.keyboard.press('Enter')
  await heading(page, page.t(key))
}

async function heading(page, text) {
  await page.waitForFunction((text) => document.querySelector('main h1')?.textContent.trim().startsWith(text), text)
}

async function go(page, hash) {
  await page.evaluate((hash) => { location.hash = hash }, hash)
}

/** Nothing that a screen reader, or somebody who sees little, would stumble over. */
async function accessible(page, where) {
  await calm(page, where)
  // As a debugger would: the page's own policy lets no text become code.
  if (!(await page.evaluate(() => Boolean(window.axe)))) {
    const session = await page.context().newCDPSession(page)
    await session.send('Runtime.evaluate', { expression: axeSource })
    await session.detach()
  }
  const found = await page.evaluate(() => window.axe.run(document, { resultTypes: ['violations'], preload: false }))
  // It tries styles of its own, which the policy refuses.
  await page.evaluate(() => { window.reports = [] })
  page.complaints.length = 0
  const told = found.violations.map((one) => `${one.id}: ${one.nodes.slice(0, 3).map((node) => `${node.html.slice(0, 140)} ${node.any[0]?.message ?? ''}`).join(' | ')}`)
  check(told.length === 0, `${where}: ${told.join('\n')}`)
}

async function fits(page, where) {
  const [is, may] = await page.evaluate(() => [document.documentElement.scrollWidth, document.documentElement.clientWidth])
  check(is <= may, `${where} is ${is} pixels wide, of ${may}`)
}

/** Once what is asked for is there. */
async function settled(page) {
  await page.waitForFunction(() => !document.querySelector('main .spinner'))
}

async function calm(page, where) {
  const reports = await page.evaluate(() => window.reports)
  check(reports.length === 0, `${where}: reports of the policy: ${reports.join(', ')}`)
  check(page.complaints.length === 0, `${where}: ${page.complaints.join('\n')}`)
}

async function api(method, path, { body, key } = {}) {
  const answer = await fetch(`${base}${path}`, {
    method,
    headers: {
      Authorization: `Bearer ${token}`,
      ...(body ? { 'Content-Type': 'application/json' } : {}),
      ...(key ? { 'Idempotency-Key': key } : {}),
    },
    body: body && JSON.stringify(body),
  })
  return { status: answer.status, body: await answer.json().catch(() => null) }
}

const statement = (await api('GET', '/settlement-statements?status=awaiting_confirmation&limit=1')).body.items[0]
const branch = (await api('GET', '/admin/branches?limit=1')).body.items[0]

/** Every page, by a name, and what is there once it stands. */
const everywhere = () => ({
  overview: ['#/', '.charts canvas'],
  statements: ['#/statements', '[data-row]'],
  branches: ['#/branches', '[data-row]'],
  branch: [`#/resource/admin/branches/${branch.branchId}`, '.steps li'],
  reservations: ['#/reservations', '[data-row]'],
  reservation: ['#/reservations/reservation-booking-1', '.ledger'],
  resource: [`#/resource/settlement-statements/${statement.statementId}`, '.body'],
  history: [`#/resource/settlement-statements/${statement.statementId}?tab=history`, '.differences'],
  past: [`#/resource/settlement-statements/${statement.statementId}?tab=past&revision=1`, '.differences'],
  messages: ['#/deliveries?state=all', '[data-row]'],
  message: ['#/messages/4', '.body'],
  webhooks: ['#/deliveries?tab=webhooks', '.rows'],
  webhook: [`#/webhooks/${everywhere.webhook}`, '.body'],
  commands: ['#/commands', '.commands'],
  command: ['#/commands/request_deposit', '.command'],
  find: ['#/find?q=reservation-booking-1', '.plain-list'],
})

// One webhook with what a browser must not take for markup, whose deliveries do not arrive: a private
// address is not delivered to, and no name has to be looked up, which may take long.
const hostile = '<img src=x onerror="window.hacked = 1"><script>window.hacked = 1</script>'
const made = await api('POST', '/webhook-subscriptions', {
  key: 'browser-test',
  body: { url: 'https://127.0.0.1:9/events', types: ['carebook.settlement-statement.*'], description: hostile },
})
everywhere.webhook = made.body.subscriptionId

const linked = await opened({ language: 'ko', width: 1440 })
await step('a link signs in once, and is gone from the address', async () => {
  const page = linked
  await page.goto(`${base}/console#link=${code}`)
  await heading(page, page.t('overview.title'))
  check(!(await page.evaluate(() => location.href)).includes(code), 'the code is in the address')
  check((await page.evaluate(() => history.length)) <= 2, 'the code is in the history')
  const kept = await page.evaluate(() => JSON.stringify([{ ...localStorage }, { ...sessionStorage }, document.cookie]))
  check(!/eyJ/.test(kept), `a token is kept: ${kept}`)
  check((await page.locator('select.acting option').count()) === 7, 'not each actor can be chosen')
  await calm(page, 'the first sign-in')
})

await step('each operation that takes a dry run can be tried, by who may carry it out', async () => {
  const page = linked
  const document = await (await fetch(`${base}/openapi.json`)).json()
  const isDryRun = ($ref) => $ref.split('/').slice(1).reduce((at, name) => at[name], document).name === 'dryRun'
  const all = Object.values(document.paths).flatMap((methods) => Object.values(methods))
  const operations = all.filter((one) => one['x-carebook-number'] && one.parameters?.some((parameter) => parameter.name === 'dryRun' || (parameter.$ref && isDryRun(parameter.$ref))))
  check(operations.length === 21, `${operations.length} operations take a dry run`)
  // What the demonstration has done already is refused or a replay; that is no fault of the request.
  page.refusals = operations.length
  await page.getByRole('button', { name: page.t('personal.show') }).click()
  await page.waitForSelector('[aria-pressed="true"]')
  for (const { operationId: id, 'x-carebook-demo-actor': kind } of operations) {
    await go(page, `#/commands/${id}`)
    await heading(page, page.t(`value.${id}`))
    const option = page.locator('select.acting option', { hasText: new RegExp(`^${page.t(`value.${kind}`)}$`) })
    await page.locator('select.acting').selectOption(await option.getAttribute('value'))
    await page.getByRole('button', { name: page.t('commands.example'), exact: true }).click()
    const answer = page.waitForResponse((answer) => answer.url().includes('dryRun=true'))
    await page.getByRole('button', { name: page.t('commands.try'), exact: true }).click()
    const { status, ...told } = await answer.then(async (one) => ({ ...(await one.json().catch(() => null)), status: one.status() }))
    const faults = (told.fieldErrors ?? []).map((fault) => fault.fieldPath).filter((path) => path.startsWith('header.'))
    check(faults.length === 0, `${id}: ${status} ${faults.join(', ')}`)
    check(status < 300 || status === 404 || status === 409, `${id}: ${status} ${told.code}`)
    await page.waitForSelector('.results .panel')
  }
  check((await page.locator('[aria-pressed="true"]').count()) === 0, 'values of persons are shown to who acts next')
  page.refusals = 0
})

/** Has the page act as another actor of the link. */
async function actAs(page, kind) {
  const option = page.locator('select.acting option', { hasText: new RegExp(`^${page.t(`value.${kind}`)}$`) })
  await page.locator('select.acting').selectOption(await option.getAttribute('value'))
}

await step('who may not see the figures lands on the first page that has something for them, and is told so once', async () => {
  const page = linked
  await actAs(page, 'mother')
  await go(page, '')
  await heading(page, page.t('reservations.title'))
  await page.waitForSelector('[data-row="0"]')
  let asked = 0
  page.on('request', (request) => { if (request.url().endsWith('/console/figures')) asked += 1 })
  await go(page, '#/')
  await page.getByText(page.t('overview.forbidden')).waitFor()
  await page.waitForTimeout(2_500)
  check(asked === 1, `the figures were asked for ${asked} times`)
  check((await page.locator('main [role=alert]').count()) === 0, 'what is for others is told as a fault')
  await actAs(page, 'headquarters_administrator')
  await page.waitForSelector('.ready.good')
})

await step('a command whose outcome is not known is kept for who has sent it: beyond the page, another actor and a sign-in', async () => {
  const page = linked
  await actAs(page, 'headquarters_administrator')
  const keys = []
  page.on('request', (request) => request.method() === 'POST' && request.url().endsWith('/settlement-deposit-requests') && keys.push(request.postDataJSON().idempotencyKey))
  await go(page, '#/commands/request_deposit')
  await page.getByRole('button', { name: page.t('commands.example') }).click()
  const typed = (value) => page.locator('.command input').evaluateAll((inputs, value) => inputs.filter((input) => input.value === value).map((input) => input.matches(':disabled')), value)
  await page.locator('.command input').evaluateAll((inputs) => inputs.find((input) => input.value === 'statement-code-1').setAttribute('data-code', ''))
  await page.locator('[data-code]').fill('KEPT')
  await page.getByRole('button', { name: page.t('commands.try'), exact: true }).click()
  await page.getByRole('heading', { name: page.t('commands.wouldMake') }).waitFor()
  await page.route('**/settlement-deposit-requests', async (route) => {
    await route.fetch()
    await route.abort()
  }, { times: 1 })
  const sending = page.getByRole('button', { name: page.t('commands.send'), exact: true })
  const unanswered = page.getByRole('heading', { name: page.t('commands.unanswered') })
  await sending.click()
  await unanswered.waitFor()
  check(await page.evaluate(() => !dispatchEvent(new Event('beforeunload', { cancelable: true }))), 'the page can be left without a question')
  await go(page, '#/statements')
  await page.waitForSelector('[data-row="0"]')
  await page.goBack()
  await unanswered.waitFor()
  check((await typed('KEPT')).join() === 'true', 'what may have been done is forgotten, or can be changed')
  await actAs(page, 'branch_manager')
  await unanswered.waitFor({ state: 'detached' })
  check((await typed('KEPT')).length === 0, 'another actor has what the first has sent')
  // A late answer to what another actor has tried says nothing of what the first has sent.
  await page.getByRole('button', { name: page.t('commands.example') }).click()
  const [isTried, answer] = await holding(page, '**/settlement-deposit-requests?**')
  await page.getByRole('button', { name: page.t('commands.try'), exact: true }).click()
  await isTried
  await actAs(page, 'headquarters_administrator')
  await unanswered.waitFor()
  const late = page.waitForResponse((response) => response.url().includes('dryRun'))
  answer()
  await (await late).finished()
  await page.waitForTimeout(100)
  check(await unanswered.isVisible(), 'what another actor has tried hides what may have been done')
  check((await typed('KEPT')).join() === 'true', 'what another actor has tried lets what may have been done be changed')
  await page.route('**/settlement-deposit-requests', (route) => route.fulfill({ status: 401, contentType: 'application/json', body: '{"code":"authentication_required"}' }), { times: 1 })
  await sending.click()
  await page.fill('#token', token)
  await page.keyboard.press('Enter')
  await unanswered.waitFor()
  check((await typed('KEPT')).join() === 'true', 'a sign-in forgets what may have been done')
  await sending.click()
  await page.getByRole('heading', { name: page.t('commands.sent') }).waitFor()
  check(keys.length === 3 && new Set(keys).size === 1, keys.join('\n'))
  check((await api('GET', '/console/found?id=KEPT')).body.found.length === 1, 'it was not done once')
  check(await page.evaluate(() => dispatchEvent(new Event('beforeunload', { cancelable: true }))), 'a page that is done cannot be left')
})

await step('a reload signs out, and the link does not sign in again', async () => {
  const page = linked
  await page.reload()
  await page.waitForSelector('#token')
  const other = await opened({ language: 'en', width: 1440 })
  other.refusals = 1
  await other.goto(`${base}/console#link=${code}`)
  await other.getByText(other.t('signIn.link_used')).waitFor()
  await other.context().close()
  await page.context().close()
})

await step('the first page is useful at once', async () => {
  const page = await opened({ language: 'ko', width: 1440 })
  const times = []
  for (let times_ = 0; times_ < 3; times_ += 1) {
    const at = Date.now()
    await page.goto(`${base}/console`)
    await page.waitForSelector('#token')
    times.push(Date.now() - at)
    const signed = Date.now()
    await page.fill('#token', token)
    await page.keyboard.press('Enter')
    await page.waitForSelector('.ready.good')
    times.push(Date.now() - signed)
  }
  console.log(`     cold and warm, sign-in and overview: ${times.join(', ')} ms`)
  const wire = await page.evaluate(() => performance.getEntriesByType('resource').reduce((all, one) => all + one.encodedBodySize, 0))
  console.log(`     ${performance.now() && wire} bytes of files and answers`)
  await page.context().close()
})

async function tasks(language, width) {
  const where = `${language} ${width}`
  const page = await opened({ language, width })
  await step(`${where}: signs in with a token by keyboard`, async () => {
    await signedIn(page)
    await page.waitForSelector('.ready.good')
  })

  await step(`${where}: on call: it takes commands, and how it goes`, async () => {
    check((await page.locator('.chart').count()) === 6, 'there are not six charts')
    await api('GET', '/settlement-statements/nothing')
    await page.locator('code', { hasText: 'not_found' }).first().waitFor()
    for (const key of ['log.title', 'snapshots.title', 'keys.title']) await page.getByRole('heading', { name: page.t(key), exact: true }).waitFor()
    await page.getByText('ES256').first().waitFor()
  })

  await step(`${where}: which statements await a deposit, since when, at which branch`, async () => {
    await visit(page, 'statements.title')
    await page.waitForSelector('[data-row="0"]')
    const row = await page.locator('[data-row="0"]').innerText()
    check(row.includes('branch-seoul-1') && /\d{4}-\d\d-\d\d \d\d:\d\d:\d\d/.test(row), row)
    const at = await page.locator('[data-row="0"] time').first()
    check((await at.getAttribute('title')).endsWith('(UTC)'), 'the hover does not say UTC')
    const seoul = await at.innerText()
    const utc = new Date(await at.getAttribute('datetime'))
    check(seoul === new Date(utc.getTime() + 9 * 3_600_000).toISOString().slice(0, 19).replace('T', ' '), `${seoul} is not ${utc.toISOString()} in Seoul`)
    await tabTo(page, 'the branch', matches('.filters input'))
    await page.keyboard.type('no-such-branch')
    await page.keyboard.press('Enter')
    await page.getByText(page.t('statements.none')).waitFor()
    await page.keyboard.press('ControlOrMeta+a')
    await page.keyboard.press('Delete')
    await page.keyboard.press('Enter')
    await page.waitForSelector('[data-row="1"]')
    await tabTo(page, 'a statement', matches('[data-row="0"] a'))
    await page.keyboard.press('ArrowDown')
    check(await page.evaluate(() => document.activeElement.matches('[data-row="1"] a')), 'the arrow does not go on')
    await page.keyboard.press('Enter')
    await heading(page, page.t('kind.statement'))
  })

  await step(`${where}: a statement that is asked for shows at once`, async () => {
    await visit(page, 'statements.title')
    await page.waitForSelector('[data-row="1"]')
    const code = `LIVE-${language}-${width}`
    const example = (await (await fetch(`${base}/openapi.json`)).json()).paths['/settlement-deposit-requests'].post.requestBody.content['application/json'].example
    const sent = await api('POST', '/settlement-deposit-requests', { body: { ...example, statementCode: code, idempotencyKey: code, messageToBranch: hostile } })
    check(sent.status === 201, JSON.stringify(sent.body))
    await page.getByRole('link', { name: code }).waitFor()
  })

  await step(`${where}: the history of a resource, and how it stood`, async () => {
    await go(page, `#/resource/settlement-statements/${statement.statementId}`)
    await page.waitForSelector('.body')
    check((await page.locator('.masked').count()) > 0, 'personal values are shown')
    await tabTo(page, 'the personal values', isButton(page.t('personal.show')))
    await page.keyboard.press('Enter')
    await page.getByText('한빛은행').waitFor()
    await page.keyboard.press('Enter')
    await page.waitForSelector('.masked')
    await tabTo(page, 'the tabs', matches('#tab-state'))
    await page.keyboard.press('ArrowRight')
    await page.waitForSelector('.revision')
    const newest = await page.locator('.revision').first().innerText()
    check(newest.includes(page.t('value.acknowledge_deposit')) && newest.includes(page.t('value.branch_manager')), newest)
    const changed = await page.locator('.revision').first().locator('.differences tr', { has: page.locator('th code', { hasText: /^status$/ }) }).innerText()
    check(changed.includes(page.t('value.awaiting_branch_deposit')) && changed.includes(page.t('value.awaiting_confirmation')), changed)
    check((await page.locator('.revision').count()) === 2, 'there are not two revisions')
    await tabTo(page, 'the older revision', [() => document.activeElement?.matches('.revision:nth-child(2) summary'), null])
    await page.keyboard.press('Enter')
    await tabTo(page, 'as it stood', [() => document.activeElement?.matches('.revision:nth-child(2) button'), null])
    await page.keyboard.press('Enter')
    await page.getByText(page.t('past.atRevision', { n: 1 })).waitFor()
    await page.getByText(page.t('past.sinceThen')).first().waitFor()
    await tabTo(page, 'a time', matches('.filters input'))
    await page.keyboard.type('2999-01-01 09:00')
    await page.keyboard.press('Enter')
    await page.getByText(page.t('differences.none')).waitFor()
    await page.keyboard.press('ControlOrMeta+a')
    await page.keyboard.type('yesterday')
    await page.keyboard.press('Enter')
    await page.getByText(page.t('past.wrong')).waitFor()
    await page.keyboard.press('ControlOrMeta+a')
    await page.keyboard.type('2999-02-28 09:00')
    await page.keyboard.press('Enter')
    await page.getByText(page.t('past.atTime', { at: '2999-02-28 09:00:00' })).waitFor()
    await page.keyboard.press('ControlOrMeta+a')
    await page.keyboard.type('2999-02-30 09:00')
    await page.keyboard.press('Enter')
    await page.getByText(page.t('past.wrong')).waitFor()
  })

  await step(`${where}: what a reservation costs, who gets which share, who assigned`, async () => {
    await visit(page, 'reservations.title')
    await page.waitForSelector('[data-row="0"]')
    await tabTo(page, 'a reservation', matches('[data-row="0"] a'))
    await page.keyboard.press('Enter')
    await page.waitForSelector('.ledger tfoot')
    const sums = await page.locator('.ledger tfoot .won').allInnerTexts()
    check(sums.length === 2 && sums[0] === sums[1], sums.join(' '))
    check(sums[0] === (language === 'ko' ? '1,530,000원' : '₩1,530,000'), sums[0])
    await page.locator('.decisions').getByText('manager-1').waitFor()
    await page.locator('.decisions').getByText(page.t('value.branch_manager')).waitFor()
  })

  await step(`${where}: a branch's onboarding, and what is pending`, async () => {
    await visit(page, 'branches.title')
    await page.waitForSelector('[data-row="0"]')
    await tabTo(page, 'the branch', matches('[data-row="0"] a'))
    await page.keyboard.press('Enter')
    await page.waitForSelector('.steps li')
    check((await page.locator('.steps .done').count()) >= 3, 'nothing is done')
    check((await page.locator('.steps .open').count()) >= 1, 'nothing is pending')
  })

  await step(`${where}: one search for any identifier`, async () => {
    for (const [term, kind] of [[statement.statementCode, 'kind.statement'], [branch.branchCode, 'kind.branch'], ['reservation-booking-1', 'kind.roster'], ['adjustment-payment-2', 'kind.adjustment'], ['7', 'message.title']]) {
      await page.evaluate(() => /** @type {any} */ (document.activeElement)?.blur())
      await page.keyboard.press('/')
      await page.keyboard.press('ControlOrMeta+a')
      await page.keyboard.insertText(term)
      await page.keyboard.press('Enter')
      await page.getByRole('heading', { name: page.t(kind), exact: true }).waitFor()
    }
    await page.keyboard.press('ControlOrMeta+a')
    await page.keyboard.insertText('nothing has this name')
    await page.keyboard.press('Enter')
    await page.getByText(page.t('find.none')).waitFor()
  })

  await step(`${where}: a message is tried again, and skipped with a reason`, async () => {
    await visit(page, 'deliveries.title')
    await page.waitForSelector('[data-row="0"]')
    // The languages take turns at the same time: each has its own end of the list.
    const end = language === 'ko' ? ':first-child' : ':last-child'
    await tabTo(page, 'a message', matches(`[data-row]${end} a`))
    await page.keyboard.press('Enter')
    await page.waitForSelector('.notice')
    await tabTo(page, 'the retry', isButton(page.t('message.retry')))
    await page.keyboard.press('Enter')
    await page.waitForSelector('dialog[open]')
    await tabTo(page, 'the retry itself', matches('dialog button[type=submit]'))
    await page.keyboard.press('Enter')
    await page.waitForSelector('dialog', { state: 'detached' })
    await tabTo(page, 'the skip', isButton(page.t('message.skip')))
    await page.keyboard.press('Enter')
    await tabTo(page, 'the reason', matches('#act-reason'))
    await page.keyboard.type('Told by telephone.')
    await tabTo(page, 'the skip itself', matches('dialog button[type=submit]'))
    await page.keyboard.press('Enter')
    await page.waitForSelector('dialog', { state: 'detached' })
    await page.locator('.page-head .badge', { hasText: page.t('value.skipped') }).waitFor()
  })

  await step(`${where}: a webhook: its secret once, paused, resumed, what waits and why, deleted`, async () => {
    await visit(page, 'deliveries.title')
    await tabTo(page, 'adding', isButton(page.t('webhooks.add')))
    await page.keyboard.press('Enter')
    await tabTo(page, 'the address', matches('#webhook-url'))
    await page.keyboard.type(`https://127.0.0.1:9/${language}/${width}`)
    await tabTo(page, 'the button', matches('dialog button[type=submit]'))
    await page.keyboard.press('Enter')
    await page.waitForSelector('#secret')
    check((await page.locator('#secret').innerText()).startsWith('whsec_'), 'no secret')
    await tabTo(page, 'the webhook', isLink(page.t('webhooks.open')))
    await page.keyboard.press('Enter')
    await page.waitForSelector('.page-head .badge')
    check((await page.locator('#secret').count()) === 0 && !(await page.content()).includes('whsec_'), 'the secret is shown again')
    // What has happened meanwhile is sent once it is resumed, and nobody takes it there: it may be failing by then.
    for (const [button, ...states] of [['webhooks.pause', 'value.paused'], ['webhooks.resume', 'value.enabled', 'value.failing']]) {
      await page.getByRole('button', { name: page.t(button) }).waitFor()
      await tabTo(page, button, isButton(page.t(button)))
      await page.keyboard.press('Enter')
      await tabTo(page, 'doing it', matches('dialog button[type=submit]'))
      await page.keyboard.press('Enter')
      const shown = new RegExp(states.map((state) => page.t(state)).join('|'))
      await page.locator('.page-head .badge', { hasText: shown }).waitFor()
    }
    const other = `#/webhooks/${everywhere.webhook}`
    const mine = await page.evaluate(() => location.hash)
    await go(page, other)
    await page.waitForSelector('[data-row="0"]')
    await page.waitForFunction(() => document.querySelector('[data-row="0"]')?.textContent.match(/resolve|connect|name|address|dns|unreach|lookup|refused|timed/i), undefined, { timeout: 20_000 }).catch(async () => {
      throw new Error(`no reason is told: ${await page.locator('[data-row="0"]').innerText()}`)
    })
    check((await page.evaluate(() => window.hacked)) === undefined, 'a value became markup')
    await tabTo(page, 'the retry', matches('[data-row="0"] button'))
    await page.keyboard.press('Enter')
    await tabTo(page, 'the retry itself', matches('dialog button[type=submit]'))
    await page.keyboard.press('Enter')
    await page.waitForSelector('dialog', { state: 'detached' })
    await go(page, mine)
    await page.getByRole('button', { name: page.t('webhooks.delete') }).waitFor()
    await tabTo(page, 'deleting', isButton(page.t('webhooks.delete')))
    await page.keyboard.press('Enter')
    await tabTo(page, 'deleting it', matches('dialog button[type=submit]'))
    await page.keyboard.press('Enter')
    await page.waitForSelector('#tab-webhooks[aria-selected=true]')
  })

  await step(`${where}: a command is tried, changes nothing, and is then sent`, async () => {
    await visit(page, 'commands.title')
    await page.waitForSelector('.commands')
    await tabTo(page, 'the command', [() => Boolean(document.activeElement?.matches('a[href="#/commands/request_deposit"]')), null])
    await page.keyboard.press('Enter')
    await heading(page, page.t('value.request_deposit'))
    const sends = page.getByRole('button', { name: page.t('commands.send'), exact: true })
    check(await sends.isDisabled(), 'it can be sent before it was tried')
    await tabTo(page, 'trying', isButton(page.t('commands.try')))
    page.refusals += 1
    await page.keyboard.press('Enter')
    await page.waitForSelector('.problem .faults li')
    check((await page.locator('.at-fault').count()) > 0, 'no field is named as at fault')
    await tabTo(page, 'the example', isButton(page.t('commands.example')))
    await page.keyboard.press('Enter')
    const code = `FORM-${language}-${width}`
    await page.waitForFunction(() => [...document.querySelectorAll('.command input')].some((input) => input.value === 'statement-code-1'))
    await tabTo(page, 'the code', [() => document.activeElement?.value === 'statement-code-1', null])
    await page.keyboard.press('ControlOrMeta+a')
    await page.keyboard.type(code)
    await tabTo(page, 'trying', isButton(page.t('commands.try')))
    await page.keyboard.press('Enter')
    await page.getByRole('heading', { name: page.t('commands.wouldMake') }).waitFor()
    check(await page.evaluate(...isButton(page.t('commands.try'))), 'a trial takes the focus away')
    const found = (await api('GET', `/console/found?id=${code}`)).body.found
    check(found.length === 0, 'the trial has made it')
    await tabTo(page, 'sending', isButton(page.t('commands.send')))
    await page.keyboard.press('Enter')
    await page.getByRole('heading', { name: page.t('commands.sent') }).waitFor()
    await page.waitForFunction((text) => document.activeElement.matches('.results h2') && document.activeElement.textContent === text, page.t('commands.sent'))
    check((await api('GET', `/console/found?id=${code}`)).body.found.length === 1, 'it was not made')
    await tabTo(page, 'looking at it', isLink(page.t('commands.look')))
    await page.keyboard.press('Enter')
    await heading(page, page.t('kind.statement'))
  })

  await step(`${where}: nobody else was asked, nothing was complained of`, () => calm(page, where))

  await step(`${where}: the other language, and signing out`, async () => {
    await tabTo(page, 'the language', isButton(language === 'ko' ? 'EN' : '한'))
    await page.keyboard.press('Enter')
    const other = language === 'ko' ? 'en' : 'ko'
    check((await page.evaluate(() => document.documentElement.lang)) === other, 'the language is the same')
    page.t = (key) => words[other][key]
    await page.getByText(words[other]['kind.statement']).first().waitFor()
    await tabTo(page, 'signing out', isButton(page.t('shell.signOut')))
    await page.keyboard.press('Enter')
    await page.waitForSelector('#token')
    check((await page.locator('main h1').innerText()) === page.t('signIn.title'), 'nobody is signed out')
    await page.waitForFunction(() => document.activeElement.matches('main h1'))
    await accessible(page, 'sign-in')
  })
  await page.context().close()
}

/** Some requests for so long, so that there are lines to see. */
async function busy(milliseconds) {
  const until = Date.now() + milliseconds
  const example = (await (await fetch(`${base}/openapi.json`)).json()).paths['/settlement-deposit-requests'].post.requestBody.content['application/json'].example
  for (let number = 0; Date.now() < until; number += 1) {
    const code = `BUSY-${until}-${number}`
    const body = { ...example, branchProfileId: 'branch-busan-1', statementCode: number % 5 ? code : '', idempotencyKey: code }
    await Promise.all([api('POST', '/settlement-deposit-requests', { body }), api('GET', '/settlement-statements?limit=5')])
    await pause(40 + 60 * Math.abs(Math.sin(number / 9)))
  }
}

/** Every page is for everybody, in both looks, and fits. */
async function pages(language, width, look) {
  const page = await opened({ language, width, look })
  await signedIn(page)
  for (const [name, [hash, there]] of Object.entries(everywhere())) {
    await step(`${language} ${width} ${look}: ${name} is accessible and fits`, async () => {
      await go(page, hash)
      await page.waitForSelector(there)
      await settled(page)
      if (name === 'command') await page.getByRole('button', { name: page.t('commands.example') }).click()
      if (pictures) {
        if (name === 'command') {
          await page.locator('.command input').evaluateAll((inputs) => inputs.find((input) => input.value === 'statement-code-1').setAttribute('data-code', ''))
          await page.locator('[data-code]').fill('statement-code-2')
          await page.getByRole('button', { name: page.t('commands.try') }).click()
          await page.waitForSelector('.results .panel')
        }
        if (name === 'overview') await busy(9_000)
        await page.evaluate(() => scrollTo(0, 0))
        await page.waitForTimeout(150)
        await page.screenshot({ path: path.join(pictures, `${name}-${language}-${width}-${look}.png`) })
      }
      await accessible(page, name)
      await fits(page, name)
    })
  }
  await step(`${language} ${width} ${look}: no complaints on any page`, () => calm(page, 'all pages'))
  await page.context().close()
}

const languages = ['ko', 'en']
const widths = [1440, 390]
await Promise.all(languages.map(async (language) => {
  for (const width of widths) await tasks(language, width)
}))
await Promise.all([
  pages('ko', 1440, 'light'),
  pages('en', 390, 'dark'),
])
await Promise.all([
  pages('en', 1440, 'dark'),
  pages('ko', 390, 'light'),
])
if (pictures) {
  await pages('en', 1440, 'light')
  await pages('ko', 1440, 'dark')
  await pages('en', 390, 'light')
  await pages('ko', 390, 'dark')
}
await step('a resource that is not there shows nothing of the one before it, and who signs out leaves nothing', async () => {
  const page = await opened({ language: 'ko', width: 1440 })
  await signedIn(page)
  await page.waitForSelector('.ready.good')
  await go(page, `#/resource/settlement-statements/${statement.statementId}`)
  await page.getByText(statement.statementCode).first().waitFor()
  page.refusals += 1
  await go(page, '#/resource/settlement-statements/not-there')
  await page.waitForSelector('main .problem')
  check(!(await page.locator('main').innerText()).includes(statement.statementCode), 'the one before is still shown')
  await go(page, '#/resource/docs')
  await page.locator('main .problem', { hasText: page.t('problem.not_found') }).waitFor()
  await page.getByRole('button', { name: page.t('personal.show') }).click()
  await page.waitForSelector('[aria-pressed="true"]')
  await page.getByRole('button', { name: page.t('shell.signOut') }).click()
  await page.waitForSelector('#token')
  await page.fill('#token', token)
  await page.keyboard.press('Enter')
  await page.waitForSelector('main:not(.alone) h1')
  check((await page.locator('[aria-pressed="true"]').count()) === 0, 'values of persons are shown to who signs in next')
  await page.context().close()
})

await step('a late answer changes nothing: neither of a trial nor of a page', async () => {
  const page = await opened({ language: 'ko', width: 1440 })
  await signedIn(page)
  await go(page, '#/commands/request_deposit')
  await page.getByRole('button', { name: page.t('commands.example') }).click()
  let answer
  const held = new Promise((done) => { answer = done })
  let asked
  const isAsked = new Promise((done) => { asked = done })
  await page.route('**/settlement-deposit-requests?dryRun=true', async (route) => {
    const response = await route.fetch()
    asked()
    await held
    await route.fulfill({ response })
  })
  await page.locator('.command input').evaluateAll((inputs) => inputs.find((input) => input.value === 'statement-code-1').setAttribute('data-code', ''))
  await page.locator('[data-code]').fill('late-1')
  await page.getByRole('button', { name: page.t('commands.try') }).click()
  await isAsked
  await page.locator('[data-code]').fill('late-2')
  answer()
  await page.waitForFunction((text) => [...document.querySelectorAll('button')].find((one) => one.textContent === text).ariaDisabled === 'false', page.t('commands.try'))
  check(await page.getByRole('button', { name: page.t('commands.send'), exact: true }).isDisabled(), 'what was not tried can be sent')
  await page.context().close()
})

/** Holds up the answer to one request: what tells that it has come, and what lets it go on. */
async function holding(page, matches) {
  let [came, release] = [() => {}, () => {}]
  const isAsked = new Promise((done) => { came = done })
  const held = new Promise((done) => { release = done })
  await page.route(matches, async (route) => {
    const response = await route.fetch()
    came()
    await held
    await route.fulfill({ response })
  }, { times: 1 })
  return [isAsked, () => release()]
}

const focused = (page, selector) => page.waitForFunction((selector) => document.activeElement?.matches(selector), selector)

await step('a secret is there to be seen whatever is pressed before it comes, and the focus is where one goes on', async () => {
  const page = await opened({ language: 'en', width: 1440 })
  await signedIn(page)
  await go(page, '#/deliveries?tab=webhooks')
  const adding = page.getByRole('button', { name: page.t('webhooks.add') })
  const pressed = async (isAsked, release) => {
    await page.keyboard.press('Enter')
    await isAsked
    for (let times = 0; times < 4; times += 1) await page.keyboard.press('Escape')
    check(await page.locator('dialog').getByRole('button', { name: page.t('action.close') }).isDisabled(), 'it can be closed before its answer')
    check(await page.locator('dialog').getByRole('button', { name: page.t('action.cancel') }).isDisabled(), 'it can be cancelled before its answer')
    release()
    await page.waitForSelector('dialog[open] #secret')
    await focused(page, '.secret .copy')
    await page.keyboard.press('Escape')
    await page.waitForSelector('dialog', { state: 'detached' })
  }
  await adding.focus()
  await page.keyboard.press('Enter')
  await focused(page, '#webhook-url')
  await page.keyboard.type('https://127.0.0.1:9/held')
  await pressed(...(await holding(page, '**/webhook-subscriptions')))
  await page.waitForFunction((text) => document.activeElement?.textContent === text, page.t('webhooks.add'))
  await go(page, `#/webhooks/${everywhere.webhook}`)
  await page.getByRole('button', { name: page.t('webhooks.rotate') }).focus()
  await page.keyboard.press('Enter')
  await focused(page, 'dialog [type=submit]')
  await pressed(...(await holding(page, '**/secret-rotations')))
  await page.waitForFunction((text) => document.activeElement?.textContent === text, page.t('webhooks.rotate'))
  await calm(page, 'the secrets')
  await page.context().close()
})

await step('a step back takes no secret away before it was seen', async () => {
  const page = await opened({ language: 'en', width: 1440 })
  await signedIn(page)
  await go(page, '#/deliveries?tab=webhooks')
  await page.waitForSelector('[data-row="0"]')
  await go(page, `#/webhooks/${everywhere.webhook}`)
  await page.getByRole('button', { name: page.t('webhooks.rotate') }).click()
  const [isAsked, release] = await holding(page, '**/secret-rotations')
  await page.locator('dialog [type=submit]').click()
  await isAsked
  await page.goBack()
  check((await page.locator('dialog[open]').count()) === 1, 'the dialog is gone before its answer')
  release()
  await page.waitForSelector('dialog[open] #secret')
  await page.keyboard.press('Escape')
  await page.waitForSelector('#tab-webhooks[aria-selected=true]')
  check((await page.locator('dialog').count()) === 0, 'the dialog is still there')
  // Nor one that is in sight.
  await go(page, `#/webhooks/${everywhere.webhook}`)
  await page.getByRole('button', { name: page.t('webhooks.rotate') }).click()
  await page.locator('dialog [type=submit]').click()
  await page.waitForSelector('dialog[open] #secret')
  await page.goBack()
  check((await page.locator('dialog[open] #secret').count()) === 1, 'a secret in sight is taken away')
  await page.keyboard.press('Escape')
  await page.waitForSelector('#tab-webhooks[aria-selected=true]')
  await page.context().close()
})

await step('what is sent again without an answer to the first is the same, though the page shows what came of it', async () => {
  const page = await opened({ language: 'en', width: 1440 })
  await signedIn(page)
  await go(page, `#/webhooks/${everywhere.webhook}`)
  const sent = []
  page.on('request', (request) => request.method() === 'PATCH' && sent.push(`${request.headers()['idempotency-key']} ${request.postData()}`))
  await page.route(`**/webhook-subscriptions/${everywhere.webhook}`, async (route) => {
    if (route.request().method() !== 'PATCH' || sent.length > 1) return route.fallback()
    await route.fetch()
    await route.abort()
  })
  page.refusals = 1
  await page.getByRole('button', { name: page.t('webhooks.pause') }).click()
  await page.locator('dialog [type=submit]').click()
  await page.locator('dialog').getByText(page.t('problem.unreachable.sent')).waitFor()
  await page.locator('.page-head .badge', { hasText: page.t('value.paused') }).waitFor()
  check((await page.locator('dialog h2').innerText()) === page.t('webhooks.pause'), 'the dialog is for something else now')
  await page.locator('dialog [type=submit]').click()
  await page.waitForSelector('dialog', { state: 'detached' })
  check(sent.length === 2 && sent[0] === sent[1], sent.join('\n'))
  await calm(page, 'the repeat')
  await page.context().close()
})

await step('a command whose answer was lost is sent again as it was, and is done once', async () => {
  const page = await opened({ language: 'en', width: 1440 })
  await signedIn(page)
  await go(page, '#/commands/request_deposit')
  await page.getByRole('button', { name: page.t('commands.example') }).click()
  await page.locator('.command input').evaluateAll((inputs) => inputs.find((input) => input.value === 'statement-code-1').setAttribute('data-code', ''))
  await page.locator('[data-code]').fill('LOST')
  const sending = page.getByRole('button', { name: page.t('commands.send'), exact: true })
  await page.getByRole('button', { name: page.t('commands.try'), exact: true }).click()
  await page.getByRole('heading', { name: page.t('commands.wouldMake') }).waitFor()
  const bodies = []
  page.on('request', (request) => request.method() === 'POST' && request.url().endsWith('/settlement-deposit-requests') && bodies.push(request.postData()))
  await page.route('**/settlement-deposit-requests', async (route) => {
    await route.fetch()
    await route.abort()
  }, { times: 1 })
  await sending.click()
  await page.getByRole('heading', { name: page.t('commands.unanswered') }).waitFor()
  check(await page.locator('[data-code]').isDisabled(), 'what may have been done can be changed')
  await page.getByText(page.t('problem.unreachable.sent')).waitFor()
  await sending.click()
  await page.getByRole('heading', { name: page.t('commands.sent') }).waitFor()
  check(bodies.length === 2 && bodies[0] === bodies[1], bodies.join('\n'))
  check((await api('GET', '/console/found?id=LOST')).body.found.length === 1, 'it was not done once')
  await page.context().close()
})

await step('without a stream of events, a revision that is stale is read again', async () => {
  const page = await opened({ language: 'en', width: 1440 })
  await page.route((url) => url.pathname === '/events', (route) => route.fulfill({ status: 403, contentType: 'application/json', body: '{"code":"permission_denied"}' }))
  await signedIn(page)
  await page.waitForSelector('.ready.good')
  await page.locator('.live', { hasText: page.t('stream.refused') }).waitFor()
  const [good, dot] = await page.evaluate(() => ['.ready.good .dot', '.live .dot'].map((one) => getComputedStyle(document.querySelector(one)).backgroundColor))
  check(good !== dot, 'without live updates, the dot is that of live updates')
  await go(page, `#/webhooks/${everywhere.webhook}`)
  const path = `/webhook-subscriptions/${everywhere.webhook}`
  const resuming = page.getByRole('button', { name: page.t('webhooks.resume') })
  await resuming.waitFor()
  const { revision } = (await api('GET', path)).body
  const changed = await fetch(`${base}${path}`, { method: 'PATCH', headers: { authorization: `Bearer ${token}`, 'content-type': 'application/json', 'idempotency-key': 'behind-the-page' }, body: JSON.stringify({ expectedRevision: revision, description: 'Changed.' }) })
  check(changed.ok, await changed.text())
  await resuming.click()
  const again = page.waitForResponse((answer) => answer.url().endsWith(path) && answer.request().method() === 'GET')
  await page.locator('dialog [type=submit]').click()
  await page.locator('dialog').getByText(page.t('problem.revision_stale')).waitFor()
  await again
  await page.locator('dialog').getByRole('button', { name: page.t('action.cancel') }).click()
  await page.locator('.member', { has: page.locator('[title=revision]') }).locator('dd', { hasText: String(revision + 1) }).waitFor()
  await resuming.click()
  await page.locator('dialog [type=submit]').click()
  await page.getByRole('button', { name: page.t('webhooks.pause') }).waitFor()
  await page.context().close()
})

await step('on a phone, nothing lies over what sends a command', async () => {
  const page = await opened({ language: 'ko', width: 390 })
  await signedIn(page)
  await go(page, '#/commands/create_branch')
  await page.waitForSelector('.sticky [type=submit]')
  const isOver = await page.evaluate(() => {
    const button = document.querySelector('.sticky [type=submit]')
    const { left, top, width, height } = button.getBoundingClientRect()
    return document.elementFromPoint(left + width / 2, top + height / 2) !== button || top + height > innerHeight
  })
  check(!isOver, 'something lies over it')
  await page.context().close()
})

await step('while the service does not answer, the overview says since when nothing is known', async () => {
  const page = await opened({ language: 'en', width: 1440 })
  await signedIn(page)
  await page.waitForSelector('.ready.good')
  await page.route('**/console/figures', (route) => route.abort())
  await page.locator('.ready.bad', { hasText: page.t('overview.notKnown', { time: '20' }) }).waitFor()
  check((await page.locator('.ready.good').count()) === 0, 'it says that commands are taken')
  await page.unroute('**/console/figures')
  await page.waitForSelector('.ready.good')
  await page.context().close()
})

await step('a service that takes requests and says nothing is told as one that is not reached', async () => {
  const page = await opened({ language: 'en', width: 1440 })
  await page.clock.install()
  await page.clock.resume()
  await signedIn(page)
  await page.waitForSelector('.ready.good')
  const silent = (pathname) => {
    let came
    const asked = new Promise((done) => { came = done })
    return page.route((url) => url.pathname === pathname, came).then(() => ({ asked }))
  }
  const figures = await silent('/console/figures')
  await figures.asked
  await page.clock.fastForward(9_000)
  await page.locator('.ready.bad', { hasText: page.t('overview.notKnown', { time: '20' }) }).waitFor()
  const list = await silent('/settlement-statements')
  await go(page, '#/statements')
  await list.asked
  await page.clock.fastForward(41_000)
  await page.locator('.listing .problem', { hasText: page.t('problem.unreachable') }).waitFor()
  await page.context().close()
})

await step('each reason why no commands are taken is told in words, and no other', async () => {
  const page = await opened({ language: 'en', width: 1440 })
  await page.route('**/console/figures', async (route) => {
    const response = await route.fetch()
    const figures = await response.json()
    await route.fulfill({ response, json: { ...figures, ready: false, unready: ['behind', 'no_journal'], log: { ...figures.log, hasRoom: false } } })
  })
  await signedIn(page)
  await page.waitForSelector('.ready.bad')
  const why = `${page.t('unready.behind')}, ${page.t('unready.no_journal')}`
  const told = (await page.locator('.ready').innerText()).trim()
  check(told === page.t('overview.unready', { why }), told)
  await page.context().close()
})

await step('signing in when something is in the way: each is told for what it is', async () => {
  const page = await opened({ language: 'en', width: 1440 })
  await page.addInitScript(() => {
    for (const name of ['localStorage', 'sessionStorage']) Object.defineProperty(window, name, { get() { throw new DOMException('denied', 'SecurityError') } })
  })
  const busy = { status: 429, contentType: 'application/json', body: '{"code":"overloaded"}' }
  await page.route('**/console/settings.json', (route) => route.fulfill(busy), { times: 1 })
  await page.goto(`${base}/console`)
  await page.getByText(page.t('problem.overloaded')).waitFor()
  await page.getByRole('button', { name: page.t('action.again') }).click()
  await page.getByText(page.t('signIn.linkHint')).waitFor()
  await page.fill('#token', 'hello')
  await page.keyboard.press('Enter')
  await page.getByText(page.t('signIn.notTaken')).waitFor()
  await page.route('**/console/settings.json', (route) => route.fulfill({ status: 502, contentType: 'application/json', body: 'null' }), { times: 1 })
  await page.reload()
  await page.getByText(page.t('signIn.unreachable')).waitFor()
  await page.route('**/console/sign-ins', (route) => route.fulfill(busy), { times: 1 })
  await page.goto('about:blank')
  await page.goto(`${base}/console#link=${code}`)
  await page.getByText(page.t('problem.overloaded')).waitFor()
  await page.getByRole('button', { name: page.t('action.again') }).click()
  await page.getByText(page.t('signIn.link_used')).waitFor()
  await page.context().close()
})

await step('what the address asks for and there is not is the first of what there is, and a time of it is in the field', async () => {
  const page = await opened({ language: 'en', width: 1440 })
  await signedIn(page)
  for (const [hash, first] of [['#/deliveries?tab=nope&state=nope', '#tab-messages'], [`#/resource/settlement-statements/${statement.statementId}?tab=nope`, '#tab-state']]) {
    await go(page, hash)
    await page.waitForSelector(`${first}[tabindex="0"]`)
    await settled(page)
  }
  await page.waitForSelector('.body')
  for (const [hash, first] of [['#/statements?status=nope&order=nope', 'awaiting_branch_deposit'], ['#/branches?status=nope', ''], ['#/deliveries?state=nope', 'waiting']]) {
    await go(page, hash)
    await heading(page, page.t(`${hash.split(/[/?]/)[1]}.title`))
    await page.waitForSelector('.foot:not(:empty)')
    check((await page.locator('.filters select').first().inputValue()) === first, `${hash} is not ${first}`)
    check((await page.locator('main .problem').count()) === 0, `${hash} is refused`)
  }
  await go(page, `#/resource/settlement-statements/${statement.statementId}?tab=past&at=2999-01-01T00:00:00Z`)
  await page.getByText(page.t('differences.none')).waitFor()
  check((await page.locator('.filters input').inputValue()) === '2999-01-01 09:00:00', 'the time is not in its field')
  check((await page.locator('main .problem').count()) === 0, 'something was refused')
  await page.context().close()
})

await step('the same search once more asks once more, and says by what it was found', async () => {
  const page = await opened({ language: 'en', width: 1440 })
  await signedIn(page)
  await page.keyboard.press('/')
  await page.keyboard.insertText('SOUGHT TWICE')
  await page.keyboard.press('Enter')
  await page.getByText(page.t('find.none')).waitFor()
  const example = (await (await fetch(`${base}/openapi.json`)).json()).paths['/settlement-deposit-requests'].post.requestBody.content['application/json'].example
  await api('POST', '/settlement-deposit-requests', { body: { ...example, statementCode: 'SOUGHT TWICE', idempotencyKey: 'sought' } })
  await page.keyboard.press('Enter')
  await page.getByText(page.t('find.by', { name: page.t('field.statementCode') })).waitFor()
  await page.context().close()
})

const profile = '/branch-office-profiles/branch-seoul-1'

/** Gives the branch in Seoul another name. */
async function renamed() {
  const { example } = (await (await fetch(`${base}/openapi.json`)).json()).paths['/branch-office-profile-updates'].post.requestBody.content['application/json']
  const { revision } = (await api('GET', `${profile}/history?limit=1`)).body.revisions[0]
  const name = `서울 ${revision + 1}`
  const made = await api('POST', '/branch-office-profile-updates', { body: { ...example, commandId: name, revisionId: name, expectedRevision: revision, displayName: name } })
  check(made.status < 300, JSON.stringify(made.body))
  return { name, revision: revision + 1 }
}

await step('a history that is being read stays as it is, and what is new comes before it', async () => {
  for (let times = 0; times < 22; times += 1) await renamed()
  const page = await opened({ language: 'en', width: 1440 })
  await signedIn(page)
  await go(page, `#/resource${profile}?tab=history`)
  await page.getByRole('button', { name: page.t('timeline.older') }).click()
  await page.getByText(page.t('timeline.complete')).waitFor()
  const count = await page.locator('.revision').count()
  check(count > 20, `${count} revisions`)
  const open = () => page.locator('.revision details[open] .revision-number').allInnerTexts()
  await page.locator('.revision summary').nth(count - 1).click()
  const before = await open()
  const { revision } = await renamed()
  await page.locator('.revision-number', { hasText: page.t('timeline.revision', { n: revision }) }).waitFor()
  check((await page.locator('.revision').count()) === count + 1, 'older revisions are gone')
  check((await open()).join() === before.join(), `${await open()} are open, and not ${before}`)
  await page.context().close()
})

await step('what was answered before it was known from where events are told is asked for again, if it is older', async () => {
  for (const isLate of [false, true]) {
    const page = await opened({ language: 'en', width: 1440 })
    let [tellEnd, tellBody] = [() => {}, () => {}]
    const endMay = new Promise((done) => { tellEnd = done })
    const bodyMay = new Promise((done) => { tellBody = done })
    const isOfEnd = (url) => url.pathname === '/events' && !url.searchParams.has('after')
    await page.route(isOfEnd, async (route) => {
      await endMay
      await route.continue()
    })
    const read = new Promise((done) => {
      page.route((url) => url.pathname === profile, async (route) => {
        const response = await route.fetch()
        done(response)
        if (isLate) await bodyMay
        await route.fulfill({ response })
      }, { times: 1 })
    })
    await signedIn(page, `#/resource${profile}`)
    const { revisionId } = await (await read).json()
    if (!isLate) await page.locator('.body').getByText(revisionId, { exact: true }).waitFor()
    const { name } = await renamed()
    const ended = page.waitForResponse((answer) => isOfEnd(new URL(answer.url())))
    tellEnd()
    await (await ended).finished()
    if (isLate) await page.locator('.is-live').waitFor()
    tellBody()
    await page.locator('.body').getByText(name, { exact: true }).waitFor()
    await page.context().close()
  }
})

await step('what could not be renewed is renewed a little later: a resource, its history and a list', async () => {
  const page = await opened({ language: 'en', width: 1440 })
  await signedIn(page)
  await page.locator('.is-live').waitFor()
  const refusedOnce = (path, refusal) => page.route((url) => url.pathname === path, (route) => (refusal ? route.fulfill(refusal) : route.abort()), { times: 1 })
  await go(page, `#/resource${profile}`)
  await page.locator('.body').waitFor()
  await refusedOnce(profile, { status: 503, json: { code: 'unavailable' } })
  const { name } = await renamed()
  await page.locator('.body').getByText(name, { exact: true }).waitFor()
  await go(page, `#/resource${profile}?tab=history`)
  await page.locator('.revision').first().waitFor()
  await refusedOnce(`${profile}/history`, { status: 429, json: { code: 'overloaded' } })
  const { revision } = await renamed()
  await page.locator('.revision-number', { hasText: page.t('timeline.revision', { n: revision }) }).waitFor()
  await go(page, '#/statements?branch=branch-renewed-1&order=newest')
  await page.getByText(page.t('statements.none')).waitFor()
  await refusedOnce('/settlement-statements', null)
  const { example } = (await (await fetch(`${base}/openapi.json`)).json()).paths['/settlement-deposit-requests'].post.requestBody.content['application/json']
  const sent = await api('POST', '/settlement-deposit-requests', { body: { ...example, branchProfileId: 'branch-renewed-1', statementCode: 'RENEWED', idempotencyKey: 'renewed' } })
  check(sent.status === 201, JSON.stringify(sent.body))
  await page.waitForSelector('[data-row="0"]')
  check((await page.locator('.problem').count()) === 0, 'what was refused is still told')
  await page.context().close()
})

await step('events do not shorten the pause after a failure, unless so much has changed that not each is told', async () => {
  const page = await opened({ language: 'en', width: 1440 })
  await page.goto(`${base}/console`)
  await page.waitForSelector('#token')
  const asked = await page.evaluate(async () => {
    const loaded = performance.getEntriesByType('resource').map((one) => one.name).find((name) => name.endsWith('/lib/load.js'))
    const [{ useRepeat }, { html, render }] = await Promise.all([import(loaded), import(loaded.replace('load.js', 'html.js'))])
    const asked = []
    let repeat
    const Shown = () => {
      repeat = useRepeat((events) => asked.push(events))
      return ''
    }
    render(html`<${Shown} />`, document.createElement('div'))
    repeat.asks()
    repeat.failed({ status: 429, code: 'overloaded' }, true)
    repeat.told(1)
    repeat.told(2)
    const inPause = asked.length
    repeat.told(1, true)
    // What is refused for good has no pause.
    repeat.asks()
    repeat.told(3)
    repeat.failed({ status: 404, code: 'not_found' }, true)
    await new Promise((done) => setTimeout(done, 50))
    // Nothing is due.
    repeat.asks()
    repeat.answered()
    await new Promise((done) => setTimeout(done, 50))
    return { inPause, asked }
  })
  check(asked.inPause === 0, 'an event has ended the pause')
  check(asked.asked.join() === '4,3', `asked for with ${asked.asked} events`)
  await page.context().close()
})

await step('what was refused further down can be asked for again: older revisions, and a list under a cursor that is none', async () => {
  const page = await opened({ language: 'en', width: 1440 })
  const again = () => page.locator('.problem').getByRole('button', { name: page.t('action.again') })
  await signedIn(page, `#/resource${profile}?tab=history`)
  await page.locator('.revision').first().waitFor()
  const isOlder = (url) => url.pathname === `${profile}/history` && url.searchParams.has('cursor')
  await page.route(isOlder, (route) => route.fulfill({ status: 429, json: { code: 'overloaded' } }), { times: 1 })
  await page.getByRole('button', { name: page.t('timeline.older') }).click()
  await again().waitFor()
  const { revision } = await renamed()
  await page.locator('.revision-number', { hasText: page.t('timeline.revision', { n: revision }) }).waitFor()
  const before = await page.locator('.revision').count()
  await again().click()
  await page.waitForFunction((before) => document.querySelectorAll('.revision').length > before, before)
  const list = (await api('GET', '/settlement-statements?limit=1')).body.items
  await page.route((url) => url.pathname === '/settlement-statements', (route) => {
    if (new URL(route.request().url()).searchParams.has('cursor')) return route.fulfill({ status: 400, json: { code: 'request_invalid' } })
    return route.fulfill({ json: { items: list, next: 'none' } })
  })
  await go(page, '#/statements?status=all')
  await again().waitFor()
  await page.unrouteAll()
  await again().click()
  await page.waitForSelector('[data-row="1"]')
  check((await page.locator('.problem').count()) === 0, 'what was refused is still told')
  await page.context().close()
})

await step('where answers take longer than events are apart, what is shown comes, and in the end what is newest', async () => {
  const event = (subject, number) => `id: 1-${number}\ndata: ${JSON.stringify({ id: `1-${number}`, type: 'carebook.told', subject, time: '2026-11-24T00:00:00Z', data: {} })}\n\n`
  const moment = () => {
    let comes
    return { came: new Promise((done) => { comes = done }), comes }
  }
  /** A page whose answers are late: once it shows something, and what it asks for then has been read. */
  const slow = async ({ hash, path, subject, shown, refusal }) => {
    const page = await opened({ language: 'en', width: 1440 })
    let [asked, told, isAnswered, isLast, isOver] = [0, 0, false, false, false]
    const [held, released, over] = [moment(), moment(), moment()]
    // Each stream tells of one event, and the next one begins half a second later.
    await page.route((url) => url.pathname === '/events', (route) => {
      if (route.request().headers().accept !== 'text/event-stream') return route.continue()
      if (isOver) return undefined
      isOver = isLast
      told += 1
      if (isOver) over.comes()
      return route.fulfill({ status: 200, contentType: 'text/event-stream', body: event(subject, told) })
    })
    await page.route((url) => url.pathname === path, async (route) => {
      asked += 1
      const response = await route.fetch()
      if (!isAnswered) {
        await pause(1_200)
        isAnswered = true
        return route.fulfill({ response })
      }
      if (isOver) return route.fulfill({ response })
      held.comes()
      await released.came
      return route.fulfill(refusal ?? { response })
    })
    await signedIn(page, hash)
    await shown(page).waitFor()
    await held.came
    /** Tells of one more event while it waits for an answer from before, and gives that. */
    return async (newest) => {
      isLast = true
      await over.came
      await pause(1_200)
      check(asked === 2, `${path} was asked for ${asked} times, though one answer was there`)
      released.comes()
      await newest(page).waitFor()
      check((await page.locator('.problem').count()) === 0, 'what was refused is still told')
      await page.context().close()
    }
  }
  const subject = profile.slice(1)
  const [resource, history, list] = await Promise.all([
    { hash: `#/resource${profile}`, path: profile, subject, shown: (page) => page.locator('.body'), refusal: { status: 403, json: { code: 'permission_denied' } } },
    { hash: `#/resource${profile}?tab=history`, path: `${profile}/history`, subject, shown: (page) => page.locator('.revision').first() },
    { hash: '#/statements?branch=branch-slow-1&order=newest', path: '/settlement-statements', subject: 'settlement-statements/one', shown: (page) => page.getByText(page.t('statements.none')) },
  ].map(slow))
  const { name, revision } = await renamed()
  const { example } = (await (await fetch(`${base}/openapi.json`)).json()).paths['/settlement-deposit-requests'].post.requestBody.content['application/json']
  const sent = await api('POST', '/settlement-deposit-requests', { body: { ...example, branchProfileId: 'branch-slow-1', statementCode: 'SLOW', idempotencyKey: 'slow' } })
  check(sent.status === 201, JSON.stringify(sent.body))
  await Promise.all([
    resource((page) => page.locator('.body').getByText(name, { exact: true })),
    history((page) => page.locator('.revision-number', { hasText: page.t('timeline.revision', { n: revision }) })),
    list((page) => page.locator('[data-row="0"]')),
  ])
})

await step('a reservation says that there is more of a kind, and when its first decision was made', async () => {
  const page = await opened({ language: 'en', width: 1440 })
  const item = (number) => ({ paymentDelegationId: `delegation-${number}`, payerMemberId: `payer-${number}`, maximumAuthorizedAmountKrw: 1, grantedAt: '2026-11-01T00:00:00Z' })
  await page.route((url) => url.pathname === '/family-payment-delegations', (route) => {
    const isFirst = !new URL(route.request().url()).searchParams.has('cursor')
    return route.fulfill({ json: isFirst ? { items: Array.from({ length: 50 }, (_, number) => item(number)), next: 'more' } : { items: [item(50)], next: null } })
  })
  // The first page of the history tells of later revisions alone.
  await page.route((url) => url.pathname.endsWith('/care-team-rosters/reservation-booking-1/history') && !url.searchParams.has('cursor'), async (route) => {
    const url = new URL(route.request().url())
    url.searchParams.set('limit', '1')
    const response = await route.fetch({ url: String(url) })
    await route.fulfill({ response, json: { ...(await response.json()), revisions: [], next: 'before' } })
  })
  await page.route((url) => url.searchParams.get('cursor') === 'before', async (route) => {
    const url = new URL(route.request().url())
    url.searchParams.delete('cursor')
    await route.fulfill({ response: await route.fetch({ url: String(url) }) })
  })
  await signedIn(page)
  await go(page, '#/reservations/reservation-booking-1')
  await page.locator('.decisions time').first().waitFor()
  await page.getByText(page.t('related.first', { n: 50 })).waitFor()
  await page.getByRole('button', { name: page.t('related.more') }).click()
  await page.getByText('payer-50').waitFor()
  check((await page.getByRole('button', { name: page.t('related.more') }).count()) === 0, 'there is always more')
  await page.context().close()
})

await step('a list that was refused while the service was down is there again without a word', async () => {
  const page = await opened({ language: 'en', width: 1440 })
  await page.route((url) => url.pathname === '/events' || url.pathname === '/settlement-statements', (route) => route.abort())
  await signedIn(page)
  await go(page, '#/statements?status=all')
  await page.locator('.listing .problem', { hasText: page.t('problem.unreachable') }).waitFor()
  await page.unrouteAll()
  await page.waitForSelector('[data-row="0"]')
  check((await page.locator('.problem').count()) === 0, 'what was refused is still told')
  await page.context().close()
})

await step('the latest events are there, however many commits without events there were since', async () => {
  const page = await opened({ language: 'en', width: 1440 })
  await page.route((url) => url.pathname === '/events' && /^[1-9]/.test(url.searchParams.get('after') ?? ''), (route) => {
    if (route.request().headers().accept === 'text/event-stream') return route.continue()
    const after = new URL(route.request().url()).searchParams.get('after')
    return route.fulfill({ status: 200, contentType: 'application/json', body: JSON.stringify({ events: [], next: after, end: true }) })
  })
  await signedIn(page)
  await page.waitForFunction(() => document.querySelectorAll('.feed li').length === 12)
  await calm(page, 'the feed')
  await page.context().close()
})

await step('a clock that is an hour wrong, and a token that has ended', async () => {
  const page = await opened({ language: 'en', width: 1440 })
  await page.clock.install({ time: Date.now() + 3_600_000 })
  await page.clock.resume()
  await signedIn(page)
  await go(page, '#/statements?branch=branch-clock-1&order=newest')
  await page.getByText(page.t('statements.none')).waitFor()
  const example = (await (await fetch(`${base}/openapi.json`)).json()).paths['/settlement-deposit-requests'].post.requestBody.content['application/json'].example
  const sent = await api('POST', '/settlement-deposit-requests', { body: { ...example, branchProfileId: 'branch-clock-1', statementCode: 'CLOCK', idempotencyKey: 'clock' } })
  check(sent.status === 201, JSON.stringify(sent.body))
  await page.waitForSelector('[data-row="0"]')
  const row = await page.locator('[data-row="0"]').innerText()
  check(!/hour|minute|시간|분/.test(row), `it was made just now: ${row}`)
  await page.route('**/settlement-statements?*', (route) => route.fulfill({ status: 401, contentType: 'application/json', body: '{"code":"unauthorized"}' }))
  page.refusals += 1
  await page.locator('.filters select').first().selectOption('all')
  await page.getByText(page.t('signIn.ended')).waitFor()
  check(!(await page.content()).includes('CLOCK'), 'what was shown is still there')
  await page.context().close()
})

await step('a long list scrolls and filters: nothing is missing or twice, and the rows in sight alone are elements', async () => {
  const most = 2_500
  const example = (await (await fetch(`${base}/openapi.json`)).json()).paths['/settlement-deposit-requests'].post.requestBody.content['application/json'].example
  const make = (number) => api('POST', '/settlement-deposit-requests', { body: { ...example, branchProfileId: 'branch-long-1', statementCode: `LONG-${number}`, idempotencyKey: `long-${number}` } })
  for (let from = 0; from < most; from += 50) await Promise.all(Array.from({ length: 50 }, (_, index) => make(from + index)))
  const page = await opened({ language: 'ko', width: 1440 })
  await signedIn(page)
  await go(page, '#/statements?branch=branch-long-1')
  await page.waitForSelector('[data-row="0"]')
  const { rows, missing, twice, elements, height } = await scrolledThrough(page)
  check(rows === most && missing === 0 && twice === 0, `${rows} rows, ${missing} missing, ${twice} twice`)
  check(elements < 60, `${elements} rows are elements`)
  check(height < 2_200 * 37, `the list is ${height} pixels high: pages out of sight are kept`)
  await page.locator('.foot', { hasText: page.t('list.all', { n: '2,500' }) }).waitFor()
  const back = await scrolledBack(page, most)
  check(back.seen === most && back.others === 0, `back up ${back.seen} rows, ${back.others} of them other ones`)
  await scrolledThrough(page)
  await page.locator('.window').focus()
  await page.keyboard.press('Home')
  await page.waitForSelector('[data-row="0"]')
  await page.locator('.filters select').first().selectOption('awaiting_confirmation')
  await page.getByText(page.t('statements.none')).waitFor()
  await page.locator('.filters select').first().selectOption('all')
  await page.waitForSelector('[data-row="0"]')
  await calm(page, 'the long list')
  await page.context().close()
})

await browser.close()
console.log(`${faults.length} of the steps failed, in ${Date.now() - began} ms`)
for (const fault of faults) console.log(`FAILED ${fault}`)
process.exit(faults.length ? 1 : 0)
