// A window of the browser, in English, for the tests of single tasks.

import path from 'node:path'
import { pathToFileURL } from 'node:url'

/** Starts the browser with the driver of these tools; the browser, and a page that nothing was opened in. */
export async function opened(tools, chromium) {
  const { chromium: driver } = await import(pathToFileURL(path.join(tools, 'node_modules/playwright-core/index.mjs')))
  const browser = await driver.launch({
    executablePath: chromium,
    args: ['--no-sandbox', '--no-proxy-server', '--disable-background-networking', '--disable-component-update'],
  })
  const context = await browser.newContext({ locale: 'en-GB', viewport: { width: 1440, height: 900 } })
  const page = await context.newPage()
  page.setDefaultTimeout(20_000)
  return { browser, page }
}
