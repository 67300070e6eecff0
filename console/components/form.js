// A form for a value of a schema of the API document: a field for each scalar, a group for each object,
// a list for each array. What a field shows is what is sent, also where it does not fit the schema: the service says
// so when it is tried.

import { html, useId, useState } from '../lib/html.js'
import { blank, fieldsOf, isOptional, present, typesOf } from '../lib/document.js'
import { fault as faultWords, field, t, word } from '../lib/words.js'

/** @typedef {import('../lib/document.js').Schema} Schema */

/** Text of at most so many characters is an identifier or a name: it has one line. */
const LINE = 512

/** @param {string} name */
const named = (name) => field(name)

/**
 * The number that this text writes, or the text itself where it writes none, or one that would be shown in another way.
 * @param {'integer' | 'number'} type @param {string} text
 */
function numberIn(type, text) {
  const number = Number(text)
  const isIt = Number.isFinite(number) && (type === 'number' || Number.isInteger(number))
  return isIt && String(number) === text.trim() ? number : text
}

/**
 * @param {object} props
 * @param {any} props.whole the document
 * @param {Schema} props.schema
 * @param {any} props.value
 * @param {(value: any) => void} props.change
 * @param {string} props.name
 * @param {string} props.path
 * @param {boolean} [props.required]
 * @param {Map<string, string>} props.faults by path
 */
export function Field({ whole, schema, value, change, name, path, required = true, faults }) {
  const one = present(whole, schema)
  const types = typesOf(whole, one).filter((type) => type !== 'null')
  const may = isOptional(whole, schema) || !required
  const common = { whole, value, change, name, path, faults, one, may }
  if (types.includes('object')) return one.properties ? html`<${Group} ...${common} />` : html`<${Raw} ...${common} />`
  if (types.includes('array')) return html`<${List} ...${common} />`
  return html`<${ScalarField} ...${common} type=${types[0] ?? 'string'} />`
}

/** @param {any} props */
function Group({ whole, one, value, change, name, path, faults, may }) {
  const required = new Set(one.required ?? [])
  const isThere = value !== null && value !== undefined
  return html`<fieldset class="group">
    <legend><span title=${name}>${named(name)}</span>${may ? html` <label class="inline small"><input type="checkbox" checked=${isThere} onChange=${(/** @type {any} */ event) => change(event.target.checked ? blank(whole, { ...one }) ?? {} : null)} /> ${t('form.given')}</label>` : ''}</legend>
    ${one.description ? html`<p class="muted small">${one.description}</p>` : ''}
    ${isThere ? fieldsOf(one).map(([member, schema]) => html`<${Field} key=${member} whole=${whole} schema=${schema} value=${value[member]} name=${member}
      path=${path ? `${path}.${member}` : member} required=${required.has(member)} faults=${faults}
      change=${(/** @type {any} */ next) => { const all = { ...value }; if (next === undefined) delete all[member]; else all[member] = next; change(all) }} />`) : ''}
  </fieldset>`
}

/** @param {any} props */
function List({ whole, one, value, change, name, path, faults }) {
  const items = Array.isArray(value) ? value : []
  return html`<fieldset class="group">
    <legend title=${name}>${named(name)}</legend>
    ${one.description ? html`<p class="muted small">${one.description}</p>` : ''}
    ${items.map((item, index) => html`<div class="item" key=${index}><${Field} whole=${whole} schema=${one.items ?? {}} value=${item} name=${`${name} ${index + 1}`} path=${`${path}[${index}]`} faults=${faults}
      change=${(/** @type {any} */ next) => change(items.map((old, at) => (at === index ? next : old)))} />
      <button type="button" class="quiet" aria-label=${t('form.remove', { name: `${named(name)} ${index + 1}` })} onClick=${() => change(items.filter((_, at) => at !== index))}>✕</button></div>`)}
    <button type="button" onClick=${() => change([...items, blank(whole, one.items ?? {})])}>${t('form.add', { name: named(name) })}</button>
  </fieldset>`
}

