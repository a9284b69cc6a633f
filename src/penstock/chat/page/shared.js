// The page of a share: one chat, for whoever has its link. It reads, it has no login, and it keeps nothing.

import { html, Mark, render, Status, Time, useEffect, useLayoutEffect, useRef, useState } from "./components/ui.js";
import { listenForCopies, listenForPlaces } from "./markdown/blocks.js";
import { ApiError, OFFLINE } from "./net/api.js";
import { fullTime, harmless, oneLine } from "./text/format.js";
import { entriesOf } from "./views/details.js";
import { Prompt, Reply } from "./views/turn.js";

const AGAIN_MS = 3000; // while a turn runs, what is new is asked for so often
const PAGE_TURNS = 50;

/**
 * The share's code is behind the `#`, which is never sent: it goes to the server in a header, without a cookie.
 *
 * @param {string} path
 * @param {AbortSignal} [signal]
 * @returns {Promise<any>}
 */
async function get(path, signal) {
  const headers = { "X-Penstock-Share": location.hash.slice(1) };
  let response;
  try {
    response = await fetch(path, { headers, signal, cache: "no-store", credentials: "omit" });
  } catch {
    throw new ApiError(OFFLINE, { detail: "The server cannot be reached." });
  }
  if (response.ok) return response.json();
  throw new ApiError(response.status, (await response.json().catch(() => null)) ?? undefined);
}

/** @type {(query: string, signal?: AbortSignal) => Promise<Api.SharedChat>} */
const load = (query, signal) => get(`/api/shared?limit=${PAGE_TURNS}${query}`, signal);

/**
 * The turns that were known, with those that are new or have changed.
 *
 * @param {Api.SharedTurn[]} known
 * @param {Api.SharedTurn[]} found
 */
function merged(known, found) {
  const turns = new Map([...known, ...found].map((turn) => [turn.turn, turn]));
  return [...turns.values()].sort((a, b) => a.turn - b.turn);
}

function SharedPage() {
  const [chat, setChat] = useState(/** @type {Api.SharedChat | null} */ (null));
  const [error, setError] = useState("");
  const root = useRef(/** @type {HTMLElement | null} */ (null));
  const isRunning = chat?.turns.some((turn) => turn.state === "running") ?? false;
  const fail = (/** @type {unknown} */ problem) => {
    if (problem instanceof ApiError && problem.status === OFFLINE && chat) return; // it is tried again
    setChat(null);
    setError(problem instanceof ApiError ? problem.message : String(problem));
  };
  useEffect(() => {
    load("").then(setChat, fail);
  }, []);
  useEffect(() => {
    if (!chat || !isRunning) return undefined;
    const stop = new AbortController();
    const first = chat.turns.find((turn) => turn.state === "running")?.turn ?? 1;
    const again = async () => {
      try {
        const found = await load(`&after=${first - 1}`, stop.signal);
        setChat({ ...found, turns: merged(chat.turns, found.turns), earlier: chat.earlier });
      } catch (problem) {
        if (stop.signal.aborted) return;
        fail(problem);
        setChat((now) => now && { ...now }); // the next attempt
      }
    };
    const timer = setTimeout(again, AGAIN_MS);
    return () => {
      clearTimeout(timer);
      stop.abort();
    };
  }, [chat, isRunning]);
  useEffect(() => {
    document.title = oneLine(chat?.title) || "A shared chat";
    if (!chat || !root.current) return;
    listenForCopies(root.current);
    listenForPlaces(root.current);
  }, [chat === null]);
  if (error) return html`<${Nothing} text=${error} />`;
  if (!chat) return html`<div class="alone"><${Status} loading>Loading…<//></div>`;
  const earlier = async () => {
    try {
      const found = await load(`&before=${Math.min(...chat.turns.map(({ turn }) => turn))}`);
      setChat((now) => now && { ...now, turns: merged(found.turns, now.turns), earlier: found.earlier });
    } catch (problem) {
      fail(problem);
    }
  };
  return html`<main class="column" id="main" ref=${root}>
    <header>
      <h1><bdi>${oneLine(chat.title) || "A shared chat"}</bdi></h1>
      <p>A chat with <bdi>${oneLine(chat.agent)}</bdi>, shared until ${fullTime(chat.expires_at)}.</p>
    </header>
    ${chat.earlier && html`<p class="more"><button type="button" class="button" onClick=${earlier}>Show earlier turns</button></p>`}
    ${chat.turns.map((turn) => html`<${SharedTurn} key=${turn.turn} turn=${turn} hasDetails=${chat.details} />`)}
    ${!chat.turns.length && html`<p class="more">There is nothing in this chat yet.</p>`}
  </main>`;
}

/** @param {{ text: string }} props */
function Nothing({ text }) {
  return html`<main class="alone" id="main">
    <${Mark} />
    <h1>There is nothing to show</h1>
    <p>${text}</p>
  </main>`;
}

/** @type {Record<string, string>} */
const OUTCOMES = {
  error: "The agent failed.",
  cancelled: "This turn was stopped.",
  timed_out: "This turn took too long.",
  cut_off: "This turn was cut off.",
  empty: "There was no reply.",
};

/** @param {{ turn: Api.SharedTurn, hasDetails: boolean }} props */
function SharedTurn({ turn, hasDetails }) {
  const isDone = turn.state === "completed";
  const outcome = isDone && OUTCOMES[turn.outcome ?? ""];
  return html`<article class="turn" data-turn=${turn.turn} data-state=${turn.state} aria-label=${`Turn ${turn.turn}`}>
    ${
      turn.prompt !== "" &&
      html`<div class="asked" data-by=${turn.by}>
        <h2 class="offscreen">Prompt</h2>
        <div class="said"><${Time} at=${turn.asked_at} /><${Prompt} text=${turn.prompt} /></div>
      </div>`
    }
    <div class="answer" aria-busy=${!isDone}>
      ${turn.text && html`<${Reply} text=${turn.text} isGrowing=${!isDone} isCut=${isDone && turn.outcome !== "ok"} />`}
      ${!isDone && html`<${Status}>The agent works…<//>`}
      ${outcome && html`<p class="outcome" data-outcome=${turn.outcome}>${outcome}</p>`}
      ${hasDetails && html`<${Work} turn=${turn} />`}
    </div>
  </article>`;
}

/**
 * What the agent did in a turn, once somebody wants to see it.
 *
 * @param {{ turn: Api.SharedTurn }} props
 */
function Work({ turn }) {
  const [isOpen, setOpen] = useState(false);
  const [details, setDetails] = useState(/** @type {Api.SharedDetails | null} */ (null));
  const [error, setError] = useState("");
  useLayoutEffect(() => {
    if (!isOpen) return;
    get(`/api/shared/details?turn=${turn.turn}`).then(setDetails, (problem) => setError(String(problem.message)));
  }, [isOpen, turn.state]);
  const toggle = (/** @type {Event} */ event) => setOpen(/** @type {HTMLDetailsElement} */ (event.currentTarget).open);
  return html`<details class="work" onToggle=${toggle}>
    <summary>What the agent did</summary>
    ${isOpen && !details && !error && html`<${Status} loading>Loading…<//>`}
    ${error && html`<p class="outcome">${harmless(error)}</p>`}
    ${details && html`<ol class="items">${entriesOf(details.items)}</ol>`}
  </details>`;
}

// Another link that is opened in the same tab differs behind the `#` only: the page begins anew.
window.addEventListener("hashchange", () => location.reload());
render(html`<${SharedPage} />`, /** @type {HTMLElement} */ (document.getElementById("app")));
