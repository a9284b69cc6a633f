// What is done to the files of a turn whose changes are taken back, or made again, in words.

import { oneLine, plural } from "./format.js";

/** @type {Record<string, [string, string]>} What happens to a file: when changes are taken back, and made again. */
const WORDS = {
  restore: ["gets its text from before", "is changed again"],
  remove: ["is removed", "is removed again"],
  write: ["is written again", "is written again"],
  move: ["gets its old name", "gets its new name again"],
  nothing: ["is as before already", "is changed already"],
};

/** Whether something is done to a file. @param {Api.FileUndo} file */
export const isDone = ({ does }) => does !== "stay" && does !== "nothing";

/**
 * "is removed", "was changed since, and stays".
 *
 * @param {Api.FileUndo} file
 * @param {boolean} redo
 */
export function whatHappens({ does, text }, redo) {
  return does === "stay"
    ? `${oneLine(text) || "cannot be taken back"}, and stays`
    : (WORDS[does]?.[Number(redo)] ?? does);
}

/**
 * "2 files are as before this turn. a.py was changed since, and stays."
 *
 * @param {Api.FileUndo[]} files
 * @param {boolean} redo
 */
export function undoneText(files, redo) {
  const stays = files.filter(({ does }) => does === "stay");
  const [count, state] = [files.length - stays.length, redo ? "changed again" : "as before this turn"];
  const first = count ? `${plural(count, "file is", "files are")} ${state}.` : "No file was changed.";
  return [first, ...stays.map((it) => `${oneLine(it.path)} ${whatHappens(it, redo)}.`)].join(" ");
}
