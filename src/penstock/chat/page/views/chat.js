// A chat: its thread, and where the next message is written.

import { answerOf, optionOf } from "../answers.js";
import { api, newKey } from "../api.js";
import { asked, running, waits } from "../reducer.js";
import { outbox } from "../outbox.js";
import { Stick } from "../scroll.js";
import { agentOf, chatOf, openDialog, useThread } from "../state.js";
import { base, day, line } from "../text.js";
import { Coded, html, Icon, Menu, useEffect, useKeptFocus, useLayoutEffect, useRef, useState, Wrong } from "../ui.js";
import { listenForCopies } from "../markdown.js";
import { allowLabel, answerPlaceholder, cutWords, EARLY_TEXT } from "../words.js";
import { Composer } from "./composer.js";
import { giveAnswer } from "./hint.js";
import { Missing } from "./states.js";
import { TurnView, Unsent } from "./turn.js";

const NEAR_TURNS = 8; // the newest, whose layout is kept: one that is put off changes the height for a moment

const GONE = {
  deleted: ["This chat was deleted", "What was said in it is gone."],
  missing: ["There is no such chat", "It was deleted, or the address is not quite right."],
};

export function ChatPage({ app }) {
  const { route } = app;
  const viewing = useThread();
  const chat = chatOf(route.id);
  const gone = GONE[viewing?.line];
  if (gone) return html`<${Missing} title=${gone[0]} words=${gone[1]} />`;
  const title = line(chat?.title) || "New chat";
  return html`<section class="chat" aria-label=${title}>
    <${Head} chat=${chat} title=${title} id=${route.id} />
    ${viewing && html`<${Thread} viewing=${viewing} chat=${chat} app=${app} />`}
  </section>`;
}

function Head({ chat, title, id }) {
  const items = [
    { label: "Rename and settings", act: () => openDialog({ kind: "settings", id }) },
    { label: "Heartbeat", act: () => openDialog({ kind: "heartbeat", id }) },
    { label: "Delete", danger: true, act: () => openDialog({ kind: "delete", id }) },
  ];
  const allow = chat && allowLabel(chat.allow, agentOf(chat.agent));
  return html`<header class="head">
    <div class="head-text">
      <h1><bdi>${title}</bdi></h1>
      ${chat && html`<p><bdi>${line(chat.agent)}</bdi>${chat.model && html` · <bdi>${line(chat.model)}</bdi>`} · <bdi
          title=${line(chat.cwd)}>${base(chat.cwd)}</bdi>
        ${allow && html` · ${allow.toLowerCase()}`}</p>`}
    </div>
    ${chat?.heartbeat?.on && html`<button type="button" class="quiet round"
        aria-label=${`Heartbeat: every ${chat.heartbeat.minutes} minutes`}
      title=${`Heartbeat: every ${chat.heartbeat.minutes} minutes`}
          onClick=${() => openDialog({ kind: "heartbeat", id })}><${Icon} name="pulse" /></button>`}
    ${chat && html`<${Menu} label="Of this chat" items=${items} />`}
  </header>`;
}

function Thread({ viewing, chat, app }) {
  const { chat: thread } = viewing;
  const [pinned, setPinned] = useState(true);
  const [given, setGiven] = useState(null);
  const [scroller, content, stick] = [useRef(null), useRef(null), useRef(null)];
  useKeptFocus(scroller);

  useLayoutEffect(() => {
    stick.current = new Stick(scroller.current, content.current, setPinned);
    listenForCopies(content.current);
    const latest = () => stick.current.pin();
    document.addEventListener("penstock:latest", latest);
    return () => {
      document.removeEventListener("penstock:latest", latest);
      stick.current.close();
    };
  }, []);

  const now = running(thread);
  const question = asked(thread);
  const stop = () => api.stop(viewing.id, now?.turn).catch(() => {});
  const send = (text) => {
    stick.current.pin();
    outbox.send(viewing.id, newKey(), text);
    return true;
  };
  const [note, setNote, answer] = useAnswer(viewing, question, send);
  const write = (text) => setGiven({ text });
  const again = (it) => outbox.send(viewing.id, it.key, it.text);
  const edit = (it) => {
    outbox.drop(it.key);
    write(it.text);
  };
  const last = thread.turns.at(-1)?.turn;
  const agent = line(chat?.agent) || "the agent";
  const empty = thread.known && !thread.turns.length && !thread.unsent.length;

  return html`
    <div class="thread" ref=${scroller} tabindex="0" role="region" aria-label="Conversation" data-ready=${thread.known}>
      <div class="column" ref=${content}>
        ${thread.earlier && html`<${Earlier} viewing=${viewing} scroller=${scroller} />`}
        ${!thread.known && !thread.unsent.length && html`<p class="status loading"><span
            class="flow"></span>Loading…</p>`}
        ${empty && html`<${Empty} agent=${agent} chat=${chat} />`}
        ${thread.turns.flatMap((turn, place) => [
          begins(thread.turns, place) && html`<h2 class="day" key=${`day ${turn.turn}`}>${day(turn.asked_at)}</h2>`,
          html`<${TurnView} key=${turn.turn} chat=${viewing.id} turn=${turn} waits=${waits(thread, turn)}
            last=${turn.turn === last} far=${place < thread.turns.length - NEAR_TURNS}
            question=${question?.turn === turn ? question.hint : null} onEdit=${write} onSend=${send} onLate=${setNote} />`,
        ])}
        ${thread.unsent.map((it) => html`<${Unsent} key=${it.key} it=${it} onAgain=${again} onEdit=${edit} />`)}
      </div>
    </div>
    <div class="foot">
      ${!pinned && html`<button type="button" class="latest" onClick=${() => stick.current.pin()}><${Icon}
          name="down" />Latest</button>`}
      ${viewing.late && html`<${Cut} attempts=${viewing.attempts} />`}
      <${Composer} draft=${viewing.id} label=${`Message to ${agent}`}
          placeholder=${placeholder(question, agent)} maxBytes=${app.about.max_prompt_bytes} onSend=${answer}
          onStop=${now ? stop : null} text=${given}>
        <${Wrong}>${note}<//>
      <//>
    </div>`;
}