/** What has members of the sender's choice: as JSON. @param {any} props */
function Raw({ one, value, change, name, path, faults }) {
  const id = useId()
  const [text, setText] = useState(value === null || value === undefined ? '' : JSON.stringify(value, null, 2))
  const [isWrong, setWrong] = useState(false)
  /** @param {string} next */
  const typed = (next) => {
    setText(next)
    try {
      change(next.trim() ? JSON.parse(next) : null)
      setWrong(false)
    } catch {
      setWrong(true)
    }
  }
  return html`<div class="field"><label for=${id}><span title=${name}>${named(name)}</span> <span class="muted small">JSON</span></label>
    <textarea id=${id} rows="3" spellcheck=${false} value=${text} aria-invalid=${isWrong || faults.has(path)} aria-describedby=${`${id}-hint`} onInput=${(/** @type {any} */ event) => typed(event.target.value)}></textarea>
    <p id=${`${id}-hint`} class="muted small">${isWrong ? t('form.noJson') : one.description}${faults.has(path) ? html` <span class="bad">${faultWords(faults.get(path))}</span>` : ''}</p></div>`
}

/** @param {any} props */
function ScalarField({ one, value, change, name, path, faults, may, type }) {
  const id = useId()
  const isNumber = type === 'integer' || type === 'number'
  const shown = value === null || value === undefined ? '' : String(value)
  const code = faults.get(path)
  const fault = isNumber && shown !== '' && typeof numberIn(type, shown) === 'string' ? t(`form.no.${type}`) : code && faultWords(code)
  const about = { id, 'aria-describedby': `${id}-hint`, 'aria-invalid': Boolean(fault), required: !may }
  /** @param {string} text */
  const typed = (text) => {
    if (text === '') return change(may ? null : undefined)
    change(isNumber ? numberIn(type, text) : text)
  }
  let input
  if (one.enum) {
    const values = one.enum.filter((/** @type {any} */ item) => item !== null)
    input = html`<select ...${about} value=${shown} onChange=${(/** @type {any} */ event) => typed(event.target.value)}>
      <option value="" selected=${shown === ''}>${may ? t('form.nothing') : t('form.choose')}</option>${values.map((/** @type {any} */ item) => html`<option key=${item} value=${item} selected=${shown === String(item)}>${word(String(item))}</option>`)}</select>`
  } else if (type === 'boolean') {
    input = html`<select ...${about} value=${shown} onChange=${(/** @type {any} */ event) => change(event.target.value === '' ? (may ? null : undefined) : event.target.value === 'true')}>
      <option value="" selected=${shown === ''}>${may ? t('form.nothing') : t('form.choose')}</option><option value="true" selected=${shown === 'true'}>${t('value.yes')}</option><option value="false" selected=${shown === 'false'}>${t('value.no')}</option></select>`
  } else if (isNumber) {
    input = html`<input ...${about} type="text" inputmode=${type === 'integer' ? 'numeric' : 'decimal'} spellcheck=${false} autocomplete="off" value=${shown} onInput=${(/** @type {any} */ event) => typed(event.target.value)} />`
  } else if (one.format === 'date') {
    input = html`<input ...${about} type="date" value=${shown} onInput=${(/** @type {any} */ event) => typed(event.target.value)} />`
  } else if (one.maxLength > LINE) {
    input = html`<textarea ...${about} class="long" rows="1" value=${shown} onInput=${(/** @type {any} */ event) => typed(event.target.value)}></textarea>`
  } else {
    const placeholder = one.format === 'date-time' ? '2026-11-23T09:00:00+09:00' : undefined
    input = html`<input ...${about} type="text" spellcheck=${false} autocomplete="off" placeholder=${placeholder} value=${shown} onInput=${(/** @type {any} */ event) => typed(event.target.value)} />`
  }
  return html`<div class=${fault ? 'field at-fault' : 'field'}><label for=${id}><span title=${name}>${named(name)}</span>${may ? '' : html`<span class="required" aria-hidden="true"> *</span>`}</label>
    ${input}<p id=${`${id}-hint`} class="muted small">${named(name) === name ? '' : html`<code>${name}</code> `}${one.description ?? ''}${fault ? html` <span class="bad">${fault}</span>` : ''}</p></div>`
}
