// The field of a model: a name, with those that the agent lists on offer.

import { html, useEffect, useRef, useState, withValue } from "../components/ui.js";
import { modelsOf } from "../state/models.js";
import { oneLine } from "../text/format.js";

/** @typedef {import("../state/models.js").Model} Model */

/**
 * The models that an agent lists, and how to ask for them. They are those of the agent that is shown, also if another
 * one has answered since. `isHere`: the agent works on the machine that the page comes from; that of another is not asked.
 *
 * @param {string} agent
 * @param {boolean} isHere
 * @returns {[Model[], () => void]}
 */
export function useModels(agent, isHere) {
  const [found, setFound] = useState(/** @type {Model[]} */ ([]));
  const shown = useRef("");
  const key = isHere ? agent : "";
  useEffect(() => {
    shown.current = key;
    setFound([]);
    return () => {
      shown.current = "";
    };
  }, [key]);
  const load = async () => {
    if (!key) return;
    const models = await modelsOf(key);
    if (shown.current === key) setFound(models);
  };
  return [found, load];
}

/**
 * @param {{ id: string, models: Model[], value: string, placeholder: string, onChange: (value: string) => void,
 *   onFocus: () => void }} props  `id`: that of the list, which no other on the page has.
 */
export function ModelField({ id, models, value, placeholder, onChange, onFocus }) {
  return html`<input
      value=${value}
      list=${id}
      placeholder=${placeholder}
      spellcheck=${false}
      autocapitalize="off"
      autocomplete="off"
      onFocus=${onFocus}
      onInput=${withValue(onChange)}
    />
    <datalist id=${id}>
      ${models.map((it) => html`<option key=${it.name} value=${oneLine(it.name)}></option>`)}
    </datalist>`;
}
