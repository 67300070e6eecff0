// A body of the API as a list of its members, nested as it is.

import { html } from '../lib/html.js'
import { field } from '../lib/words.js'
import { Scalar } from './values.js'

/** @param {unknown} value @returns {value is Record<string, unknown>} */
const isObject = (value) => Boolean(value) && typeof value === 'object' && !Array.isArray(value)

/** A name in camel case or a path, which may be broken between its words. @param {{name: string}} props */
export function Breaking({ name }) {
  return name.split(/(?=[A-Z.[])/).map((part, index) => html`${index ? html`<wbr />` : ''}${part}`)
}

/** @param {{name: string}} props */
export function Name({ name }) {
  const words = field(name)
  return words === name
    ? html`<code><${Breaking} name=${name} /></code>`
    : html`<span title=${name}>${words}</span>`
}

/** @param {{value: Record<string, unknown>, path?: string}} props */
export function Body({ value, path = '' }) {
  return html`<dl class="body">
    ${Object.entries(value).map(([name, member]) => html`<${Member} key=${name} name=${name} member=${member} path=${path ? `${path}.${name}` : name} />`)}
  </dl>`
}

/** @param {{name: string, member: unknown, path: string}} props */
function Member({ name, member, path }) {
  const isNested = isObject(member) || (Array.isArray(member) && member.some((item) => item && typeof item === 'object'))
  return html`<div class=${isNested ? 'member nested' : 'member'}>
    <dt><${Name} name=${name} /></dt>
    <dd><${Value} value=${member} path=${path} /></dd>
  </div>`
}

/** @param {{value: unknown, path: string}} props */
export function Value({ value, path }) {
  if (Array.isArray(value)) {
    if (value.length === 0) return html`<span class="muted">[]</span>`
    return html`<ol class="items">
      ${value.map((item, index) => html`<li key=${index}><${Value} value=${item} path=${`${path}[${index}]`} /></li>`)}
    </ol>`
  }
  if (isObject(value)) {
    if (Object.keys(value).length === 0) return html`<span class="muted">{}</span>`
    return html`<${Body} value=${value} path=${path} />`
  }
  return html`<${Scalar} path=${path} value=${value} />`
}
