// Differences side by side: what a member was, and what it is.

import { html } from '../lib/html.js'
import { t, field } from '../lib/words.js'
import { Breaking } from './body.js'
import { Scalar } from './values.js'

/** @param {{path: string}} props */
function Path({ path }) {
  const name = path.split('.').pop() ?? path
  const words = field(name.replace(/\[\d+\]$/, ''))
  return html`<code title=${words === name ? undefined : words}><${Breaking} name=${path} /></code>`
}

/** @param {{changes: import('../lib/differences.js').Change[], label: string}} props */
export function Differences({ changes, label }) {
  if (changes.length === 0) return html`<p class="muted small">${t('differences.none')}</p>`
  return html`<div class="scroll-x" tabindex="0" role="group" aria-label=${label}>
    <table class="differences" role="table">
      <caption class="hidden">${label}</caption>
      <thead role="rowgroup"><tr role="row"><th role="columnheader" scope="col">${t('differences.member')}</th><th role="columnheader" scope="col">${t('differences.before')}</th><th role="columnheader" scope="col">${t('differences.after')}</th></tr></thead>
      <tbody role="rowgroup">${changes.map((change) => html`<tr role="row" key=${change.path}>
        <th role="rowheader" scope="row"><${Path} path=${change.path} /></th>
        <td role="cell" class="before"><${Scalar} path=${change.path} value=${change.before} /></td>
        <td role="cell" class="after"><${Scalar} path=${change.path} value=${change.after} /></td>
      </tr>`)}</tbody>
    </table>
  </div>`
}