function placeholder(question, agent) {
  if (!question) return `Message ${agent}`;
  return isOpen(question) ? answerPlaceholder(question.hint) : "Answer, or say something else";
}

/** Whether the turn waits for the answer; else it ended with the question, and any message goes on. */
const isOpen = (question) => question.turn.state !== "completed";

/** What the composer's text does while a question is there: [a note on it, set the note, take the text]. */
function useAnswer(viewing, question, send) {
  const [note, setNote] = useState("");
  const [early, busy] = [useRef(null), useRef(false)];
  const hint = question?.hint;
  // What was being written when the question came was not meant for it.
  useLayoutEffect(() => {
    early.current = hint && document.querySelector(".composer textarea").value.trim() ? hint.id : null;
  }, [hint?.id]);
  const take = async (text) => {
    setNote("");
    const option = hint && optionOf(hint, text);
    if (!hint || (!isOpen(question) && !option)) return send(text);
    if (early.current === hint.id) {
      early.current = null;
      setNote(EARLY_TEXT);
      return false;
    }
    const { answer, why = "" } = answerOf(hint, text);
    setNote(why);
    if (why || busy.current) return false;
    busy.current = true;
    try {
      return await giveAnswer(viewing.id, hint, answer, setNote);
    } catch (error) {
      setNote(error.words ?? String(error));
      return false;
    } finally {
      busy.current = false;
    }
  };
  return [note, setNote, take];
}

function Cut({ attempts }) {
  const words = cutWords({ host: location.hostname, online: navigator.onLine, attempts });
  return html`<p class="banner" role="status"><${Coded} text=${words} /> Nothing is lost meanwhile.</p>`;
}

/** Whether a day begins with this turn. A thread that begins today needs no word of it. */
function begins(turns, place) {
  const before = place ? day(turns[place - 1].asked_at) : "Today";
  return day(turns[place].asked_at) !== before;
}

function Empty({ agent, chat }) {
  return html`<div class="empty"><h2>Nothing said yet</h2>
    <p>What you write goes to <bdi>${agent}</bdi>${chat && html`, which works in <bdi
        class="path">${line(chat.cwd)}</bdi>`}.</p></div>`;
}

/** The way to the turns before: by itself once it comes into sight, or by its button. */
function Earlier({ viewing, scroller }) {
  const [busy, setBusy] = useState(false);
  const [failed, setFailed] = useState("");
  const button = useRef(null);
  const anchor = useRef(null);
  const load = async () => {
    if (anchor.current) return;
    setBusy(true);
    setFailed("");
    const first = scroller.current.querySelector("[data-turn]");
    anchor.current = { first, top: first?.getBoundingClientRect().top };
    try {
      await viewing.earlier();
    } catch (error) {
      anchor.current = null;
      setFailed(error.words ?? String(error));
    }
    setBusy(false);
  };
  // What was seen stays where it was, with or without the browser's own anchor.
  useLayoutEffect(() => {
    const held = anchor.current;
    if (!held?.first || held.first === scroller.current.querySelector("[data-turn]")) return;
    anchor.current = null;
    scroller.current.scrollTop += held.first.getBoundingClientRect().top - held.top;
  });
  useEffect(() => {
    const options = { root: scroller.current, rootMargin: "400px 0px 0px" };
    const seen = new IntersectionObserver(([entry]) => entry.isIntersecting && load(), options);
    seen.observe(button.current);
    return () => seen.disconnect();
  }, [viewing.chat.turns[0]?.turn]);
  return html`<p class="earlier"><button type="button" class="quiet" ref=${button} disabled=${busy}
      onClick=${load}>${busy ? "Loading…" : "Earlier turns"}</button>
    ${failed && html`<span class="wrong" role="alert">${failed}</span>`}</p>`;
}
