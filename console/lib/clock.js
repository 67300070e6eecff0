// The service's time, as its answers tell it: a browser's own clock may be wrong. It goes on every few
// seconds while somebody looks, so that "3 minutes ago" does not stay so.

import { signal } from './html.js'

const EVERY = 10_000

/** By how much the service's clock is ahead of this one, in milliseconds. */
let ahead = 0

/** Now, as the service has it. */
export const now = signal(Date.now())

/** What an answer says of the time: a second, in which it was sent. @param {string | null} date */
export function heard(date) {
  const told = Date.parse(date ?? '')
  if (Number.isNaN(told)) return
  const by = told - Date.now()
  // Within a second or two they agree, as far as a header can tell.
  const next = Math.abs(by) < 2_000 ? 0 : by
  if (Math.abs(next - ahead) < 2_000) return
  ahead = next
  now.value = Date.now() + ahead
}

setInterval(() => {
  if (!document.hidden) now.value = Date.now() + ahead
}, EVERY)
