// A part of a page with a heading.

import { html, useId } from '../lib/html.js'

/** @param {{title: any, aside?: any, children: any, class?: string}} props */
export function Panel({ title, aside, children, class: extra }) {
  const id = useId()
  return html`<section class=${`panel ${extra ?? ''}`} aria-labelledby=${id}>
    <header class="panel-head"><h2 id=${id}>${title}</h2>${aside ?? ''}</header>
    ${children}
  </section>`
}

/** @param {{title: any, children?: any, lead?: any}} props */
export function PageHead({ title, children, lead }) {
  return html`<div class="page-head"><div><h1 tabindex="-1">${title}</h1>${lead ? html`<p class="muted">${lead}</p>` : ''}</div><div class="actions">${children}</div></div>`
}
