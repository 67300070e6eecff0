// A dialog: the browser's own, which keeps the keyboard inside. The focus begins at what is to be filled in or
// pressed, and comes back to what has opened it.

import { html, useEffect, useId, useLayoutEffect, useRef } from '../lib/html.js'
import { hold, stay } from '../lib/router.js'
import { t } from '../lib/words.js'

/** Where the focus begins: not at what cannot be undone. */
const FIRST = 'form input:not([readonly]), form textarea:not([readonly]), form button:not(.grave)'

/** The first of these that is there is given the focus. @param {(Element | null | undefined)[]} elements */
const focus = (...elements) => /** @type {HTMLElement | null | undefined} */ (elements.find(Boolean))?.focus({ preventScroll: true })

/**
 * While it is busy nothing closes it. While it holds (from when it is busy until it is closed, where what it shows or
 * repeats is nowhere else), no step back or forward takes it away. Such a step is made when it is closed.
 * @param {{title: string, close: () => void, isBusy?: boolean, holds?: boolean, children: any}} props
 */
export function Dialog({ title, close, isBusy = false, holds = isBusy, children }) {
  const element = useRef(/** @type {HTMLDialogElement | null} */ (null))
  const id = useId()
  useEffect(() => {
    const [shown, opener] = [element.current, document.activeElement]
    shown?.showModal()
    focus(shown?.querySelector(FIRST))
    return () => {
      shown?.close()
      // Once what is taken away with it is gone: the opener may be, too.
      queueMicrotask(() => {
        if (opener !== document.body && opener?.isConnected) focus(opener)
        else if (document.activeElement === document.body) focus(document.querySelector('main h1'))
      })
    }
  }, [])
  const held = useRef(/** @type {ReturnType<typeof hold> | null} */ (null))
  const release = () => {
    held.current?.release()
    held.current = null
  }
  useLayoutEffect(() => {
    if (!holds) {
      if (!held.current?.isLeft()) release()
      return
    }
    held.current ??= hold()
    return stay()
  }, [holds])
  useLayoutEffect(() => release, [])
  // What had the focus may be gone or disabled since.
  useEffect(() => {
    const shown = element.current
    const heading = shown?.querySelector('h2')
    const at = document.activeElement
    if (at !== document.body && at !== shown && at !== heading && !at?.matches(':disabled')) return
    focus(isBusy ? heading : shown?.querySelector('.secret .copy, form [type=submit]'), heading)
  })
  /** @param {Event} event */
  const cancelled = (event) => {
    event.preventDefault()
    if (!isBusy) close()
  }
  /** A browser closes it without asking when Escape is pressed twice. @param {KeyboardEvent} event */
  const typed = (event) => {
    if (event.key === 'Escape' && !event.isComposing) cancelled(event)
  }
  // Closed by the browser all the same, it is opened again, or gone altogether.
  const closed = () => {
    if (!element.current) return
    if (isBusy) element.current.showModal()
    else close()
  }
  return html`<dialog ref=${element} aria-labelledby=${id} aria-busy=${isBusy} onCancel=${cancelled} onKeyDown=${typed} onClose=${closed}>
    <header class="dialog-head"><h2 id=${id} tabindex="-1">${title}</h2><button type="button" class="quiet" disabled=${isBusy} onClick=${close} aria-label=${t('action.close')}>✕</button></header>
    ${children}
  </dialog>`
}
