// Which members say something about a person: masked until somebody asks for them. The names are
// those that carebook itself declares as personal; a test compares.

import { signal } from './html.js'

export const PERSONAL = new Set([
  'accountHolder', 'accountNumberDisplay', 'acknowledgementNote', 'address', 'addressLine', 'bankName', 'birthDate',
  'businessIdentity', 'businessRegistrationReference', 'components', 'contact', 'contactEmail', 'description', 'detailAddress', 'displayName',
  'email', 'externalRecipientCode', 'fileName', 'fullName', 'gatewayMessage', 'headOfficePrivateMemo', 'legalName', 'level1', 'level2',
  'level3', 'maskedAccountReference', 'memo', 'message', 'messageToBranch', 'metadata', 'normalizedValue', 'phoneNumber', 'postalCode', 'primaryPhoneNumber',
  'providerContext', 'providerMessage', 'reason', 'registrationIdentityReference', 'registrationNumber', 'resultMessage',
  'reviewedFacts', 'roadAddress', 'searched', 'searchKey', 'searchKeys', 'serviceAddressLevel1', 'serviceAddressLevel2', 'serviceAddressLevel3',
  'storageObjectKey',
])

/** Whether personal values are shown. */
export const areShown = signal(false)

/** Whether text looks like a contact or a number of a person. @param {string} text */
const looksPersonal = (text) => /@.+\.|^\+?\d[\d -]{8,}\d$/.test(text) && !/^\d{4}-\d\d-\d\d$/.test(text)

/** Whether the value at this path is personal. @param {string} path `a.b[2].c` @param {unknown} value */
export function isPersonal(path, value) {
  if (value === null || value === undefined || typeof value === 'boolean') return false
  if (path.split('.').some((name) => PERSONAL.has(name.replace(/\[\d+\]/g, '')))) return true
  return typeof value === 'string' && looksPersonal(value)
}
