// Lines over time. What the newest point says stands beside them in words.

import uPlot from '../vendor/uplot.js'
import { html, useEffect, useRef } from '../lib/html.js'

/** @typedef {{key: string, label: string, tone: 'one' | 'two'}} Line */

/** 1, 2, 5, 10, … from this power of ten on. @param {number} from */
const decimal = (from) => Array.from({ length: 36 }, (_, index) => [1, 2, 5][index % 3] * 10 ** (from + Math.floor(index / 3)))

/** What an axis of this unit goes by. */
export const STEPS = {
  /** Things: halves of them are not there. */
  counts: decimal(0),
  seconds: decimal(-5),
  /** 1, 2, 4, … KiB: of 1024, as they are shown. */
  bytes: Array.from({ length: 32 }, (_, index) => 1024 * 2 ** index),
}

/** @param {string} name */
const colour = (name) => getComputedStyle(document.documentElement).getPropertyValue(name).trim()

/** Whether there is no span of time yet: around a single point the axis would tell of days. @param {any} plot */
const isOneTime = (plot) => plot.data[0].length < 2

/**
 * @param {object} props
 * @param {string} props.title
 * @param {any[]} props.points
 * @param {Line[]} props.lines
 * @param {(value: number) => string} props.show
 * @param {number[]} props.steps by which the axis may go, in ascending order: each is shown as it is
 */
export function Chart({ title, points, lines, show, steps }) {
  const box = useRef(/** @type {HTMLDivElement | null} */ (null))
  const plot = useRef(/** @type {any} */ (null))
  const look = document.documentElement.dataset.look
  useEffect(() => {
    const element = box.current
    if (!element) return
    const text = colour('--muted')
    const axis = { stroke: text, font: '11px system-ui', grid: { stroke: colour('--line'), width: 1 }, ticks: { show: false } }
    const options = {
      width: element.clientWidth || 300,
      height: 110,
      padding: [6, 4, 0, 0],
      legend: { show: false },
      cursor: { y: false, drag: { setScale: false } },
      scales: { x: { time: true }, y: { range: (/** @type {any} */ _, /** @type {number} */ __, /** @type {number} */ high) => [0, Math.max(steps[0], (high ?? 0) * 1.15)] } },
      axes: [
        { ...axis, size: 22, space: 70, values: (/** @type {any} */ plot, /** @type {number[]} */ at) => at.map((one) => isOneTime(plot) ? '' : new Intl.DateTimeFormat('en-GB', { timeZone: 'Asia/Seoul', hour: '2-digit', minute: '2-digit', second: '2-digit' }).format(one * 1000)) },
        { ...axis, size: 58, space: 34, incrs: steps, values: (/** @type {any} */ _, /** @type {number[]} */ values) => values.map((value) => (value === 0 ? '0' : show(value))) },
      ],
      series: [{}, ...lines.map((line) => ({ label: line.label, stroke: colour(`--chart-${line.tone}`), width: 1.6, spanGaps: true, points: { show: false } }))],
    }
    plot.current = new uPlot(/** @type {any} */ (options), [[], ...lines.map(() => [])], element)
    const observer = new ResizeObserver(() => plot.current?.setSize({ width: element.clientWidth, height: 110 }))
    observer.observe(element)
    return () => {
      observer.disconnect()
      plot.current?.destroy()
      plot.current = null
    }
  }, [look])
  useEffect(() => {
    plot.current?.setData([points.map((point) => point.at), ...lines.map((line) => points.map((point) => point[line.key]))])
  }, [points, look])
  const last = points[points.length - 1]
  const says = lines.map((line) => ({ ...line, value: last && last[line.key] !== null ? show(last[line.key]) : '–' }))
  return html`<figure class="chart">
    <figcaption><span class="chart-title">${title}</span>
      <span class="chart-now">${says.map((line) => html`<span key=${line.key} class="now"><i class=${`swatch ${line.tone}`} aria-hidden="true"></i>${lines.length > 1 ? html`<span class="muted">${line.label}</span> ` : ''}<b>${line.value}</b></span>`)}</span>
    </figcaption>
    <div ref=${box} class="plot" aria-hidden="true"></div>
  </figure>`
}
