// The dialog that lands the work in the tree of a chat: what would happen, what stays behind, and the button.

import { Dialog, html, useAsync, useEffect, useState, withValue, Wrong } from "../components/ui.js";
import { api, ApiError } from "../net/api.js";
import { closeDialog } from "../state/store.js";
import { landedText, landingText } from "../text/landing.js";
import { oneLine, plural } from "../text/format.js";

/** @param {{ chat: Api.ChatView }} props */
export function LandChat({ chat }) {
  const [plan, setPlan] = useState(/** @type {Api.LandingPlan | null} */ (null));
  const [message, setMessage] = useState("");
  const [paths, setPaths] = useState(/** @type {string[]} */ ([]));
  const [said, setSaid] = useState("");
  const [isBusy, error, run] = useAsync();
  const look = () =>
    run(async () => {
      setPaths([]);
      const found = await api.landPlan(chat.id);
      setPlan(found);
      setMessage((text) => text || found.subject);
    });
  useEffect(() => {
    look();
  }, []);
  const land = (/** @type {Event} */ event) => {
    event.preventDefault();
    if (!plan) return;
    run(async () => {
      setPaths([]);
      try {
        setSaid(landedText(await api.land(chat.id, plan.seen, message.trim() || undefined)));
      } catch (problem) {
        if (problem instanceof ApiError) setPaths(problem.paths);
        throw problem;
      }
    });
  };
  if (said) {
    return html`<${Dialog} title="Land this chat" name="land" onClose=${closeDialog}>
      <p role="status">${said}</p>
      <footer class="dialog-buttons">
        <button type="button" class="button primary" autofocus onClick=${closeDialog}>Close</button>
      </footer>
    <//>`;
  }
  const canLand = plan?.way === "fast_forward" || plan?.way === "merge";
  return html`<${Dialog} title="Land this chat" name="land" onClose=${closeDialog}>
    <form onSubmit=${land}>
      ${!plan && !error && html`<p role="status">Looking at the files…</p>`}
      ${plan && html`<${Plan} plan=${plan} />`}
      ${
        canLand &&
        plan?.is_new &&
        html`<label class="row">
          <span>Commit</span>
          <input value=${message} maxlength="1000" dir="auto" onInput=${withValue(setMessage)} />
        </label>`
      }
      <${Wrong}>${error}<//>
      ${error && paths.length > 0 && html`<${Paths} label="Files in the way" paths=${paths} />`}
      <footer class="dialog-buttons">
        <button type="button" class="button" onClick=${closeDialog}>Leave it</button>
        ${
          canLand && !error
            ? html`<button type="submit" class="button primary" disabled=${isBusy}>Land</button>`
            : html`<button type="button" class="button" disabled=${isBusy} onClick=${look}>Look again</button>`
        }
      </footer>
    </form>
  <//>`;
}

/** @param {{ plan: Api.LandingPlan }} props */
function Plan({ plan }) {
  const { files, more = 0, left = [], paths = [], commits = [] } = plan;
  const earlier = plan.is_new ? commits.slice(1) : commits; // the first one is made by the landing
  return html`<p>${landingText(plan)}</p>
    ${
      plan.problem &&
      html`<p role="alert">
        It cannot land now: <bdi>${oneLine(plan.problem)}</bdi>.${plan.help && html` <bdi>${oneLine(plan.help)}</bdi>.`}
      </p>`
    }
    ${paths.length > 0 && html`<${Paths} label="Files in the way" paths=${paths} />`}
    ${
      earlier.length > 0 &&
      html`<p><b>Commits from before</b></p>
        <ul class="land-files">
          ${earlier.map((it) => html`<li><bdi>${oneLine(it)}</bdi></li>`)}
        </ul>`
    }
    ${
      files.length > 0 &&
      html`<ul class="land-files" aria-label="Changed files">
        ${files.map((it) => html`<li key=${it.path}><bdi>${oneLine(it.path)}</bdi> +${it.added} −${it.removed}</li>`)}
        ${more > 0 && html`<li>and ${plural(more, "more file")}</li>`}
      </ul>`
    }
    ${
      left.length > 0 &&
      html`<p><b>Not committed, and stays in the worktree</b></p>
        <ul class="land-files">
          ${left.map((it) => html`<li key=${it.path}><bdi>${oneLine(it.path)}</bdi>: ${oneLine(it.text)}</li>`)}
        </ul>`
    }`;
}

/** @param {{ label: string, paths: string[] }} props */
function Paths({ label, paths }) {
  return html`<ul class="land-files" aria-label=${label}>
    ${paths.map((it) => html`<li key=${it}><bdi>${oneLine(it)}</bdi></li>`)}
  </ul>`;
}
