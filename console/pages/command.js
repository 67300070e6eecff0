// A form for each operation: filled in, tried, and only then sent.

import { effect, html, signal, useEffect, useMemo, useRef, useState } from '../lib/html.js'
import { call, filled, freshKey } from '../lib/api.js'
import { differences } from '../lib/differences.js'
import { blank, fieldsOf, operations, resolved } from '../lib/document.js'
import { ANSWERED, kindNamed, now, pathOf } from '../lib/kinds.js'
import { failedAgain, mayBeDone, problemOf, useLoad } from '../lib/load.js'
import { link, linkToResource, stay } from '../lib/router.js'
import { actAs, actor, actors } from '../lib/session.js'
import { t, word } from '../lib/words.js'
import { Body } from '../components/body.js'
import { Differences } from '../components/differences.js'
import { Field } from '../components/form.js'
import { PageHead, Panel } from '../components/panel.js'
import { Problem, When } from '../components/states.js'

/** @typedef {import('../lib/document.js').Operation} Operation */

/**
 * What was sent, until its answer has been shown: it is there again, as it was, for who comes back to it.
 * @typedef {object} Sent
 * @property {string} key
 * @property {Record<string, string>} path
 * @property {any} body
 * @property {boolean} isSending
 * @property {import('../lib/api.js').Problem | null} problem
 * @property {import('../lib/api.js').Answer | null} answer
 */

/** By who has sent it, and the operation. In the memory of the page alone, as the token. */
const sents = signal(/** @type {Map<string, Sent>} */ (new Map()))

/** @param {string} id @param {Sent | null} sent */
function keep(id, sent) {
  const all = new Map(sents.value)
  if (sent) all.set(id, sent)
  else all.delete(id)
  sents.value = all
}

// A page that is loaded again has forgotten it.
effect(() => {
  if ([...sents.value.values()].some((one) => one.isSending || mayBeDone(one.problem))) return stay()
})

/** @param {{rest: string[]}} props */
export function Command({ rest }) {
  const document = useLoad(() => operations(), [])
  const operation = document.value?.operations.find((one) => one.id === rest[0])
  // What it is about stands there from the first moment on.
  const isOne = rest[0] && (operation || !document.value)
  return html`
    ${isOne ? html`<${PageHead} title=${word(rest[0])} lead=${operation && html`<code>${operation.method} ${operation.path}</code>`}><a class="button" href=${link(['commands'])}>${t('commands.all')}</a><//>`
      : html`<${PageHead} title=${t('commands.title')} lead=${t('commands.lead')} />`}
    <${When} of=${document}>${(/** @type {{operations: Operation[], whole: any}} */ found) => operation
      ? html`<${OneCommand} key=${operation.id} operation=${operation} whole=${found.whole} />`
      : html`<${AllCommands} operations=${found.operations} />`}<//>`
}

/** @param {{operations: Operation[]}} props */
function AllCommands({ operations }) {
  const tags = [...new Set(operations.map((one) => one.tag))]
  return html`${tags.map((tag) => html`<${Panel} key=${tag} title=${t(`tag.${tag}`)}><ul class="commands">
      ${operations.filter((one) => one.tag === tag).map((one) => html`<li key=${one.id}><a href=${link(['commands', one.id])}><span class="muted number">${one.number}</span> <strong>${word(one.id)}</strong> <code>${one.id}</code></a> <span class="muted small">${word(one.actor)}</span></li>`)}
    </ul><//>`)}`
}

/** @param {any} key of a body that has one of its own @param {any} body */
function withKeys(key, body) {
  return body && typeof body === 'object' && 'idempotencyKey' in body ? { ...body, idempotencyKey: key } : body
}

/** To the heading of a part of the page. @param {HTMLElement | null} part */
function focus(part) {
  const heading = part?.querySelector('h2')
  if (!heading) return
  heading.tabIndex = -1
  heading.focus({ preventScroll: true })
}

/** What the answer is about, as it stands, or null where it is not there yet. @param {string} id @param {any} answer */
async function stands(id, answer) {
  const kind = kindNamed(ANSWERED[id] ?? '')
  if (!kind || !answer || kind.ids.some((name) => answer[name] === undefined)) return undefined
  try {
    return await now(kind, answer)
  } catch {
    return undefined
  }
}

