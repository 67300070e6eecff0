// Amounts, times and sizes as people read them. Times are Seoul's; the hover says UTC.

import { language, t } from './words.js'

const ZONE = 'Asia/Seoul'

/** @type {Map<string, Intl.DateTimeFormat>} */
const formats = new Map()

/** @param {Intl.DateTimeFormatOptions} options */
function dates(options) {
  const key = language.value + JSON.stringify(options)
  let format = formats.get(key)
  if (!format) {
    format = new Intl.DateTimeFormat(language.value === 'ko' ? 'ko-KR' : 'en-GB', { timeZone: ZONE, ...options })
    formats.set(key, format)
  }
  return format
}

/** @param {number} won */
export function won(won) {
  if (language.value === 'ko') return `${number(won)}원`
  return `${won < 0 ? '-' : ''}₩${number(Math.abs(won))}`
}

/** @param {number} value @param {number} [digits] */
export function number(value, digits = 0) {
  return new Intl.NumberFormat(language.value === 'ko' ? 'ko-KR' : 'en-US', {
    maximumFractionDigits: digits,
  }).format(value)
}

/**
 * A time in Seoul, to the second: 2026-11-23 11:00:35.
 * @param {string | number | Date} at
 */
export function time(at) {
  const parts = dates({
    year: 'numeric', month: '2-digit', day: '2-digit', hour: '2-digit', minute: '2-digit', second: '2-digit', hourCycle: 'h23',
  }).formatToParts(new Date(at))
  /** @param {string} type */
  const part = (type) => parts.find((one) => one.type === type)?.value ?? ''
  return `${part('year')}-${part('month')}-${part('day')} ${part('hour')}:${part('minute')}:${part('second')}`
}

/** The same in UTC, as the API writes it. @param {string | number | Date} at */
export function utc(at) {
  return `${new Date(at).toISOString()} (UTC)`
}

/** How long, in its two largest units. @param {number} seconds */
export function duration(seconds) {
  if (seconds < 1e-3) return `${number(seconds * 1e6)} µs`
  if (seconds < 1) return `${number(seconds * 1e3, seconds < 0.01 ? 2 : 0)} ms`
  if (seconds < 60) return t('unit.seconds', { n: number(seconds) })
  if (seconds < 3600) return t('unit.minutes', { n: Math.floor(seconds / 60) })
  if (seconds < 86400) {
    const hours = Math.floor(seconds / 3600)
    return t('unit.hours', { n: hours })
  }
  return t('unit.days', { n: number(Math.floor(seconds / 86400)) })
}

/** How long ago. @param {string | number | Date} at @param {number} now */
export function ago(at, now) {
  const seconds = Math.max(0, (now - new Date(at).getTime()) / 1000)
  return seconds < 5 ? t('unit.now') : t('unit.ago', { n: duration(Math.floor(seconds)) })
}

/** @param {number} bytes */
export function bytes(bytes) {
  const units = ['B', 'KiB', 'MiB', 'GiB', 'TiB']
  let unit = 0
  while (bytes >= 1024 && unit < units.length - 1) {
    bytes /= 1024
    unit += 1
  }
  return `${number(bytes, bytes < 10 && unit > 0 ? 1 : 0)} ${units[unit]}`
}

/** An identifier short enough for a cell; the whole is in its title. @param {string} id */
export function short(id) {
  // By characters: half of one is none.
  const all = Array.from(id)
  return all.length > 22 ? `${all.slice(0, 8).join('')}…${all.slice(-6).join('')}` : id
}
