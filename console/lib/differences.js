// How two bodies differ, by path, as a history of the API tells it.

/** @typedef {{path: string, before: unknown, after: unknown}} Change */

/** @param {unknown} value @param {string} path @param {Map<string, unknown>} into */
function flatten(value, path, into) {
  if (Array.isArray(value)) value.forEach((item, index) => flatten(item, `${path}[${index}]`, into))
  else if (value && typeof value === 'object') {
    for (const [name, member] of Object.entries(value)) flatten(member, path ? `${path}.${name}` : name, into)
  } else into.set(path, value ?? null)
}

/** @param {unknown} before @param {unknown} after @returns {Change[]} */
export function differences(before, after) {
  /** @type {[Map<string, unknown>, Map<string, unknown>]} */
  const [was, is] = [new Map(), new Map()]
  if (before != null) flatten(before, '', was)
  if (after != null) flatten(after, '', is)
  const paths = [...new Set([...is.keys(), ...was.keys()])]
  return paths
    .map((path) => ({ path, before: was.get(path) ?? null, after: is.get(path) ?? null }))
    .filter((change) => change.before !== change.after)
}
