// What a long list has to be, tried in a page that shows one: scrolled through from its first row to its
// last, nothing is missing and nothing is there twice, and few rows are elements at a time.

/**
 * Scrolls down to the end of the list, or through so many rows, looking at each.
 * @returns how many rows there were, how many of them twice or changed, how many elements at the most, how
 *     long each page took from being asked for to its rows, in milliseconds, and how high the list was drawn
 */
export function scrolledThrough(page, most = Number.MAX_SAFE_INTEGER) {
  return page.evaluate(async (most) => {
    const box = document.querySelector('.window')
    const frame = () => new Promise((done) => requestAnimationFrame(() => setTimeout(done)))
    const took = []
    const observer = new PerformanceObserver((list) => took.push(...list.getEntriesByName('carebook.page').map((one) => one.duration)))
    observer.observe({ type: 'measure' })
    const names = (window.names = [])
    const known = new Set()
    let [twice, elements, height, since] = [0, 0, 0, performance.now()]
    for (;;) {
      const rows = [...document.querySelectorAll('[data-row]')]
      elements = Math.max(elements, rows.length)
      height = Math.max(height, box.scrollHeight)
      const before = known.size
      for (const row of rows) {
        const [number, name] = [Number(row.dataset.row), row.querySelector('.id').title]
        if (names[number] === undefined && !known.has(name)) {
          names[number] = name
          known.add(name)
        } else if (names[number] !== name) twice += 1
      }
      if (known.size > before) since = performance.now()
      const count = Number(document.querySelector('.rows').getAttribute('aria-rowcount'))
      if ((count !== -1 && names.length >= count - 1) || names.length >= most) break
      if (performance.now() - since > 30_000) throw new Error(`nothing comes after row ${names.length - 1}`)
      box.scrollTop += box.clientHeight
      await frame()
    }
    await frame()
    observer.disconnect()
    const missing = names.length - Object.keys(names).length
    return { rows: names.length, missing, twice, elements, height, took }
  }, most)
}

/** Scrolls up again by so many rows: how many of them are other ones than before. */
export function scrolledBack(page, count) {
  return page.evaluate(async (count) => {
    const box = document.querySelector('.window')
    const frame = () => new Promise((done) => requestAnimationFrame(() => setTimeout(done)))
    const seen = new Set()
    const least = Math.max(0, window.names.length - count)
    let [others, since] = [0, performance.now()]
    for (;;) {
      const before = seen.size
      let top = Infinity
      for (const row of document.querySelectorAll('[data-row]')) {
        const number = Number(row.dataset.row)
        top = Math.min(top, number)
        if (number < window.names.length && window.names[number] !== row.querySelector('.id').title) others += 1
        seen.add(number)
      }
      if (seen.size > before) since = performance.now()
      if (top <= least) break
      if (performance.now() - since > 30_000) throw new Error(`nothing comes before row ${top}`)
      box.scrollTop -= box.clientHeight
      await frame()
    }
    return { seen: seen.size, others }
  }, count)
}
