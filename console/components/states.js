// What stands in the place of something that is not there: loading, refused, empty.

import { html } from '../lib/html.js'
import { fault as faultWords, t } from '../lib/words.js'

export function Loading() {
  return html`<div class="state" role="status"><span class="spinner" aria-hidden="true"></span>${t('state.loading')}</div>`
}

/** @param {{children?: any}} props */
export function Empty({ children }) {
  return html`<p class="state">${children ?? t('state.empty')}</p>`
}

/** What was refused, why, and what to do. @param {{problem: import('../lib/api.js').Problem, again?: () => void}} props */
export function Problem({ problem, again }) {
  const keys = [`problem.${problem.code}.${problem.asked}`, `problem.${problem.code}`]
  const known = keys.map((key) => t(key)).find((words) => !words.startsWith('problem.'))
  return html`<div class="problem" role="alert">
    <p class="problem-title"><strong>${known ?? (problem.message || t('problem.other'))}</strong></p>
    <p class="muted"><code>${problem.status || ''} ${problem.code}</code>${problem.message && known ? html` ${problem.message}` : ''}</p>
    ${problem.fieldErrors?.length
      ? html`<ul class="faults">${problem.fieldErrors.map((fault) => html`<li key=${`${fault.fieldPath} ${fault.code}`}><code>${fault.fieldPath}</code> <code class="muted">${fault.code}</code> ${faultWords(fault.code, fault.message)}</li>`)}</ul>`
      : ''}
    ${problem.conflictingFieldPaths?.length ? html`<p>${t('problem.conflicting')} ${problem.conflictingFieldPaths.map((path) => html`<code key=${path}>${path}</code> `)}</p>` : ''}
    ${problem.requestId ? html`<p class="muted small">X-Request-Id <code>${problem.requestId}</code></p>` : ''}
    ${again ? html`<button type="button" onClick=${again}>${t('action.again')}</button>` : ''}
  </div>`
}

/** A value of its own or what stands in its place. @param {{of: import('../lib/load.js').Loaded<any>, children: (value: any) => any}} props */
export function When({ of, children }) {
  if (of.value !== undefined) {
    return html`${of.problem ? html`<${Problem} problem=${of.problem} again=${of.again} />` : ''}${children(of.value)}`
  }
  if (of.problem) return html`<${Problem} problem=${of.problem} again=${of.again} />`
  return html`<${Loading} />`
}
