// What preact.js has, as far as the console uses it.

export const h: unknown
export function render(element: unknown, into: Element): void
export const Fragment: unknown
export function createContext<T>(value: T): { Provider: unknown }
