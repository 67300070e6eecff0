// A charge as a ledger: where each won comes from on one side, where it goes to on the other.

import { html } from '../lib/html.js'
import { t, word } from '../lib/words.js'
import { Won } from './values.js'

/** @typedef {{side: 'debit' | 'credit', account: string, amountKrw: number}} Line */

/** @param {{ledger: {lines: Line[], caregiverShareBasisPoints: number, headquartersShareBasisPoints: number}}} props */
export function Ledger({ ledger }) {
  const of = (/** @type {string} */ side) => ledger.lines.filter((line) => line.side === side)
  const sum = (/** @type {Line[]} */ lines) => lines.reduce((all, line) => all + line.amountKrw, 0)
  const [debits, credits] = [of('debit'), of('credit')]
  const share = (/** @type {string} */ account) =>
    account === 'caregiver' ? ledger.caregiverShareBasisPoints : account === 'headquarters' ? ledger.headquartersShareBasisPoints : null
  const rows = Math.max(debits.length, credits.length)
  const side = (/** @type {string} */ name, /** @type {Line[]} */ lines) => html`<table class="ledger">
    <caption>${t(`ledger.${name}`)}</caption>
    <thead class="hidden"><tr><th scope="col">${t('ledger.account')}</th><th scope="col">${t('ledger.amount')}</th></tr></thead>
    <tbody>${lines.map((line) => html`<tr key=${line.account}><th scope="row">${word(line.account)}${share(line.account) !== null ? html` <span class="muted small">${(share(line.account) ?? 0) / 100}%</span>` : ''}</th><td class="end"><${Won} krw=${line.amountKrw} /></td></tr>`)}${Array.from({ length: rows - lines.length }, (_, index) => html`<tr key=${index} class="blank" aria-hidden="true"><td colspan="2"> </td></tr>`)}</tbody>
    <tfoot><tr><th scope="row">${t('ledger.sum')}</th><td class="end"><${Won} krw=${sum(lines)} /></td></tr></tfoot>
  </table>`
  const isEven = sum(debits) === sum(credits)
  return html`<div class="ledger-sides">${side('debit', debits)}${side('credit', credits)}</div>
    <p class=${isEven ? 'muted small' : 'bad'}>${t(isEven ? 'ledger.even' : 'ledger.uneven')}</p>`
}
