// What uplot.js has, as far as the console uses it.

export default class uPlot {
  constructor(options: object, data: unknown[], into: Element)
  setData(data: unknown[]): void
  setSize(size: { width: number; height: number }): void
  destroy(): void
}
