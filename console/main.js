// The start of the console: who is signed in, where one is, and the page that belongs there.

import { effect, html, render, useEffect } from './lib/html.js'
import { place } from './lib/router.js'
import { actor, begin, settings, signOut } from './lib/session.js'
import { language, t } from './lib/words.js'
import { Shell } from './components/shell.js'
import { Empty, Loading } from './components/states.js'
import { PageHead } from './components/panel.js'
import { pages } from './pages/pages.js'
import { SignIn } from './pages/sign_in.js'

function Console() {
  const [name = ''] = place.value.path
  const page = pages.find((page) => page.path === name)
  const title = page ? t(page.title) : t('page.none')
  const where = place.value.path.join('/')
  useEffect(() => {
    document.title = actor.value ? `${title} · carebook` : 'carebook'
  }, [title, Boolean(actor.value), language.value])
  useEffect(() => {
    const heading = /** @type {HTMLElement | null} */ (document.querySelector('main h1'))
    if (actor.value && document.activeElement === document.body) heading?.focus({ preventScroll: true })
    scrollTo(0, 0)
  }, [where])
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
begin().catch(() => {
  settings.value ??= { version: '', provider: null, link: false }
  signOut('signIn.unreachable')
})
