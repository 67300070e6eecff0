// The words of the page, in the language that is chosen: `t('statements.title')`. Each language has a
// file under words/ with the same keys; a test compares them.

import { signal } from './html.js'
import { keep, kept } from './storage.js'
import { en } from '../words/en.js'
import { ko } from '../words/ko.js'

/** @typedef {'ko' | 'en'} Language */

/** @type {Record<Language, Record<string, string>>} */
const words = { ko, en }

/** @returns {Language} */
function first() {
  const language = kept('carebook.language')
  if (language === 'ko' || language === 'en') return language
  return navigator.language.startsWith('ko') ? 'ko' : 'en'
}

export const language = signal(/** @type {Language} */ (first()))

/** @param {Language} next */
export function speak(next) {
  keep('carebook.language', next)
  document.documentElement.lang = next
  language.value = next
}

/**
 * The words of this key, with `{name}` replaced by the values.
 * @param {string} key
 * @param {Record<string, string | number>} [values]
 * @returns {string}
 */
export function t(key, values) {
  const text = words[language.value][key]
  if (text === undefined) return key
  if (!values) return text
  return text.replace(/\{(\w+)\}/g, (all, name) => (name in values ? String(values[name]) : all))
}

/** Whether there are words of this key. @param {string} key */
export const hasWords = (key) => key in words.en

/**
 * The words of a value of the API (`awaiting_branch_deposit`), or the value itself where it has none.
 * @param {string} value
 * @returns {string}
 */
export function word(value) {
  return words[language.value][`value.${value}`] ?? value
}

/**
 * The words of the code of a fault (`too_long`), or what the service says of it where it has none.
 * @param {string} code
 * @param {string} [message]
 * @returns {string}
 */
export function fault(code, message) {
  return words[language.value][`fault.${code}`] ?? message ?? code
}

/**
 * The words of a member of the API (`statementCode`), or its name where it has none.
 * @param {string} name
 * @returns {string}
 */
export function field(name) {
  return words[language.value][`field.${name}`] ?? name
}
