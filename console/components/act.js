// A button that has something done: once, with a key of its own, and says what came of it.

import { html, useState } from '../lib/html.js'
import { call, freshKey } from '../lib/api.js'
import { problemOf } from '../lib/load.js'
import { t } from '../lib/words.js'
import { Dialog } from './dialog.js'
import { Problem } from './states.js'

/**
 * @param {object} props
 * @param {string} props.label
 * @param {string} props.explains what will happen
 * @param {'POST' | 'PATCH' | 'DELETE'} props.method
 * @param {string} props.path
 * @param {Record<string, any>} [props.query]
 * @param {any} [props.body]
 * @param {boolean} [props.asksReason] whether the body has a reason
 * @param {boolean} [props.isGrave]
 * @param {(isSending: boolean) => void} [props.sending] told when it begins, and when it was refused
 * @param {(answer: any) => any} props.done what is shown afterwards, or nothing
 */
export function Act({ label, explains, method, path, query, body, asksReason, isGrave, sending, done }) {
  const [isOpen, setOpen] = useState(false)
  const [key, setKey] = useState('')
  const [problem, setProblem] = useState(/** @type {any} */ (null))
  const [isSending, setSending] = useState(false)
  const [shown, setShown] = useState(/** @type {any} */ (null))
  const open = () => {
    setKey(freshKey())
    setProblem(null)
    setShown(null)
    setOpen(true)
  }
  const close = () => setOpen(false)
  /** @param {any} event */
  const act = async (event) => {
    event.preventDefault()
    const reason = new FormData(event.currentTarget).get('reason')
    setSending(true)
    sending?.(true)
    try {
      const sent = asksReason ? { ...body, reason: String(reason) } : body
      const answer = await call(method, path, { query, body: sent, key })
      const after = done(answer.body)
      if (after) setShown(after)
      else close()
    } catch (error) {
      sending?.(false)
      setProblem(problemOf(error))
    }
    setSending(false)
  }
  return html`<button type="button" class=${isGrave ? 'grave' : ''} onClick=${open}>${label}</button>
    ${isOpen ? html`<${Dialog} title=${label} close=${close}>
      ${shown ? html`${shown}<div class="actions"><button type="button" onClick=${close}>${t('action.close')}</button></div>` : html`<form class="stack" onSubmit=${act}>
        <p>${explains}</p>
        ${asksReason ? html`<label for="act-reason">${t('field.reason')}</label><textarea id="act-reason" name="reason" rows="2" required maxlength="4000"></textarea>` : ''}
        ${problem ? html`<${Problem} problem=${problem} />` : ''}
        <div class="actions"><button type="submit" class=${isGrave ? 'grave' : 'primary'} disabled=${isSending}>${label}</button><button type="button" onClick=${close}>${t('action.cancel')}</button></div>
      </form>`}<//>` : ''}`
}
