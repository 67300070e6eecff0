// The API document, as the service serves it: the forms of commands are made from it.

import { get } from './api.js'

/**
 * @typedef {object} Schema
 * @property {string | string[]} [type]
 * @property {string} [$ref]
 * @property {Record<string, Schema>} [properties]
 * @property {string[]} [required]
 * @property {Schema} [items]
 * @property {Schema[]} [anyOf]
 * @property {unknown[]} [enum]
 * @property {string} [format]
 * @property {string} [description]
 * @property {number} [minimum]
 * @property {number} [maximum]
 * @property {number} [maxLength]
 * @property {number} [minItems]
 * @property {boolean | Schema} [additionalProperties]
 * @property {unknown} [example]
 */

/**
 * @typedef {object} Operation
 * @property {string} id
 * @property {string} method
 * @property {string} path
 * @property {string} summary
 * @property {string} description
 * @property {string} tag
 * @property {number} number its place in the document
 * @property {string} actor whose token fits its example
 * @property {boolean} canBeTried whether it takes a dry run
 * @property {boolean} hasKey whether its key is in the header
 * @property {{name: string, in: string, example?: string, schema: Schema}[]} parameters
 * @property {Schema | null} body
 * @property {any} example
 */

/** @type {Promise<any> | null} */
let asked = null

/** @returns {Promise<any>} */
function document() {
  asked ??= get('/openapi.json').catch((error) => {
    asked = null
    throw error
  })
  return asked
}

/** @param {any} whole @param {any} schema @returns {Schema} */
export function resolved(whole, schema) {
  let found = schema
  while (found?.$ref) found = found.$ref.split('/').slice(1).reduce((/** @type {any} */ at, /** @type {string} */ name) => at?.[name], whole)
  return found ?? {}
}

/** @returns {Promise<{operations: Operation[], whole: any}>} */
export async function operations() {
  const whole = await document()
  /** @type {Operation[]} */
  const found = []
  for (const [path, methods] of Object.entries(whole.paths)) {
    for (const [method, one] of Object.entries(/** @type {Record<string, any>} */ (methods))) {
      if (one['x-carebook-number'] === undefined) continue
      const parameters = (one.parameters ?? []).map((/** @type {any} */ parameter) => resolved(whole, parameter))
      const content = one.requestBody?.content?.['application/json']
      found.push({
        id: one.operationId,
        method: method.toUpperCase(),
        path,
        summary: one.summary,
        description: one.description ?? '',
        tag: one.tags?.[0] ?? '',
        number: one['x-carebook-number'],
        actor: one['x-carebook-demo-actor'] ?? '',
        canBeTried: parameters.some((/** @type {any} */ parameter) => parameter.name === 'dryRun'),
        hasKey: parameters.some((/** @type {any} */ parameter) => parameter.name === 'Idempotency-Key'),
        parameters: parameters.filter((/** @type {any} */ parameter) => parameter.in === 'path' || (parameter.in === 'query' && parameter.name !== 'dryRun')),
        body: content ? resolved(whole, content.schema) : null,
        example: content?.example ?? null,
      })
    }
  }
  return { operations: found.sort((a, b) => a.number - b.number), whole }
}

/**
 * The fields of an object: those that are required in the order of their declaration, then the others.
 * @param {Schema} schema
 * @returns {[string, Schema][]}
 */
export function fieldsOf(schema) {
  const fields = schema.properties ?? {}
  const required = (schema.required ?? []).filter((name) => name in fields)
  const others = Object.keys(fields).filter((name) => !required.includes(name))
  return [...required, ...others].map((name) => [name, fields[name]])
}

/** What a value of this schema begins as: what is required, empty. @param {any} whole @param {Schema} schema @returns {any} */
export function blank(whole, schema) {
  const one = resolved(whole, schema)
  const types = typesOf(whole, one)
  if (one.enum && !isOptional(whole, one)) return one.enum.length === 1 ? one.enum[0] : undefined
  if (isOptional(whole, one)) return null
  if (types.includes('object') && one.properties) {
    const required = new Set(one.required ?? [])
    return Object.fromEntries(fieldsOf(one).filter(([name]) => required.has(name)).map(([name, member]) => [name, blank(whole, member)]))
  }
  if (types.includes('array')) return one.minItems ? [blank(whole, one.items ?? {})] : []
  return undefined
}

/** @param {any} whole @param {Schema} schema @returns {string[]} */
export function typesOf(whole, schema) {
  const one = resolved(whole, schema)
  if (one.anyOf) return one.anyOf.flatMap((branch) => typesOf(whole, branch))
  return Array.isArray(one.type) ? one.type : one.type ? [one.type] : []
}

/** Whether null is a value of it. @param {any} whole @param {Schema} schema */
export const isOptional = (whole, schema) => typesOf(whole, schema).includes('null')

/** The schema of a value that is there. @param {any} whole @param {Schema} schema @returns {Schema} */
export function present(whole, schema) {
  const one = resolved(whole, schema)
  if (!one.anyOf) return one
  const branch = one.anyOf.find((branch) => !typesOf(whole, branch).includes('null'))
  return { description: one.description, ...resolved(whole, branch) }
}
