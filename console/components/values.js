// Values of the API, each as it is read best: statuses, times, amounts, identifiers, personal ones.

import { html, useState } from '../lib/html.js'
import { short, time, utc, won, number } from '../lib/format.js'
import { linkToSubject } from '../lib/kinds.js'
import { areShown, isPersonal } from '../lib/personal.js'
import { t, word } from '../lib/words.js'
import { Icon } from './icon.js'

const GOOD = new Set(['completed', 'active', 'accepted', 'applied', 'acknowledged', 'ready', 'recorded', 'taken', 'enabled', 'verified', 'charge_finalized', 'settled', 'delivered', 'succeeded', 'paid', 'pre_registered', 'confirmed'])
const WAITING = new Set(['awaiting_branch_deposit', 'awaiting_confirmation', 'pending', 'waiting', 'queued', 'repair_pending', 'requested', 'preparing', 'payable', 'paused', 'invited', 'open', 'generating', 'provisioning', 'onboarding'])
const BAD = new Set(['dead', 'failing', 'gone', 'failed', 'rejected', 'cancelled', 'skipped', 'expired', 'revoked', 'disputed', 'refused'])

/** @param {{value: string | null | undefined}} props */
export function Status({ value }) {
  if (!value) return html`<span class="muted">–</span>`
  const tone = GOOD.has(value) ? 'good' : BAD.has(value) ? 'bad' : WAITING.has(value) ? 'waiting' : 'plain'
  return html`<span class=${`badge ${tone}`} title=${value}>${word(value)}</span>`
}

/** @param {{at: string | number | null | undefined}} props */
export function Time({ at }) {
  if (at === null || at === undefined || Number.isNaN(new Date(at || NaN).getTime())) return html`<span class="muted">–</span>`
  return html`<time class="time" dateTime=${new Date(at).toISOString()} title=${utc(at)}>${time(at)}</time>`
}

/** @param {{krw: number | null | undefined}} props */
export function Won({ krw }) {
  if (krw === null || krw === undefined) return html`<span class="muted">–</span>`
  return html`<span class="won">${won(krw)}</span>`
}

/** @param {{id: string | null | undefined, href?: string, whole?: boolean}} props */
export function Id({ id, href, whole }) {
  if (!id) return html`<span class="muted">–</span>`
  const text = whole ? id : short(id)
  return href
    ? html`<a class="id" href=${href} title=${id}>${text}</a>`
    : html`<span class="id" title=${id}>${text}</span>`
}

/** What an event or a message is about, by the last part of its path or by its kind; the whole is in the title. @param {{path: string, byKind?: boolean}} props */
export function Subject({ path, byKind }) {
  const href = linkToSubject(path)
  const last = path.split('/').pop() ?? path
  let id = last
  try {
    id = decodeURIComponent(last)
  } catch {
    // It is shown as it is.
  }
  const text = byKind ? path.split('/')[0] : short(id)
  return href ? html`<a class="id" href=${href} title=${path}>${text}</a>` : html`<span class="id" title=${path}>${text}</span>`
}

/** @param {{text: string, label?: string}} props */
export function Copy({ text, label }) {
  const [done, setDone] = useState(false)
  // Pages that came without TLS from another machine have no clipboard.
  if (!navigator.clipboard) return ''
  const copy = async () => {
    try {
      await navigator.clipboard.writeText(text)
    } catch {
      return
    }
    setDone(true)
    setTimeout(() => setDone(false), 1500)
  }
  return html`<button type="button" class="quiet copy" onClick=${copy} aria-label=${label ?? t('action.copy')}>
    <${Icon} name="copy" /><span aria-live="polite">${done ? t('action.copied') : ''}</span>
  </button>`
}

/** What stands for a personal value until it is asked for. */
export function Masked() {
  return html`<span class="masked" title=${t('personal.hidden')}><span aria-hidden="true">•••</span><span class="hidden">${t('personal.hidden')}</span></span>`
}

const TIME = /^\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d/
const WORD = /(status|state|stage|kind|outcome|disposition|action|scope|side|account|lifecycle|factGroup|operation)$/i

/**
 * A scalar as its member's name says what it is.
 * @param {{path: string, value: unknown}} props
 */
export function Scalar({ path, value }) {
  if (value === null || value === undefined) return html`<span class="muted" aria-label=${t('value.none')}>–</span>`
  if (!areShown.value && isPersonal(path, value)) return html`<${Masked} />`
  const name = path.split('.').pop()?.replace(/\[\d+\]$/, '') ?? ''
  if (typeof value === 'boolean') return html`${value ? t('value.yes') : t('value.no')}`
  if (typeof value === 'number') return name.endsWith('Krw') ? html`<${Won} krw=${value} />` : html`<span class="number">${/(Revision|Number|Position)$|^(revision|number|position)$/.test(name) ? value : number(value)}</span>`
  const text = String(value)
  if (TIME.test(text) && !Number.isNaN(Date.parse(text))) return html`<${Time} at=${text} />`
  if (WORD.test(name) && /^[a-z_]+$/.test(text)) return html`<span title=${text}>${word(text)}</span>`
  return html`<span class="text">${text}</span>`
}
