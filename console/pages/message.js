// One message to another system: where it stands and why; it is tried again, or given up with a reason.

import { html } from '../lib/html.js'
import { get } from '../lib/api.js'
import { linkToSubject } from '../lib/kinds.js'
import { useLoad } from '../lib/load.js'
import { t } from '../lib/words.js'
import { Act } from '../components/act.js'
import { Body } from '../components/body.js'
import { PageHead, Panel } from '../components/panel.js'
import { When } from '../components/states.js'
import { Id, Status } from '../components/values.js'
import { why } from './deliveries.js'

/** @param {{rest: string[]}} props */
export function Message({ rest }) {
  const number = rest[0] ?? ''
  const path = `/outbox/${encodeURIComponent(number)}`
  const message = useLoad((signal) => get(path, {}, signal), [path], (subject) => subject === `outbox/${number}`)
  const one = message.value
  const title = t('message.number', { n: number })
  const isOpen = one?.state === 'waiting' || one?.state === 'dead'
  const about = `${title}, ${one?.topic}`
  return html`
    <${PageHead} title=${title} lead=${one && html`<code>${one.topic}</code>`}>
      ${one ? html`<${Status} value=${one.state} />` : ''}
      ${one ? html`
        <${Act} isOffered=${isOpen} label=${t('message.retry')} about=${about} explains=${t('message.retryExplains')} method="POST" path=${`${path}/retries`} done=${() => { message.again() }} />
        <${Act} isOffered=${isOpen} label=${t('message.skip')} about=${about} explains=${t('message.skipExplains')} method="POST" path=${`${path}/skips`} asksReason=${true} isGrave=${true} done=${() => { message.again() }} />` : ''}
    <//>
    <${When} of=${message}>${(/** @type {any} */ one) => html`<${Panel} title=${t('message.about')}><p><${Id} id=${one.resource} href=${linkToSubject(one.resource)} whole=${true} /></p>
        ${isOpen ? html`<p class="notice">${why(one)}</p>` : ''}<${Body} value=${one} /><//>`}<//>`
}