/** @param {{operation: Operation, whole: any}} props */
function OneCommand({ operation, whole }) {
  const id = `${actor.value?.subject} ${operation.id}`
  const kept = sents.value.get(id)
  const [key, setKey] = useState(() => kept?.key ?? freshKey())
  const [path, setPath] = useState(() => kept?.path ?? {})
  const empty = (/** @type {string} */ key) => (operation.body ? withKeys(key, blank(whole, operation.body) ?? {}) : null)
  const [body, setBody] = useState(() => (kept ? kept.body : empty(key)))
  const [tried, setTried] = useState(/** @type {any} */ (null))
  const [sent, setSent] = useState(/** @type {any} */ (null))
  const [problem, setProblem] = useState(/** @type {any} */ (null))
  const [isTrying, setTrying] = useState(false)
  const isSending = kept?.isSending ?? false
  const isBusy = isTrying || isSending
  const results = useRef(/** @type {HTMLDivElement | null} */ (null))
  const form = useRef(/** @type {HTMLFormElement | null} */ (null))
  const faults = useMemo(() => new Map((problem?.fieldErrors ?? []).map((/** @type {any} */ fault) => [fault.fieldPath.replace(/^body\./, ''), fault.code])), [problem])
  useEffect(() => {
    setTried(null)
  }, [body, path, key, actor.value])

  const fillIn = () => {
    const fresh = freshKey()
    setKey(fresh)
    setSent(null)
    setProblem(null)
    if (operation.body && operation.example) setBody(withKeys(fresh, operation.example))
    setPath(Object.fromEntries(operation.parameters.map((parameter) => [parameter.name, String(parameter.example ?? resolved(whole, parameter.schema ?? {}).example ?? '')])))
  }
  /** @param {boolean} dryRun */
  const ask = (dryRun) => {
    const query = Object.fromEntries(operation.parameters.filter((one) => one.in === 'query').map((one) => [one.name, path[one.name]]))
    return call(operation.method, filled(operation.path, path), {
      query: { ...query, dryRun: dryRun || undefined },
      body: operation.body ? body : undefined,
      // A dry run is judged as the command itself: without its key it would be refused.
      key: operation.hasKey ? key : undefined,
    })
  }
  // What an answer is to: one that comes after something was typed is to what stood there before.
  const asked = useRef(0)
  useEffect(() => {
    asked.current += 1
  }, [body, path, key, actor.value])
  // What came of it is told to who has sent it. Who acts next begins anew where it may have been done.
  const last = useRef(id)
  useEffect(() => {
    if (last.current === id) return
    const isLeft = sents.value.has(last.current)
    last.current = id
    setSent(null)
    setProblem(null)
    if (!kept && !isLeft) return
    const next = kept?.key ?? freshKey()
    setKey(next)
    setPath(kept?.path ?? {})
    setBody(kept ? kept.body : empty(next))
  }, [id])
  useEffect(() => {
    if (!kept || kept.isSending) return
    setSent(kept.answer)
    setProblem(kept.problem)
    // What may have been done is kept, to be sent again as it was.
    if (mayBeDone(kept.problem)) return
    setTried(null)
    keep(id, null)
  }, [kept])
  // Where the focus has nowhere to be, it goes to what came of it.
  useEffect(() => {
    if (!sent && !problem) return
    const at = document.activeElement
    if (at === document.body || at?.matches(':disabled')) focus(results.current)
  }, [sent, problem])
  // What is tried after it was done is another one, under a key of its own: it is tried once that stands.
  const isDue = useRef(false)
  useEffect(() => {
    if (!isDue.current) return
    isDue.current = false
    act(true)
  }, [key])
  /** @param {boolean} dryRun */
  const act = async (dryRun) => {
    if (isBusy || sents.value.get(id)?.isSending) return
    setProblem(null)
    if (!dryRun) return sendIt()
    const turn = asked.current
    setTrying(true)
    try {
      const answer = await ask(true)
      const isReplay = answer.headers.get('idempotent-replayed') === 'true'
      const before = isReplay ? undefined : await stands(operation.id, answer.body)
      if (turn === asked.current) setTried({ answer, before, isReplay })
    } catch (error) {
      if (turn === asked.current) {
        setProblem(problemOf(error))
        setTried(null)
      }
    }
    setTrying(false)
  }
  const sendIt = async () => {
    const it = { key, path, body, problem: null, answer: null }
    keep(id, { ...it, isSending: true })
    try {
      const answer = await ask(false)
      keep(id, { ...it, isSending: false, answer })
    } catch (error) {
      keep(id, { ...it, isSending: false, problem: failedAgain(problem, problemOf(error)) })
    }
  }
  const again = () => {
    const fresh = freshKey()
    keep(id, null)
    setKey(fresh)
    setBody((/** @type {any} */ body) => withKeys(fresh, body))
    setSent(null)
    setProblem(null)
  }
  const anew = () => {
    again()
    focus(form.current)
  }
  /** @param {Event} event */
  const submit = (event) => {
    event.preventDefault()
    if (sent && operation.canBeTried) {
      isDue.current = true
      again()
    } else act(operation.canBeTried)
  }
  // What is sent, or may have been done, stays as it is.
  const isUnknown = mayBeDone(problem)
  const isFixed = isSending || isUnknown
  const mayBeSent = !sent && (tried || isUnknown || !operation.canBeTried)
  const fits = actors.value.find((one) => one.kind === operation.actor)
  return html`
    ${operation.description ? html`<p class="muted">${operation.description}</p>` : ''}
    ${fits && fits.subject !== actor.value?.subject ? html`<p class="notice">${t('commands.otherActor', { actor: word(operation.actor) })} <button type="button" onClick=${() => actAs(fits)}>${t('commands.actAs', { actor: word(operation.actor) })}</button></p>` : ''}
    <div class="columns two">
      <form ref=${form} class="panel command" onSubmit=${submit} novalidate>
        <header class="panel-head"><h2>${t('commands.form')}</h2>${operation.example ? html`<button type="button" disabled=${isFixed} onClick=${fillIn}>${t('commands.example')}</button>` : ''}</header>
        <fieldset class="bare" disabled=${isFixed}>
        ${operation.parameters.map((parameter) => html`<${Field} key=${parameter.name} whole=${whole} schema=${parameter.schema ?? { type: 'string' }} value=${path[parameter.name]} name=${parameter.name} path=${`${parameter.in}.${parameter.name}`} faults=${faults}
          change=${(/** @type {any} */ value) => setPath({ ...path, [parameter.name]: value ?? '' })} />`)}
        ${operation.body?.properties ? fieldsOf(operation.body).map(([name, schema]) => html`<${Field} key=${name} whole=${whole} schema=${schema} value=${body?.[name]} name=${name} path=${name} faults=${faults}
          required=${operation.body?.required?.includes(name) ?? false}
          change=${(/** @type {any} */ value) => setBody((/** @type {any} */ old) => { const all = { ...old }; if (value === undefined) delete all[name]; else all[name] = value; return all })} />`) : ''}
        </fieldset>
        ${operation.hasKey ? html`<p class="muted small">Idempotency-Key <code>${key}</code></p>` : ''}
        <div class="actions sticky">
          ${operation.canBeTried ? html`<button type="submit" class=${tried || isUnknown ? '' : 'primary'} disabled=${isUnknown} aria-disabled=${isBusy}>${t('commands.try')}</button>` : ''}
          <button type=${operation.canBeTried ? 'button' : 'submit'} class=${tried || isUnknown || !operation.canBeTried ? 'primary' : ''} disabled=${!mayBeSent && !isSending} aria-disabled=${isBusy} onClick=${operation.canBeTried ? () => act(false) : undefined}>${t('commands.send')}</button>
          ${operation.canBeTried && !tried && !sent && !isFixed ? html`<span class="muted small">${t('commands.tryFirst')}</span>` : ''}
        </div>
      </form>
      <div ref=${results} class="results" aria-live="polite">
        ${problem ? html`<${Panel} title=${t(mayBeDone(problem) ? 'commands.unanswered' : 'commands.wouldBeRefused')}><${Problem} problem=${problem} />${mayBeDone(problem) ? html`<div class="actions"><button type="button" onClick=${anew}>${t('commands.anew')}</button></div>` : ''}<//>` : ''}
        ${tried ? html`<${Panel} title=${t('commands.would')} aside=${html`<span class="badge good">${tried.answer.status}</span>`}>
            ${tried.isReplay ? html`<p class="notice">${t('commands.wouldReplay')}</p>` : ''}
            ${tried.before ? html`<h3>${t('commands.wouldChange')}</h3><${Differences} changes=${differences(tried.before, tried.answer.body)} label=${t('commands.wouldChange')} />` : ''}
            ${tried.before === null ? html`<h3>${t('commands.wouldMake')}</h3>` : ''}
            <details open=${!tried.before}><summary>${t('commands.answer')}</summary>${tried.answer.body ? html`<${Body} value=${tried.answer.body} />` : ''}</details><//>` : ''}
        ${sent ? html`<${Panel} title=${t('commands.sent')} aside=${html`<span class="badge good">${sent.status}</span>`}>
            <p class="actions">${about(operation.id, sent.body)} <button type="button" onClick=${anew}>${t('commands.anew')}</button></p>
            ${sent.body ? html`<${Body} value=${sent.body} />` : ''}<//>` : ''}
        ${!problem && !tried && !sent ? html`<p class="state">${t('commands.nothingYet')}</p>` : ''}
      </div>
    </div>`
}

/** @param {string} id @param {any} answer */
function about(id, answer) {
  const kind = kindNamed(ANSWERED[id] ?? '')
  if (!kind || !answer || kind.ids.some((name) => answer[name] === undefined)) return ''
  return html`<a class="button primary" href=${linkToResource(pathOf(kind, answer))}>${t('commands.look')}</a>`
}
