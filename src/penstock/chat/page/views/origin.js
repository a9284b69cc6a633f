// The first line of a chat that goes on with something else: where it comes from.

import { html, useEffect, useState } from "../components/ui.js";
import { api, statusOf } from "../net/api.js";
import { goToTurn } from "../state/actions.js";
import { chatPath } from "../state/router.js";
import { chatOf } from "../state/store.js";
import { dayAndClock, oneLine } from "../text/format.js";

const NOT_FOUND = 404;

/** @param {{ chat: Api.ChatView }} props */
export function Origin({ chat }) {
  const { continues } = chat;
  if (!continues) return html`<${OtherChat} chat=${chat} />`;
  const title = oneLine(continues.title);
  return html`<p class="origin">
    Continues a conversation in a terminal, last used ${dayAndClock(continues.at)}${title && html`: <bdi>${title}</bdi>`}.
    What was said there is not shown.
  </p>`;
}

/**
 * The other chat may be gone, or one that this person may not see: then there is no link to it.
 *
 * @param {{ chat: Api.ChatView }} props
 */
function OtherChat({ chat: { origin } }) {
  const [found, setFound] = useState(() => chatOf(origin?.chat));
  const [isGone, setGone] = useState(false);
  useEffect(() => {
    if (found || !origin) return;
    api.chat(origin.chat).then(setFound, (error) => setGone(statusOf(error) === NOT_FOUND));
  }, []);
  if (!origin) return null;
  const goes = origin.conversation ? "Goes on from" : "Begins as";
  const go = (/** @type {MouseEvent} */ event) => {
    if (event.ctrlKey || event.metaKey || event.shiftKey) return;
    event.preventDefault();
    goToTurn(origin.chat, origin.turn);
  };
  const place = `before message ${origin.turn}`;
  if (isGone) return html`<p class="origin">${goes} a chat that is gone, or not yours to see, ${place}.</p>`;
  if (!found) return html`<p class="origin">${goes} another chat, ${place}.</p>`;
  const title = oneLine(found.title) || "New chat";
  return html`<p class="origin">
    ${goes} <a href=${chatPath(found.id)} onClick=${go}><bdi>${title}</bdi></a>, ${place}.
  </p>`;
}
