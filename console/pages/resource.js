// One resource: how it stands, how it came to that, and how it stood at a time.

import { html, useEffect, useRef, useState } from '../lib/html.js'
import { get, Refused } from '../lib/api.js'
import { differences } from '../lib/differences.js'
import { time } from '../lib/format.js'
import { kindAt } from '../lib/kinds.js'
import { useLoad } from '../lib/load.js'
import { link, oneOf, refine } from '../lib/router.js'
import { t, word } from '../lib/words.js'
import { Body } from '../components/body.js'
import { Differences } from '../components/differences.js'
import { PageHead, Panel } from '../components/panel.js'
import { When } from '../components/states.js'
import { Timeline } from '../components/timeline.js'
import { Copy, Status } from '../components/values.js'
import { steps } from './branches.js'

const TABS = ['state', 'history', 'past']

/** @param {{rest: string[], query: URLSearchParams}} props */
export function ResourcePage({ rest, query }) {
  const subject = rest.map(encodeURIComponent).join('/')
  return html`<${Resource} key=${subject} rest=${rest} subject=${subject} query=${query} />`
}

/** Not every address is of a resource. @param {any} body */
function found(body) {
  if (body === null || typeof body !== 'object') throw new Refused({ status: 404, code: 'not_found', asked: 'read' })
  return body
}

/** A time as it was typed, in Seoul where no zone was. @param {string} given */
function typed(given) {
  const text = given.trim()
  // A browser takes the 30th of February for a day in March.
  const day = text.match(/^\d{4}-\d\d-\d\d/)?.[0]
  const isDay = day && new Date(`${day}T00:00:00Z`).toJSON()?.startsWith(day)
  if (!isDay) return null
  const at = new Date(/(Z|[+-]\d\d:?\d\d)$/.test(text) ? text : `${text.replace(' ', 'T')}+09:00`)
  return Number.isNaN(at.getTime()) ? null : at.toISOString()
}

/** A time of the address as it would be typed: to the second in Seoul, or whole where there is more to it. @param {string} at */
function asTyped(at) {
  const milliseconds = Date.parse(at)
  return Number.isNaN(milliseconds) || milliseconds % 1_000 ? at : time(at)
}

/** @param {{rest: string[], subject: string, query: URLSearchParams}} props */
function Resource({ rest, subject, query }) {
  const path = `/${subject}`
  const kind = kindAt(rest)
  // Of what is no kind of the API there is no history.
  const tabs = kind ? TABS : ['state']
  const tab = oneOf(query.get('tab'), tabs)
  const now = useLoad((signal) => get(path, {}, signal).then(found), [path], (told) => told === subject || told.startsWith('outbox/'))
  /** @param {KeyboardEvent} event */
  const move = (event) => {
    const by = event.key === 'ArrowRight' ? 1 : event.key === 'ArrowLeft' ? -1 : 0
    if (!by) return
    const next = tabs[(tabs.indexOf(tab) + by + tabs.length) % tabs.length]
    refine({ tab: next })
    requestAnimationFrame(() => document.getElementById(`tab-${next}`)?.focus())
  }
  const id = rest.slice(kind?.path.split('/').length ?? 1).join(' / ')
  return html`
    <${PageHead} title=${kind ? t(`kind.${kind.name}`) : t('resource.title')} lead=${html`<span class="id">${id}</span> <${Copy} text=${rest.slice(-1)[0] ?? ''} />`}>
      ${kind?.status && now.value ? html`<${Status} value=${now.value[kind.status]} />` : ''}
      ${kind && kind.ids[0] === 'reservationBookingId' ? html`<a class="button" href=${link(['reservations', rest[kind.path.split('/').length] ?? ''])}>${t('reservation.title')}</a>` : ''}
    <//>
    <div class="tabs" role="tablist" aria-label=${t('resource.views')} onKeyDown=${move}>
      ${tabs.map((one) => html`<button key=${one} id=${`tab-${one}`} type="button" role="tab" aria-selected=${tab === one} aria-controls="tab-panel" tabindex=${tab === one ? 0 : -1} onClick=${() => refine({ tab: one })}>${t(`resource.${one}`)}</button>`)}
    </div>
    <div id="tab-panel" role="tabpanel" aria-labelledby=${`tab-${tab}`} class="tab-panel" tabindex="0">
      ${tab === 'state' ? html`
        ${kind?.name === 'branch' && now.value ? html`<${Onboarding} branch=${now.value} />` : ''}
        <${When} of=${now}>${(/** @type {any} */ body) => html`<${Panel} title=${t('resource.state')}><${Body} value=${body} /><//>`}<//>` : ''}
      ${tab === 'history' ? html`<${Timeline} path=${path} subject=${subject} stoodAt=${(/** @type {number} */ revision) => refine({ tab: 'past', revision: String(revision), at: undefined })} />` : ''}
      ${tab === 'past' ? html`<${Past} path=${path} now=${now.value} query=${query} />` : ''}
    </div>`
}

/** How it stood at a time or a revision, and what is different now. @param {{path: string, now: any, query: URLSearchParams}} props */
function Past({ path, now, query }) {
  const input = useRef(/** @type {HTMLInputElement | null} */ (null))
  const [isWrong, setWrong] = useState(false)
  const [at, revision] = [query.get('at') ?? undefined, query.get('revision') ?? undefined]
  const then = useLoad((signal) => (at || revision ? get(path, { at, revision }, signal).then(found) : Promise.resolve(null)), [path, at, revision])
  useEffect(() => {
    if (input.current) input.current.value = at ? asTyped(at) : ''
  }, [at])
  /** @param {Event} event */
  const look = (event) => {
    event.preventDefault()
    const asked = typed(input.current?.value ?? '')
    setWrong(!asked)
    if (asked) refine({ at: asked, revision: undefined })
  }
  return html`<form class="filters" onSubmit=${look}>
      <label class="grow"><span>${t('past.at')}</span><input ref=${input} placeholder="2026-11-23 09:00" aria-invalid=${isWrong} aria-describedby="past-hint" required /></label>
      <button type="submit" class="primary">${t('past.show')}</button>
    </form>
    <p id="past-hint" class=${isWrong ? 'bad small' : 'muted small'} role=${isWrong ? 'alert' : undefined}>${t(isWrong ? 'past.wrong' : 'past.hint')}</p>
    ${at || revision ? html`<${When} of=${then}>${(/** @type {any} */ body) => body && html`
      <${Panel} title=${revision ? t('past.atRevision', { n: revision }) : t('past.atTime', { at: at ? time(at) : '' })}><${Body} value=${body} /><//>
      ${now ? html`<${Panel} title=${t('past.sinceThen')}><${Differences} changes=${differences(body, now)} label=${t('past.sinceThen')} /><//>` : ''}`}<//>` : ''}`
}

/** How far the onboarding of a branch is. @param {{branch: any}} props */
function Onboarding({ branch }) {
  return html`<${Panel} title=${t('branches.onboarding')}><ol class="steps">
    ${steps(branch).map((step) => html`<li key=${step.outboxMessageId} class=${step.status === 'completed' ? 'done' : 'open'}>
      <span>${word(step.kind)}<span class="muted small"> ${t(`branches.${step.part}`)}</span></span><${Status} value=${step.status} /><a href=${link(['messages', String(step.outboxMessageId)])}>${t('message.number', { n: step.outboxMessageId })}</a></li>`)}
    <li class=${branch.managerInvitationStatus === 'accepted' ? 'done' : 'open'}><span>${t('field.managerInvitationStatus')}</span><${Status} value=${branch.managerInvitationStatus} /></li>
  </ol><//>`
}
