// What signals.js has, as far as the console uses it.

export interface Signal<T> {
  value: T
  peek(): T
  subscribe(tell: (value: T) => void): () => void
}
export function signal<T>(first: T): Signal<T>
export function computed<T>(make: () => T): Signal<T>
export function effect(run: () => void | (() => void)): () => void
export function batch<T>(run: () => T): T
export function useSignal<T>(first: T): Signal<T>
export function useSignalEffect(run: () => void | (() => void)): void
