// Who is not signed in: with the identity provider, or with a token that one has.

import { html, useRef } from '../lib/html.js'
import { goToProvider, reason, retry, settings, signInWith } from '../lib/session.js'
import { language, speak, t } from '../lib/words.js'

export function SignIn() {
  const input = useRef(/** @type {HTMLInputElement | null} */ (null))
  const provider = settings.value?.provider
  /** @param {Event} event */
  const enter = (event) => {
    event.preventDefault()
    const token = input.current?.value
    if (input.current) input.current.value = ''
    if (token) signInWith(token)
  }
  const other = language.value === 'ko' ? 'en' : 'ko'
  return html`<main class="alone" id="content">
    <div class="sign-in panel">
      <p class="brand"><img src=${new URL('../icon.svg', import.meta.url).pathname} alt="" width="28" height="28" /><span>carebook</span></p>
      <h1 tabindex="-1">${t('signIn.title')}</h1>
      ${reason.value ? html`<p class="notice" role="alert">${t(reason.value)}${retry.value ? html` <button type="button" onClick=${retry.value}>${t('action.again')}</button>` : ''}</p>` : ''}
      ${provider ? html`<button type="button" class="primary wide" onClick=${goToProvider}>${t('signIn.withProvider')}</button><p class="muted small">${provider.issuer}</p>` : ''}
      ${settings.value?.link ? html`<p class="muted">${t('signIn.linkHint')}</p>` : ''}
      <form onSubmit=${enter} class="stack">
        <label for="token">${t('signIn.token')}</label>
        <input id="token" ref=${input} type="password" autocomplete="off" spellcheck=${false} required />
        <button type="submit" class=${provider ? 'wide' : 'primary wide'}>${t('signIn.withToken')}</button>
      </form>
      <p class="muted small">${t('signIn.memory')}</p>
      <button type="button" class="quiet" lang=${other} onClick=${() => speak(other)}>${other === 'ko' ? '한국어' : 'English'}</button>
    </div>
  </main>`
}
