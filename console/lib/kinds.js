// The kinds of resources: where one is read, where they are listed, and what of a body names one.

import { get } from './api.js'
import { linkToResource } from './router.js'
import { actor } from './session.js'

/**
 * @typedef {object} Kind
 * @property {string} name its words are `kind.NAME`
 * @property {string} path the path of the list, and of a read before the identifiers
 * @property {string[]} ids the members of the body that identify it, in the order of the path
 * @property {string[]} filters of its list
 * @property {string} [status] the member that says where it stands
 * @property {string} [at] the member that says since when it is there
 * @property {string[]} columns what a row of its list shows
 */

/** @type {Kind[]} */
export const KINDS = [
  { name: 'statement', path: 'settlement-statements', ids: ['statementId'], filters: ['branchProfileId', 'status'], status: 'status', at: 'createdAt', columns: ['statementCode', 'branchProfileId', 'settlementPeriodStart', 'settlementPeriodEnd'] },
  { name: 'dataRoomRequest', path: 'settlement-data-room-requests', ids: ['requestId'], filters: ['branchProfileId', 'status'], status: 'status', at: 'createdAt', columns: ['requestCode'] },
  { name: 'branch', path: 'admin/branches', ids: ['branchId'], filters: ['branchProfileId', 'status'], status: 'lifecycleStatus', columns: ['branchCode', 'managerInvitationStatus', 'outcomeStatus'] },
  { name: 'officeProfile', path: 'branch-office-profiles', ids: ['branchOfficeProfileId'], filters: ['branchProfileId'], at: 'effectiveAt', columns: ['revisionNumber', 'factGroup'] },
  { name: 'accountSnapshot', path: 'branch-settlement-account-statement-snapshots', ids: ['snapshotId'], filters: ['branchProfileId'], status: 'verificationState', at: 'snapshotForStatementAt', columns: ['branchOfficeProfileId', 'settlementStatementId'] },
  { name: 'roster', path: 'care-team-rosters', ids: ['reservationBookingId'], filters: ['branchProfileId', 'reservationBookingId', 'status', 'motherUserId'], status: 'status', columns: ['rosterDecisionId'] },
  { name: 'lifecycle', path: 'reservation-financial-lifecycles', ids: ['reservationBookingId'], filters: ['branchProfileId', 'reservationBookingId', 'status', 'motherUserId'], status: 'financialStage', columns: ['motherVisiblePayableKrw', 'caregiverPayoutKrw', 'branchSettlementKrw', 'hqSettlementKrw'] },
  { name: 'adjustment', path: 'reservation-payment-change-adjustments', ids: ['reservationBookingId'], filters: ['branchProfileId', 'reservationBookingId', 'status', 'paymentId', 'motherUserId'], status: 'adjustmentStatus', at: 'requestedAt', columns: ['paymentChangeAdjustmentId', 'motherPayableAdjustmentKrw'] },
  { name: 'preRegistration', path: 'reservation-payment-pre-registrations', ids: ['paymentId'], filters: ['branchProfileId', 'reservationBookingId', 'status', 'paymentId', 'motherUserId'], status: 'preRegistrationStatus', columns: ['paymentPurpose', 'amountKrw'] },
  { name: 'payout', path: 'caregiver-payout-receipt-states', ids: ['reservationBookingId', 'contractAssignmentKey', 'caregiverPayoutInstructionId'], filters: ['branchProfileId', 'reservationBookingId', 'status', 'motherUserId'], status: 'receiptState', at: 'occurredAt', columns: ['caregiverPayoutInstructionId'] },
  { name: 'adminOperation', path: 'billing-engine-payment-admin-operations', ids: ['billingAdminOperationAuditId'], filters: ['branchProfileId', 'reservationBookingId', 'status', 'paymentId', 'motherUserId'], status: 'operationStatus', at: 'recordedAt', columns: ['operationAction', 'paymentId'] },
  { name: 'delegation', path: 'family-payment-delegations', ids: ['paymentDelegationId'], filters: ['branchProfileId', 'reservationBookingId', 'motherUserId'], at: 'grantedAt', columns: ['payerMemberId', 'maximumAuthorizedAmountKrw'] },
  { name: 'careHistoryGrant', path: 'reservation-care-history-access-grants', ids: ['reservationCareHistoryAccessGrantId'], filters: ['branchProfileId', 'reservationBookingId', 'motherUserId'], at: 'grantedAt', columns: ['granteeMemberId'] },
]

/** @param {string[]} path of a resource @returns {Kind | undefined} */
export function kindAt(path) {
  const text = path.join('/')
  return KINDS.find((kind) => text === kind.path || text.startsWith(`${kind.path}/`))
}

/** What is no kind but can be read, and by whom. @type {Record<string, string>} */
const READ_BY = { organization: 'headquarters_administrator', 'reference-facts': 'system_workflow' }

/** The page of what an event or a message is about, where there is one. @param {string} subject @returns {string | undefined} */
export function linkToSubject(subject) {
  const path = subject.split('/')
  const isShown = kindAt(path) || path[0] === 'outbox' || path[0] === 'webhook-subscriptions' || (READ_BY[path[0]] ?? '') === actor.value?.kind
  return isShown ? linkToResource(subject) : undefined
}

/** The read path of a body of this kind. @param {Kind} kind @param {Record<string, any>} body */
export function pathOf(kind, body) {
  return [kind.path, ...kind.ids.map((id) => encodeURIComponent(String(body[id] ?? '')))].join('/')
}

/** The resource that an operation's answer is about: what can be read, and so compared. @type {Record<string, string>} */
export const ANSWERED = {
  request_deposit: 'statement',
  acknowledge_deposit: 'statement',
  open_data_room_request: 'dataRoomRequest',
  mark_artifact_ready: 'dataRoomRequest',
  create_branch: 'branch',
  assign_caregiver: 'roster',
  finalize_charge: 'lifecycle',
  grant_payment_authority: 'delegation',
  grant_care_history_access: 'careHistoryGrant',
  repair_payout_receipt: 'payout',
  acknowledge_payout_deposit: 'payout',
  snapshot_settlement_account: 'accountSnapshot',
  pre_register_payment: 'preRegistration',
  administer_gateway: 'adminOperation',
  update_branch_office_profile: 'officeProfile',
  capture_adjustment_payment: 'adjustment',
}

/** @param {string} name */
export const kindNamed = (name) => KINDS.find((kind) => kind.name === name)

/** What this body is of as it stands now, or null where it is not there. @param {Kind} kind @param {Record<string, any>} body @returns {Promise<any>} */
export async function now(kind, body) {
  const path = pathOf(kind, body)
  if (kind.ids.length > 1) {
    const page = await get(`/${kind.path}`, { [kind.ids[0]]: body[kind.ids[0]], limit: 200 })
    return page.items.find((/** @type {any} */ item) => pathOf(kind, item) === path) ?? null
  }
  const { found } = await get('/console/found', { id: body[kind.ids[0]] })
  const isThere = found.some((/** @type {any} */ one) => kindAt(one.path.split('/')) === kind && one.path.split('/').length === path.split('/').length)
  return isThere ? get(`/${path}`) : null
}
