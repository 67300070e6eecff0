// What preact-hooks.js has, as far as the console uses it.

export function useState<T>(first: T | (() => T)): [T, (next: T | ((old: T) => T)) => void]
export function useEffect(run: () => void | (() => void), inputs?: unknown[]): void
export function useLayoutEffect(run: () => void | (() => void), inputs?: unknown[]): void
export function useMemo<T>(make: () => T, inputs: unknown[]): T
export function useCallback<T>(call: T, inputs: unknown[]): T
export function useRef<T>(first: T): { current: T }
export function useId(): string
