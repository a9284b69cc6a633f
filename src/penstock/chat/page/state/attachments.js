// Pictures and files of a message that is being written: uploaded to its chat at once, or kept until there is one.

import { useEffect, useRef, useState } from "preact/hooks";
import { api, messageOf, newKey } from "../net/api.js";
import { bytes } from "../text/format.js";
import { read, write } from "./storage.js";

const MAX_ATTACHMENTS = 10; // of one message, as the server has it
const LONG_LINES = 60; // a pasted text with more lines, or more characters, becomes a file
const LONG_CHARACTERS = 6000;

/**
 * @typedef {object} Item
 * @property {string} key
 * @property {string} name
 * @property {number} size
 * @property {File} [file]  What is to be uploaded.
 * @property {string} [preview]  The picture, while it is not at the server.
 * @property {string} [text]  What was pasted, and can be text again.
 * @property {Api.AttachedFile} [attached]  What the server has made of it.
 * @property {string} [why]  Why it cannot be sent.
 * @typedef {object} Drafted  The attachments of a draft.
 * @property {Item[]} items
 * @property {string} problem  Why some were not taken.
 * @property {boolean} isReady  All can be sent now.
 * @property {(files: File[], text?: string) => void} add
 * @property {(attached: Api.AttachedFile[]) => void} restore  Take those of a message that is written once more.
 * @property {(key: string) => void} remove
 * @property {(key: string) => void} retry
 * @property {(items: Item[]) => void} sent  Forget these: their message is on its way.
 */

/**
 * Whether a pasted text is so long that it is better read as a file.
 *
 * @param {string} text
 */
export function isLong(text) {
  return text.length > LONG_CHARACTERS || text.split("\n").length > LONG_LINES;
}

/**
 * The files that a message can still take, and why it does not take the others.
 *
 * @template {{ name: string, size: number }} F
 * @param {F[]} files
 * @param {number} taken  How many it has.
 * @param {number} maxBytes
 * @returns {[F[], string]}
 */
export function chosen(files, taken, maxBytes) {
  const large = files.filter((it) => it.size > maxBytes);
  const empty = files.filter((it) => !it.size);
  const fit = files.filter((it) => it.size && it.size <= maxBytes);
  const left = fit.slice(0, Math.max(0, MAX_ATTACHMENTS - taken));
  const problems = [
    large.length && `${large[0].name} has ${bytes(large[0].size)}: ${bytes(maxBytes)} is the most.`,
    empty.length && `${empty[0].name} is empty.`,
    left.length < fit.length && `A message has at most ${MAX_ATTACHMENTS} files.`,
  ];
  return [left, problems.filter(Boolean).join(" ")];
}

export const filesName = (/** @type {string} */ chat) => `penstock.files.${chat}`;

/**
 * Those of a draft that a reload keeps: what the server has.
 *
 * @param {string} chat
 * @returns {Item[]}
 */
function kept(chat) {
  const found = chat ? JSON.parse(read(filesName(chat)) || "[]") : [];
  return found.map((/** @type {Api.AttachedFile} */ attached) => itemOf(attached));
}

/** @param {Api.AttachedFile} attached @returns {Item} */
const itemOf = (attached) => ({ key: attached.id, name: attached.name, size: attached.size, attached });

/**
 * @param {string} chat  "" if it is not made yet: the files are uploaded once it is.
 * @param {number} maxBytes
 * @returns {Drafted}
 */
export function useAttachments(chat, maxBytes) {
  const [items, setItems] = useState(() => kept(chat));
  const [problem, setProblem] = useState("");
  const now = useRef(items); // an upload that ends changes what there is then
  const isHere = useRef(true);
  useEffect(
    () => () => {
      isHere.current = false;
    },
    [],
  );
  const change = (/** @type {Item[]} */ next) => {
    now.current = next;
    const ready = next.flatMap((it) => it.attached ?? []);
    if (chat) write(filesName(chat), ready.length ? JSON.stringify(ready) : "");
    if (isHere.current) setItems(next);
  };
  const update = (/** @type {string} */ key, /** @type {Partial<Item>} */ changes) =>
    change(now.current.map((it) => (it.key === key ? { ...it, ...changes } : it)));
  const upload = async (/** @type {Item} */ item) => {
    if (!chat || !item.file) return;
    update(item.key, { why: undefined });
    try {
      const attached = await api.attach(chat, item.name, item.file);
      if (now.current.some((it) => it.key === item.key)) update(item.key, { attached });
      else api.detach(chat, attached.id).catch(() => {}); // it was removed meanwhile
    } catch (error) {
      update(item.key, { why: messageOf(error) });
    }
  };
  return {
    items,
    problem,
    isReady: items.every((it) => !it.why && (it.attached || !chat)),
    add(files, text) {
      const [left, why] = chosen(files, now.current.length, maxBytes);
      setProblem(why);
      const made = left.map((file) => ({ key: newKey(), name: file.name || "file", size: file.size, file, text }));
      change([...now.current, ...made]);
      for (const item of made) {
        upload(item);
        if (item.file.type.startsWith("image/")) previewOf(item.file).then((preview) => update(item.key, { preview }));
      }
    },
    restore(attached) {
      const missing = attached.filter((it) => !now.current.some(({ key }) => key === it.id));
      change([...missing.map(itemOf), ...now.current].slice(0, MAX_ATTACHMENTS));
    },
    remove(key) {
      const item = now.current.find((it) => it.key === key);
      setProblem("");
      change(now.current.filter((it) => it.key !== key));
      if (chat && item?.attached) api.detach(chat, item.attached.id).catch(() => {}); // else the server does it later
    },
    retry(key) {
      const item = now.current.find((it) => it.key === key);
      if (item) upload(item);
    },
    sent(gone) {
      change(now.current.filter((it) => !gone.includes(it)));
      setProblem("");
    },
  };
}

/**
 * A picture as the address of its own data.
 *
 * @param {File} file
 * @returns {Promise<string>}
 */
function previewOf(file) {
  return new Promise((resolve) => {
    const reader = new FileReader();
    reader.onload = () => resolve(String(reader.result));
    reader.onerror = () => resolve("");
    reader.readAsDataURL(file);
  });
}
