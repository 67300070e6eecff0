// The pages. A new one is a line here, a file beside this one, and its words in words/.

import { Branches } from './branches.js'
import { Command } from './command.js'
import { Deliveries } from './deliveries.js'
import { Find } from './find.js'
import { Message } from './message.js'
import { Overview } from './overview.js'
import { Reservations } from './reservations.js'
import { ResourcePage } from './resource.js'
import { Statements } from './statements.js'
import { Subscription } from './subscription.js'

/**
 * @typedef {object} Page
 * @property {string} path the first part of its address
 * @property {string} title the key of its words
 * @property {string} [list] what it lists: who may list that lands on it, where the overview is not for them
 * @property {string} [icon] that of its entry in the navigation; a page without one has none there
 * @property {(props: {rest: string[], query: URLSearchParams}) => any} show
 */

/** @type {Page[]} */
export const pages = [
  { path: '', title: 'overview.title', icon: 'overview', show: Overview },
  { path: 'statements', title: 'statements.title', list: '/settlement-statements', icon: 'statements', show: Statements },
  { path: 'branches', title: 'branches.title', list: '/admin/branches', icon: 'branches', show: Branches },
  { path: 'reservations', title: 'reservations.title', list: '/reservation-financial-lifecycles', icon: 'reservations', show: Reservations },
  { path: 'deliveries', title: 'deliveries.title', list: '/outbox', icon: 'deliveries', show: Deliveries },
  { path: 'commands', title: 'commands.title', icon: 'commands', show: Command },
  { path: 'find', title: 'find.title', show: Find },
  { path: 'resource', title: 'resource.title', show: ResourcePage },
  { path: 'messages', title: 'message.title', show: Message },
  { path: 'webhooks', title: 'subscription.title', show: Subscription },
]
