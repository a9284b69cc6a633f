// Sentences about the landing of the work of a chat.

import { oneLine, plural } from "./format.js";

/**
 * What a landing would do.
 *
 * @param {Api.LandingPlan} plan
 */
export function landingText({ way, branch, onto, files, more = 0 }) {
  const [from, to] = [oneLine(branch), oneLine(onto)];
  if (way === "nothing") return `${to} has all of this chat's work already.`;
  const changed = plural(files.length + more, "file");
  if (way === "merge")
    return `${changed} of ${from} will be merged into ${to}, which has gone on since. Nothing is pushed.`;
  if (way === "fast_forward") return `${changed} of ${from} will be added to ${to}. Nothing is pushed.`;
  return `${from} has ${changed} for ${to}.`;
}

/**
 * What a landing has done.
 *
 * @param {Api.LandedWork} landed
 */
export function landedText({ way, branch, commit }) {
  const to = oneLine(branch);
  if (way === "nothing") return `${to} had all of this chat's work already.`;
  return `${to} is at ${commit.slice(0, 10)} now. The chat can go on in its worktree.`;
}
