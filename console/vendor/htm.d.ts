// What htm.js has, as far as the console uses it.

declare const htm: { bind(h: unknown): (strings: TemplateStringsArray, ...values: any[]) => any }
export default htm
