// What the agent of a running turn does now: the quiet line, and, for who asks, the output of its commands and its plan.

import {
  Elapsed,
  html,
  Icon,
  Status,
  useAsync,
  useEffect,
  useLayoutEffect,
  useRef,
  useState,
  Wrong,
} from "../components/ui.js";
import { api } from "../net/api.js";
import { harmless, oneLine } from "../text/format.js";
import { lazy } from "./lazy.js";

const Plan = lazy(async () => (await import("../components/plan.js")).Plan, { isBeside: true });

const ASK_MS = 1000; // as often as one reads

/**
 * @param {{ chat: string, turn: import("../state/reducer.js").Turn, status: string | null, canLook: boolean }} props
 *   `status`: of the quiet line, if there is one now; `canLook`: there is more to be seen of it.
 */
export function Doing({ chat, turn, status, canLook }) {
  const [hasOutput, setHasOutput] = useState(false);
  const [hasPlan, setHasPlan] = useState(false);
  const { plan } = turn;
  const isLookedAt = canLook && Boolean((hasOutput && status) || (hasPlan && plan));
  const [activity, error] = useActivity(chat, turn.turn, isLookedAt);
  const line = html`<bdi>${oneLine(status)}</bdi><${Elapsed} since=${turn.began_at} />`;
  return html`${
    status &&
    html`<${Status}>
      ${canLook ? html`<${Opener} isOpen=${hasOutput} onChange=${setHasOutput}>${line}<//>` : line}
    <//>`
  }
  ${status && hasOutput && activity && html`<${Calls} calls=${activity.calls} />`}
  ${
    canLook &&
    plan?.all &&
    html`<div class="plan-now">
      <${Opener} isOpen=${hasPlan} onChange=${setHasPlan}>Plan: ${plan.done ?? 0} of ${plan.all}<//>
      ${hasPlan && activity && html`<${Plan} items=${activity.plan} />`}
    </div>`
  }
  ${isLookedAt && html`<${Wrong}>${error}<//>`}`;
}

/** @param {{ isOpen: boolean, onChange: (isOpen: boolean) => void, children?: import("preact").ComponentChildren }} props */
function Opener({ isOpen, onChange, children }) {
  return html`<button type="button" class="opener" aria-expanded=${isOpen} onClick=${() => onChange(!isOpen)}>
    ${children}<${Icon} name="chevron" />
  </button>`;
}

/**
 * What the agent does, asked for again and again while somebody looks; and why it cannot be told.
 *
 * @param {string} chat
 * @param {number} turn
 * @param {boolean} isOn
 * @returns {[Api.AgentActivity | null, string]}
 */
function useActivity(chat, turn, isOn) {
  const [activity, setActivity] = useState(/** @type {Api.AgentActivity | null} */ (null));
  const [, error, run] = useAsync();
  useEffect(() => {
    if (!isOn) return undefined;
    let isOver = false;
    /** @type {Timer} */
    let timer;
    const ask = async () => {
      const found = document.hidden ? undefined : await run(() => api.activity(chat, turn));
      if (isOver) return;
      if (found) setActivity(found);
      timer = setTimeout(ask, ASK_MS);
    };
    ask();
    return () => {
      isOver = true;
      clearTimeout(timer);
    };
  }, [isOn, chat, turn]);
  return [activity, error];
}

/** @param {{ calls: Api.RunningCall[] }} props */
function Calls({ calls }) {
  if (!calls.length) return html`<p class="side-note now">No command runs now.</p>`;
  return html`<div class="now">
    ${calls.map(
      (it, i) =>
        html`<section key=${i} aria-label="Command">
          <h3><bdi class="call-title">${oneLine(it.title) || oneLine(it.name)}</bdi><${Elapsed} since=${it.at} /></h3>
          ${it.output ? html`<${Output} text=${it.output} />` : html`<p class="side-note">No output yet.</p>`}
        </section>`,
    )}
  </div>`;
}

const NEAR_PX = 24; // so near its end it is read as it comes

/** @param {{ text: string }} props */
function Output({ text }) {
  const box = useRef(/** @type {HTMLElement | null} */ (null));
  const isAtEnd = useRef(true);
  useLayoutEffect(() => {
    if (box.current && isAtEnd.current) box.current.scrollTop = box.current.scrollHeight;
  }, [text]);
  const note = () => {
    const { scrollTop, clientHeight, scrollHeight } = /** @type {HTMLElement} */ (box.current);
    isAtEnd.current = scrollTop + clientHeight > scrollHeight - NEAR_PX;
  };
  return html`<pre ref=${box} tabindex="0" role="group" aria-label="Output" onScroll=${note}><code>${harmless(text)}</code></pre>`;
}
