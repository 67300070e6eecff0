// The start of the console: who is signed in, where one is, and the page that belongs there.

import { effect, html, render, useEffect, useRef } from './lib/html.js'
import { get } from './lib/api.js'
import { trouble } from './lib/figures.js'
import { link, look, place } from './lib/router.js'
import { actor, begin, settings, signOut } from './lib/session.js'
import { language, t } from './lib/words.js'
import { Shell } from './components/shell.js'
import { Empty, Loading } from './components/states.js'
import { PageHead } from './components/panel.js'
import { pages } from './pages/pages.js'
import { SignIn } from './pages/sign_in.js'

/**
 * To the first page whose list has something for who has signed in, or else the first whose list they may read, where
 * the address has named none.
 * @param {AbortSignal} signal
 */
async function land(signal) {
  let first = ''
  for (const { path, list } of pages) {
    if (!list) continue
    const answer = await get(list, { limit: 1 }, signal).catch(() => null)
    if (signal.aborted || location.hash) return
    if (!answer) continue
    first ||= path
    if (answer.items.length === 0) continue
    first = path
    break
  }
  if (!first) return
  history.replaceState(null, '', link([first]))
  look()
}

function Console() {
  const [name = ''] = place.value.path
  const page = pages.find((page) => page.path === name)
  const title = page ? t(page.title) : t('page.none')
  const where = place.value.path.join('/')
  useEffect(() => {
    document.title = actor.value ? `${title} · carebook` : 'carebook'
  }, [title, Boolean(actor.value), language.value])
  const isIn = Boolean(actor.value)
  // The focus is moved once somebody has signed in, and not when the page is opened.
  const hasBeenIn = useRef(false)
  hasBeenIn.current ||= isIn
  useEffect(() => {
    const heading = /** @type {HTMLElement | null} */ (document.querySelector('main h1'))
    if (hasBeenIn.current && document.activeElement === document.body) heading?.focus({ preventScroll: true })
    scrollTo(0, 0)
  }, [where, isIn])
  const isElsewhere = isIn && name === '' && !location.hash && trouble.value?.status === 403
  useEffect(() => {
    if (!isElsewhere) return
    const abort = new AbortController()
    land(abort.signal)
    return () => abort.abort()
  }, [isElsewhere, actor.value])
  if (!settings.value) return html`<main class="alone"><${Loading} /></main>`
  if (!actor.value) return html`<${SignIn} />`
  return html`<${Shell}>
    ${page
      ? html`<${page.show} key=${name === 'commands' ? name : `${name} ${actor.value.subject}`} rest=${place.value.path.slice(1)} query=${place.value.query} />`
      : html`<${PageHead} title=${t('page.none')} /><${Empty} />`}
  <//>`
}

document.documentElement.lang = language.value
effect(() => {
  document.documentElement.lang = language.value
})
render(html`<${Console} />`, /** @type {Element} */ (document.getElementById('console')))
begin().catch(() => signOut('signIn.unreachable'))
