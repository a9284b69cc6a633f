// The models that agents list, each asked for once it is wanted.

import { api } from "../net/api.js";

/** @typedef {Api.AgentModel} Model */

/** @type {Map<string, Promise<Model[]>>} */
const lists = new Map();

/**
 * The models that an agent of this machine lists; none if it cannot say. An empty list is asked for again.
 *
 * @param {string} agent
 */
export function modelsOf(agent) {
  let list = lists.get(agent);
  if (!list) {
    list = api.models(agent).catch(() => []);
    lists.set(agent, list);
    list.then((found) => found.length || lists.delete(agent));
  }
  return list;
}

/**
 * The levels of effort to offer with a model: its own if they are listed, else those of its agent.
 *
 * @param {Model[]} models
 * @param {string} name
 * @param {string[]} ofAgent
 */
export const effortsOf = (models, name, ofAgent) => models.find((it) => it.name === name.trim())?.efforts ?? ofAgent;

/**
 * What a field of effort says while it is empty.
 *
 * @param {Model[]} models
 * @param {string} name
 */
export function usualEffort(models, name) {
  const usual = models.find((it) => it.name === name.trim())?.default_effort;
  return usual ? `The model's own: ${usual}` : "The agent's own choice";
}
