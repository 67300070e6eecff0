// What stands around each page: where one can go, who is signed in, the search, language and look.

import { html, signal, useEffect, useRef } from '../lib/html.js'
import { stream } from '../lib/events.js'
import { areShown } from '../lib/personal.js'
import { link, look as lookAgain, place } from '../lib/router.js'
import { actAs, actor, actors, settings, signOut } from '../lib/session.js'
import { keep, kept } from '../lib/storage.js'
import { language, speak, t, word } from '../lib/words.js'
import { pages } from '../pages/pages.js'
import { Icon } from './icon.js'

/** @returns {'light' | 'dark'} */
function firstLook() {
  const look = kept('carebook.look')
  if (look === 'light' || look === 'dark') return look
  return matchMedia('(prefers-color-scheme: dark)').matches ? 'dark' : 'light'
}

const look = signal(firstLook())
document.documentElement.dataset.look = look.value

/** @param {'light' | 'dark'} next */
function wear(next) {
  keep('carebook.look', next)
  document.documentElement.dataset.look = next
  look.value = next
}

function Search() {
  const input = useRef(/** @type {HTMLInputElement | null} */ (null))
  useEffect(() => {
    /** @param {KeyboardEvent} event */
    const typed = (event) => {
      const at = /** @type {HTMLElement} */ (event.target)
      if (event.key !== '/' || event.ctrlKey || event.metaKey || /^(INPUT|TEXTAREA|SELECT)$/.test(at.tagName)) return
      event.preventDefault()
      input.current?.focus()
    }
    addEventListener('keydown', typed)
    return () => removeEventListener('keydown', typed)
  }, [])
  /** @param {Event} event */
  const go = (event) => {
    event.preventDefault()
    const value = input.current?.value.trim()
    if (!value) return
    // The same once more: what is found may be more by now.
    if (location.hash === link(['find'], { q: value })) lookAgain()
    else location.hash = link(['find'], { q: value })
  }
  return html`<form role="search" class="search" onSubmit=${go}>
    <${Icon} name="search" />
    <input ref=${input} type="search" aria-label=${t('find.label')} placeholder=${t('find.placeholder')} autocomplete="off" spellcheck=${false} maxlength="512" />
    <kbd aria-hidden="true">/</kbd>
  </form>`
}

function Acting() {
  const now = actor.value
  if (!now) return ''
  if (actors.value.length < 2) return html`<span class="acting" title=${now.subject}>${word(now.kind)}</span>`
  return html`<select class="acting" aria-label=${t('shell.actAs')} value=${now.subject}
    onChange=${(/** @type {any} */ event) => { const next = actors.value.find((one) => one.subject === event.target.value); if (next) actAs(next) }}>
    ${actors.value.map((one) => html`<option key=${one.subject} value=${one.subject} selected=${one.subject === now.subject}>${word(one.kind)}</option>`)}
  </select>`
}

/** @param {{children: any}} props */
export function Shell({ children }) {
  const [here = ''] = place.value.path
  const other = language.value === 'ko' ? 'en' : 'ko'
  const otherLook = look.value === 'dark' ? 'light' : 'dark'
  return html`
    <a class="skip" href="#content" onClick=${(/** @type {Event} */ event) => { event.preventDefault(); document.getElementById('content')?.focus() }}>${t('shell.skip')}</a>
    <header class="top">
      <a class="brand" href="#/" aria-label="carebook"><img src=${new URL('../icon.svg', import.meta.url).pathname} alt="" width="24" height="24" /><span>carebook</span></a>
      <${Search} />
      <div class="tools">
        <span class=${`live ${stream.value === 'live' ? 'is-live' : stream.value}`} role="status" title=${t(`stream.${stream.value}`)}><span class="dot" aria-hidden="true"></span><span class="live-word">${t(`stream.${stream.value}`)}</span></span>
        <${Acting} />
        <button type="button" class="quiet" aria-pressed=${areShown.value} onClick=${() => { areShown.value = !areShown.value }} title=${t(areShown.value ? 'personal.hide' : 'personal.show')} aria-label=${t('personal.show')}><${Icon} name=${areShown.value ? 'eye' : 'hidden'} /></button>
        <button type="button" class="quiet" onClick=${() => speak(other)} lang=${other} title=${t('shell.otherLanguage')}>${other === 'ko' ? '한' : 'EN'}</button>
        <button type="button" class="quiet" onClick=${() => wear(otherLook)} title=${t(`shell.${otherLook}`)} aria-label=${t(`shell.${otherLook}`)}><${Icon} name=${otherLook === 'dark' ? 'moon' : 'sun'} /></button>
        <button type="button" class="quiet" onClick=${() => signOut('signIn.out')} title=${t('shell.signOut')} aria-label=${t('shell.signOut')}><${Icon} name="leave" /></button>
      </div>
    </header>
    <nav class="nav" aria-label=${t('shell.pages')}>
      <ul>${pages.filter((page) => page.icon).map((page) => html`<li key=${page.path}>
        <a href=${link(page.path ? [page.path] : [])} aria-current=${here === page.path ? 'page' : undefined}><${Icon} name=${page.icon} /><span>${t(page.title)}</span></a>
      </li>`)}</ul>
      <p class="version muted small">${settings.value?.version ?? ''}</p>
    </nav>
    <main id="content" tabindex="-1">${children}</main>`
}
