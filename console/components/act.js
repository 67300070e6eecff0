// A button that has something done: once, with a key of its own, and says what came of it.

import { html, useState } from '../lib/html.js'
import { call, freshKey } from '../lib/api.js'
import { failedAgain, mayBeDone, problemOf } from '../lib/load.js'
import { t } from '../lib/words.js'
import { Dialog } from './dialog.js'
import { Problem } from './states.js'

/** @typedef {{label: string, about?: string, explains: string, method: string, path: string, query: any, body: any, key: string}} Asked */

/**
 * @param {object} props
 * @param {string} props.label
 * @param {string} [props.about] what it is done to, where a page has several
 * @param {string} props.explains what will happen
 * @param {'POST' | 'PATCH' | 'DELETE'} props.method
 * @param {string} props.path
 * @param {Record<string, any>} [props.query]
 * @param {any} [props.body]
 * @param {boolean} [props.asksReason] whether the body has a reason
 * @param {boolean} [props.isGrave]
 * @param {boolean} [props.isOffered] whether it can be begun; what has begun stays
 * @param {(isSending: boolean) => void} [props.sending] told when it begins, and when it was refused
 * @param {(problem: import('../lib/api.js').Problem) => void} [props.refused]
 * @param {(answer: any) => any} props.done what is shown afterwards, or nothing
 */
export function Act({ label, about, explains, method, path, query, body, asksReason, isGrave, isOffered = true, sending, refused, done }) {
  // What is asked for stands from the opening on: what is sent again, without an answer to the first, is the same.
  const [asked, setAsked] = useState(/** @type {Asked | null} */ (null))
  const [problem, setProblem] = useState(/** @type {any} */ (null))
  const [isSending, setSending] = useState(false)
  const [shown, setShown] = useState(/** @type {any} */ (null))
  const open = () => {
    setAsked({ label, about, explains, method, path, query, body, key: freshKey() })
    setProblem(null)
    setShown(null)
  }
  const close = () => setAsked(null)
  /** @param {any} event */
  const act = async (event) => {
    event.preventDefault()
    if (!asked || isSending) return
    const reason = new FormData(event.currentTarget).get('reason')
    setSending(true)
    sending?.(true)
    try {
      const sent = asksReason ? { ...asked.body, reason: String(reason) } : asked.body
      const answer = await call(asked.method, asked.path, { query: asked.query, body: sent, key: asked.key })
      const after = done(answer.body)
      if (after) setShown(after)
      else close()
    } catch (error) {
      sending?.(false)
      refused?.(problemOf(error))
      setProblem((/** @type {any} */ before) => failedAgain(before, problemOf(error)))
    }
    setSending(false)
  }
  return html`${isOffered ? html`<button type="button" class=${isGrave ? 'grave' : ''} aria-label=${about && `${label}: ${about}`} onClick=${open}>${label}</button>` : ''}
    ${asked ? html`<${Dialog} title=${asked.label} close=${close} isBusy=${isSending} holds=${isSending || Boolean(shown) || mayBeDone(problem)}>
      ${asked.about ? html`<p class="id">${asked.about}</p>` : ''}
      ${shown ? html`${shown}<div class="actions"><button type="button" onClick=${close}>${t('action.close')}</button></div>` : html`<form class="stack" onSubmit=${act}>
        <p>${asked.explains}</p>
        ${asksReason ? html`<label for="act-reason">${t('field.reason')}</label><textarea id="act-reason" name="reason" rows="2" required readonly=${isSending || mayBeDone(problem)}></textarea>` : ''}
        ${problem ? html`<${Problem} problem=${problem} />` : ''}
        <div class="actions"><button type="submit" class=${isGrave ? 'grave' : 'primary'} disabled=${isSending}>${asked.label}</button><button type="button" disabled=${isSending} onClick=${close}>${t('action.cancel')}</button></div>
      </form>`}<//>` : ''}`
}
