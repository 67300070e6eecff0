// What the browser keeps for this page, as the language. A browser may keep nothing: the page does without.

/** @param {string} name */
export function kept(name) {
  try {
    return localStorage.getItem(name)
  } catch {
    return null
  }
}

/** @param {string} name @param {string} value */
export function keep(name, value) {
  try {
    localStorage.setItem(name, value)
  } catch {
    // It holds until the page is loaded again.
  }
}
