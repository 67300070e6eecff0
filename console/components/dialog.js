// A dialog: the browser's own, which keeps the keyboard inside and gives the focus back.

import { html, useEffect, useId, useRef } from '../lib/html.js'
import { t } from '../lib/words.js'

/** @param {{title: string, close: () => void, children: any}} props */
export function Dialog({ title, close, children }) {
  const element = useRef(/** @type {HTMLDialogElement | null} */ (null))
  const id = useId()
  useEffect(() => {
    const shown = element.current
    shown?.showModal()
    return () => shown?.close()
  }, [])
  return html`<dialog ref=${element} aria-labelledby=${id} onCancel=${(/** @type {Event} */ event) => { event.preventDefault(); close() }}>
    <header class="dialog-head"><h2 id=${id}>${title}</h2><button type="button" class="quiet" onClick=${close} aria-label=${t('action.close')}>✕</button></header>
    ${children}
  </dialog>`
}
