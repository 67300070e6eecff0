// What every page and component is made with: elements, state, effects. The one place that names the
// vendor folder's Preact.

import htm from '../vendor/htm.js'
import { h } from '../vendor/preact.js'

export { render, Fragment, createContext } from '../vendor/preact.js'
export { useEffect, useLayoutEffect, useMemo, useRef, useState, useCallback, useId } from '../vendor/preact-hooks.js'
export { signal, computed, effect, batch, useSignal, useSignalEffect } from '../vendor/signals.js'

/** @type {(strings: TemplateStringsArray, ...values: any[]) => any} */
export const html = htm.bind(h)
