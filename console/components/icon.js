// Small line drawings, decorative: what they stand for is said beside them.

import { html } from '../lib/html.js'

/** @type {Record<string, string>} */
const shapes = {
  overview: 'M3 12h4l2.5-7 5 14 2.5-7h4',
  statements: 'M6 3h9l4 4v14H6zM9 11h7M9 15h7',
  branches: 'M4 21V8l8-5 8 5v13M9 21v-6h6v6',
  reservations: 'M4 6h16v15H4zM4 10h16M8 3v5M16 3v5',
  deliveries: 'M3 6h18v12H3zM3 7l9 7 9-7',
  commands: 'M4 5l6 7-6 7M12 19h8',
  search: 'M11 4a7 7 0 1 0 0 14 7 7 0 0 0 0-14zM16 16l5 5',
  sun: 'M12 7a5 5 0 1 0 0 10 5 5 0 0 0 0-10zM12 1v3M12 20v3M1 12h3M20 12h3M4.5 4.5l2 2M17.5 17.5l2 2M4.5 19.5l2-2M17.5 6.5l2-2',
  moon: 'M20 14.5A8.5 8.5 0 0 1 9.5 4 8.5 8.5 0 1 0 20 14.5z',
  eye: 'M2 12s3.6-7 10-7 10 7 10 7-3.6 7-10 7S2 12 2 12zM12 9a3 3 0 1 0 0 6 3 3 0 0 0 0-6z',
  hidden: 'M3 3l18 18M10 5.2A9.6 9.6 0 0 1 12 5c6.400 0 10 7 10 7a17 17 0 0 1-3 3.700M6.500 6.700C3.600 8.600 2 12 2 12s3.600 7 10 7a9.500 9.500 0 0 0 4.300-1',
  copy: 'M9 9h11v11H9zM5 15H4V4h11v1',
  right: 'M9 5l7 7-7 7',
  leave: 'M10 4H5v16h5M14 8l5 4-5 4M19 12H9',
}

/** @param {{name: string}} props */
export function Icon({ name }) {
  return html`<svg class="icon" viewBox="0 0 24 24" width="18" height="18" aria-hidden="true" focusable="false">
    <path d=${shapes[name]} fill="none" stroke="currentColor" stroke-width="1.8" stroke-linecap="round" stroke-linejoin="round" />
  </svg>`
}
