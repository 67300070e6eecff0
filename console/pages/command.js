// A form for each operation: filled in, tried, and only then sent.

import { html, useEffect, useMemo, useRef, useState } from '../lib/html.js'
import { call, filled, freshKey } from '../lib/api.js'
import { differences } from '../lib/differences.js'
import { blank, fieldsOf, operations, resolved } from '../lib/document.js'
import { ANSWERED, kindNamed, now, pathOf } from '../lib/kinds.js'
import { failedAgain, mayBeDone, problemOf, useLoad } from '../lib/load.js'
import { link, linkToResource } from '../lib/router.js'
import { actAs, actor, actors } from '../lib/session.js'
import { t, word } from '../lib/words.js'
import { Body } from '../components/body.js'
import { Differences } from '../components/differences.js'
import { Field } from '../components/form.js'
import { PageHead, Panel } from '../components/panel.js'
import { Problem, When } from '../components/states.js'

/** @typedef {import('../lib/document.js').Operation} Operation */

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
  const [key, setKey] = useState(freshKey)
  const [path, setPath] = useState(/** @type {Record<string, string>} */ ({}))
  const [body, setBody] = useState(() => (operation.body ? withKeys(key, blank(whole, operation.body) ?? {}) : null))
  const [tried, setTried] = useState(/** @type {any} */ (null))
  const [sent, setSent] = useState(/** @type {any} */ (null))
  const [problem, setProblem] = useState(/** @type {any} */ (null))
  const [isBusy, setBusy] = useState(false)
  const [isSending, setSending] = useState(false)
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
  // What came of it was told to the actor of then.
  useEffect(() => {
    setSent(null)
    setProblem(null)
  }, [actor.value?.subject])
  // What is tried after it was done is another one, under a key of its own: it is tried once that stands.
  const isDue = useRef(false)
  useEffect(() => {
    if (!isDue.current) return
    isDue.current = false
    act(true)
  }, [key])
  /** @param {boolean} dryRun */
  const act = async (dryRun) => {
    const turn = asked.current
    setBusy(true)
    setSending(!dryRun)
    setProblem(null)
    try {
      const answer = await ask(dryRun)
      if (dryRun) {
        const isReplay = answer.headers.get('idempotent-replayed') === 'true'
        const before = isReplay ? undefined : await stands(operation.id, answer.body)
        if (turn === asked.current) setTried({ answer, before, isReplay })
      } else {
        setSent(answer)
        setTried(null)
      }
    } catch (error) {
      const found = failedAgain(problem, problemOf(error))
      setProblem(found)
      // What may have been done is sent again as it was.
      if (!mayBeDone(found)) setTried(null)
    }
    setBusy(false)
    setSending(false)
  }
  const again = () => {
    const fresh = freshKey()
    setKey(fresh)
    setBody((/** @type {any} */ body) => withKeys(fresh, body))
    setSent(null)
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
  const isFixed = isSending || mayBeDone(problem)
  const fits = actors.value.find((one) => one.kind === operation.actor)
  return html`
    ${operation.description ? html`<p class="muted">${operation.description}</p>` : ''}
    ${fits && fits.subject !== actor.value?.subject ? html`<p class="notice">${t('commands.otherActor', { actor: word(operation.actor) })} <button type="button" onClick=${() => actAs(fits)}>${t('commands.actAs', { actor: word(operation.actor) })}</button></p>` : ''}
    <div class="columns two">
      <form class="panel command" onSubmit=${submit} novalidate>
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
          ${operation.canBeTried ? html`<button type="submit" class=${tried ? '' : 'primary'} disabled=${isBusy}>${t('commands.try')}</button>` : ''}
          <button type=${operation.canBeTried ? 'button' : 'submit'} class=${tried || !operation.canBeTried ? 'primary' : ''} disabled=${isBusy || Boolean(sent) || (operation.canBeTried && !tried)} onClick=${operation.canBeTried ? () => act(false) : undefined}>${t('commands.send')}</button>
          ${operation.canBeTried && !tried && !sent ? html`<span class="muted small">${t('commands.tryFirst')}</span>` : ''}
        </div>
      </form>
      <div class="results" aria-live="polite">
        ${problem ? html`<${Panel} title=${t(mayBeDone(problem) ? 'commands.unanswered' : 'commands.wouldBeRefused')}><${Problem} problem=${problem} />${mayBeDone(problem) ? html`<div class="actions"><button type="button" disabled=${isBusy} onClick=${() => { again(); setProblem(null) }}>${t('commands.anew')}</button></div>` : ''}<//>` : ''}
        ${tried ? html`<${Panel} title=${t('commands.would')} aside=${html`<span class="badge good">${tried.answer.status}</span>`}>
            ${tried.isReplay ? html`<p class="notice">${t('commands.wouldReplay')}</p>` : ''}
            ${tried.before ? html`<h3>${t('commands.wouldChange')}</h3><${Differences} changes=${differences(tried.before, tried.answer.body)} label=${t('commands.wouldChange')} />` : ''}
            ${tried.before === null ? html`<h3>${t('commands.wouldMake')}</h3>` : ''}
            <details open=${!tried.before}><summary>${t('commands.answer')}</summary>${tried.answer.body ? html`<${Body} value=${tried.answer.body} />` : ''}</details><//>` : ''}
        ${sent ? html`<${Panel} title=${t('commands.sent')} aside=${html`<span class="badge good">${sent.status}</span>`}>
            <p class="actions">${about(operation.id, sent.body)} <button type="button" onClick=${again}>${t('commands.anew')}</button></p>
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
