// What turns have cost, by day, agent, chat and person.

import { Choice, Dialog, html, Status, useEffect, useState, Wrong } from "../components/ui.js";
import { api, messageOf } from "../net/api.js";
import { areSeveral } from "../state/people.js";
import { chatPath, go } from "../state/router.js";
import { chatOf, closeDialog } from "../state/store.js";
import { figuresOf, HEADS, totalOf } from "../text/costs.js";
import { oneLine, plural } from "../text/format.js";

/** @typedef {Api.Costs["by"]} By */

const PERIODS = [1, 7, 30, 90, 365];
const BY_DEFAULT = 30;

export function Costs() {
  const [by, setBy] = useState(/** @type {By} */ ("day"));
  const [days, setDays] = useState(BY_DEFAULT);
  const [found, setFound] = useState(/** @type {Api.Costs | null} */ (null));
  const [error, setError] = useState("");
  useEffect(() => {
    let isOld = false;
    setError("");
    api.costs(by, days).then(
      (costs) => isOld || setFound(costs),
      (problem) => isOld || setError(messageOf(problem)),
    );
    return () => {
      isOld = true;
    };
  }, [by, days]);
  const groups = ["day", "agent", "chat", ...(areSeveral() ? ["person"] : [])];
  const periods = PERIODS.map((it) => ({ value: String(it), label: it === 1 ? "Today" : `Last ${it} days` }));
  const isNow = found?.by === by && found.days === days;
  return html`<${Dialog} title="Costs" name="costs" onClose=${closeDialog}>
    <div class="choices">
      <${Choice}
        label="One line for each"
        value=${by}
        options=${groups.map((it) => ({ value: it, label: `By ${it}` }))}
        onChange=${setBy}
      />
      <${Choice}
        label="Time"
        value=${String(days)}
        options=${periods}
        onChange=${(/** @type {string} */ value) => setDays(Number(value))}
      />
    </div>
    <${Wrong}>${error}<//>
    ${found && isNow ? html`<${Sums} costs=${found} />` : !error && html`<${Status} loading>Loading…<//>`}
    <p class="note">A cost is known if the agent reported it. Turns that are no longer kept are not counted.</p>
  <//>`;
}

/** @param {{ costs: Api.Costs }} props */
function Sums({ costs: { by, sums, complete } }) {
  if (!sums.length) return html`<p>No turn has ended in this time.</p>`;
  const row = (/** @type {Api.CostOfTurns} */ sum) =>
    html`<tr key=${sum.name}>
      <th scope="row"><${Name} by=${by} sum=${sum} /></th>
      ${cells(figuresOf(sum))}
    </tr>`;
  return html`<div class="costs" role="region" aria-label="Costs" tabindex="0">
      <table>
        <thead>
          <tr>
            <th scope="col">${by}</th>
            ${HEADS.map((head) => html`<th scope="col" key=${head}>${head}</th>`)}
          </tr>
        </thead>
        <tbody>
          ${sums.map(row)}
        </tbody>
        ${
          complete &&
          sums.length > 1 &&
          html`<tfoot>
            <tr>
              <th scope="row">total</th>
              ${cells(figuresOf(totalOf(sums)))}
            </tr>
          </tfoot>`
        }
      </table>
    </div>
    ${!complete && html`<p class="note">These are the first ${plural(sums.length, by)}; there are more.</p>`}`;
}

/** @param {string[]} figures */
const cells = (figures) => figures.map((figure, i) => html`<td key=${HEADS[i]}>${figure}</td>`);

/** @param {{ by: By, sum: Api.CostOfTurns }} props */
function Name({ by, sum: { name, title } }) {
  if (by !== "chat") return html`<bdi>${oneLine(name) || "unknown"}</bdi>`;
  const shown = oneLine(title ?? "") || `Chat ${name.slice(0, 8)}`;
  if (!chatOf(name)) return html`<bdi>${shown}</bdi>`;
  const open = (/** @type {Event} */ event) => {
    event.preventDefault();
    closeDialog();
    go(chatPath(name));
  };
  return html`<a href=${chatPath(name)} onClick=${open}><bdi>${shown}</bdi></a>`;
}
