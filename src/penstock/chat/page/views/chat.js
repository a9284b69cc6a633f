// A chat: its thread, and the field for the next message.

import { listenForCopies, listenForPlaces } from "../markdown/blocks.js";
import { KEEP, LATEST, placeOf, STEP, StickToEnd, TO_PLACE } from "../components/scroll.js";
import {
  Coded,
  composerField,
  html,
  Icon,
  isInThreadBeside,
  Menu,
  Status,
  useAsync,
  useEffect,
  useKeptFocus,
  useLayoutEffect,
  useRef,
  useState,
  withValue,
  Wrong,
} from "../components/ui.js";
import { api, messageOf, newKey } from "../net/api.js";
import { outbox } from "../net/outbox.js";
import { ChatSession } from "../state/chat-session.js";
import { changeChat, placeName } from "../state/actions.js";
import { giveAnswer, isShown } from "../state/answering.js";
import { readTabObject, write } from "../state/storage.js";
import { openFileOf } from "../state/beside.js";
import { sourceOf } from "../state/machines.js";
import {
  firstTurn,
  held,
  isTakenBack,
  openQuestion,
  partsOf,
  queue,
  running,
  waits,
  wholeOf,
} from "../state/reducer.js";
import { areSeveral, decidesAbout, isReader, otherPerson } from "../state/people.js";
import { chatPath } from "../state/router.js";
import { agentOf, attempt, chatOf, machineOf, openDialog, state, useThread } from "../state/store.js";
import { answerOf, optionOf } from "../text/answers.js";
import { answerPlaceholder, connectionText, EARLY_TEXT, FILES_FOR_BOTH } from "../text/copy.js";
import { base, day, oneLine } from "../text/format.js";
import { levelFor, levelOf } from "../text/permissions.js";
import { versionsOf } from "../text/versions.js";
import { Composer } from "./composer.js";
import { ContextLeft } from "./context.js";
import { lazy } from "./lazy.js";
import { Permission } from "./permission.js";
import { Missing } from "./status-pages.js";
import { loadQuestion, TurnView, Unsent } from "./turn.js";

const Both = lazy(async () => (await import("./side-by-side.js")).Both, { isBeside: true });
const HeldTurns = lazy(async () => (await import("./banners.js")).HeldTurns, { isBeside: true });
const OfferNotifications = lazy(async () => (await import("./banners.js")).OfferNotifications, { isBeside: true });
const Origin = lazy(async () => (await import("./origin.js")).Origin, { isBeside: true });

/** @import { Turn, Unsent as UnsentMessage } from "../state/reducer.js" */
/** @typedef {NonNullable<ReturnType<typeof openQuestion>>} OpenQuestion */

const NEAR_TURNS = 8; // the newest, whose layout is kept: one that is put off changes the height for a short time
/** @type {Turn[]} */
const NOBODY_WAITS = [];
/** @type {import("../text/versions.js").Version[]} */
const NO_VERSIONS = [];
const EARLIER_MARGIN = "400px 0px 0px"; // so far above what is seen, earlier turns are loaded

/** @type {Record<string, [string, string]>} */
export const GONE = {
  deleted: ["This chat was deleted", "What was said in it is gone."],
  missing: ["There is no such chat", "It was deleted, or the address is not quite right."],
};

/** @param {{ id: string, about: Api.About }} props */
export function ChatPage({ id, about }) {
  const session = useThread();
  const chat = chatOf(id);
  const gone = session && GONE[session.connection];
  if (gone) return html`<${Missing} title=${gone[0]} text=${gone[1]} />`;
  const title = oneLine(chat?.title) || "New chat";
  return html`<section class="chat" aria-label=${title}>
    <${Head} chat=${chat} title=${title} id=${id} />
    ${session instanceof ChatSession && html`<${Thread} session=${session} chat=${chat} about=${about} />`}
  </section>`;
}

/** @param {{ chat: Api.ChatView | undefined, title: string, id: string }} props */
function Head({ chat, title, id }) {
  const openHeartbeat = () => openDialog({ kind: "heartbeat", id });
  const decides = decidesAbout(chat);
  const settings = [
    { label: "Rename and settings", act: () => openDialog({ kind: "settings", id }) },
    { label: "Heartbeat", act: openHeartbeat },
  ];
  const items = [
    ...(isReader() ? [] : settings),
    ...(chat && decides ? placeItems(chat) : []),
    ...(chat && decides && areSeveral() ? [visibilityItem(chat)] : []),
    ...(isReader() ? [] : [{ label: "Open in a terminal", act: () => openDialog({ kind: "terminal", id }) }]),
    ...(chat?.tree && decides ? [{ label: "Land…", act: () => openDialog({ kind: "land", id }) }] : []),
    { label: "Save as a file", act: () => openDialog({ kind: "save", id }) },
    ...(decides ? [{ label: "Share a link", act: () => openDialog({ kind: "share", id }) }] : []),
    ...(decides ? [{ label: "Delete", danger: true, act: () => openDialog({ kind: "delete", id }) }] : []),
  ];
  const heartbeat = chat?.heartbeat?.on && `Heartbeat: every ${chat.heartbeat.minutes} minutes`;
  return html`<header class="head">
    <div class="head-text">
      ${chat && !isReader() ? html`<${Title} key=${id} id=${id} title=${title} />` : html`<h1><bdi>${title}</bdi></h1>`}
      ${chat && html`<${HeadFacts} chat=${chat} />`}
    </div>
    ${
      heartbeat &&
      html`<button
        type="button"
        class="quiet round"
        aria-label=${heartbeat}
        title=${heartbeat}
        onClick=${openHeartbeat}
      >
        <${Icon} name="pulse" />
      </button>`
    }
    ${chat && html`<${Menu} label="Chat menu" items=${items} />`}
  </header>`;
}

/**
 * A title that is changed where it stands: a click or F2, then Enter keeps it and Esc does not.
 *
 * @param {{ id: string, title: string }} props
 */
function Title({ id, title }) {
  const [text, setText] = useState(/** @type {string | null} */ (null));
  const [isBusy, error, run] = useAsync();
  const field = useRef(/** @type {HTMLInputElement | null} */ (null));
  const button = useRef(/** @type {HTMLButtonElement | null} */ (null));
  const isEdited = text !== null;
  const wasEdited = useRef(false);
  const isDecided = useRef(true); // a field that goes loses the focus, and is not saved for that
  useLayoutEffect(() => {
    isDecided.current = !isEdited;
    if (isEdited) field.current?.select();
    else if (wasEdited.current && document.activeElement === document.body) button.current?.focus();
    wasEdited.current = isEdited;
  }, [isEdited]);
  const save = async () => {
    if (isDecided.current) return;
    isDecided.current = true;
    const wanted = text?.trim();
    const isKept = await run(async () => {
      if (wanted && wanted !== title) await changeChat(id, { title: wanted });
      return true;
    });
    if (isKept) setText(null);
    else isDecided.current = false;
  };
  const cancel = () => {
    isDecided.current = true;
    setText(null);
  };
  const onKeyDown = (/** @type {KeyboardEvent} */ event) => {
    if (event.isComposing) return;
    if (event.key === "Enter") save();
    else if (event.key === "Escape") cancel();
    else return;
    event.preventDefault();
  };
  const rename = html`<button ref=${button} type="button" title="Rename" onClick=${() => setText(title)}>
    <bdi>${title}</bdi>
  </button>`;
  if (!isEdited) return html`<h1>${rename}</h1>`;
  return html`<h1>
      <input
        ref=${field}
        aria-label="Title"
        value=${text}
        maxlength="200"
        dir="auto"
        readonly=${isBusy}
        onInput=${withValue(setText)}
        onKeyDown=${onKeyDown}
        onBlur=${save}
      />
    </h1>
    <${Wrong}>${error}<//>`;
}

/**
 * Where the list has a chat: pinned, or out of it.
 *
 * @param {Api.ChatView} chat
 */
function placeItems({ id, pinned, archived }) {
  const change = (/** @type {Api.Changes} */ changes) => () => attempt(() => changeChat(id, changes));
  return [
    { label: pinned ? "Unpin" : "Pin", act: change({ pinned: !pinned }) },
    { label: archived ? "Unarchive" : "Archive", act: change({ archived: !archived }) },
  ];
}

/**
 * The choice of who sees a chat: only its person and the owners of the server, or the team.
 *
 * @param {Api.ChatView} chat
 */
function visibilityItem({ id, visibility }) {
  const isTeams = visibility === "team";
  const change = () => attempt(() => changeChat(id, { visibility: isTeams ? "private" : "team" }));
  return { label: isTeams ? "Make private" : "Share with the team", act: change };
}

/** @param {{ chat: Api.ChatView }} props */
function HeadFacts({ chat }) {
  const allow = levelOf(agentOf(chat.agent), chat.allow);
  const model = chat.model && html` · <bdi>${oneLine(chat.model)}</bdi>`;
  const { tree } = chat;
  const branch = tree && html` · branch <bdi>${oneLine(tree.branch)}</bdi>`;
  const directory = html` · <bdi title=${oneLine(chat.cwd)}>${base(sourceOf(chat))}</bdi>${branch}`;
  const machine = machineOf(chat);
  const home = machine && html` · on <bdi>${machine}</bdi>${chat.is_away && " (away)"}`;
  const level = allow && html` · <span data-level=${allow.kind}>${allow.label.toLowerCase()}</span>`;
  const other = otherPerson(chat.person);
  const seen = html`${other && html` · <bdi>${other}</bdi>`}${chat.visibility === "team" && " · team"}${chat.archived && " · archived"}`;
  return html`<p><bdi>${oneLine(chat.agent)}</bdi>${model}${directory}${home}${level}${seen}</p>`;
}

/**
 * `isBeside`: it is beside the open chat, whose composer is the only one.
 *
 * @param {{ session: ChatSession, chat: Api.ChatView | undefined, about: Api.About, isBeside?: boolean }} props
 */
export function Thread({ session, chat, about, isBeside = false }) {
  const { chat: thread } = session;
  const [isPinned, setPinned] = useState(true);
  const [given, setGiven] = useState(/** @type {import("./composer.js").Given | null} */ (null));
  const scroller = useRef(/** @type {HTMLElement | null} */ (null));
  const content = useRef(/** @type {HTMLElement | null} */ (null));
  const [pin, place] = useStickToEnd(session.id, scroller, content, setPinned, isBeside);
  useReturn(session, place, pin);
  useKeptFocus(scroller, isBeside);

  const runningTurn = running(thread);
  const question = openQuestion(thread);
  useEffect(() => {
    if (runningTurn) loadQuestion().catch(() => {}); // it may ask soon
  }, [runningTurn?.turn]);
  const other = chatOf(isBeside ? undefined : state.route.beside?.chat)?.id ?? "";
  const [isBothOn, setBothOn] = useState(false);
  useLayoutEffect(() => setBothOn(false), [other]);
  const isBoth = isBothOn && other !== "" && !question; // a text that answers a question is for the chat that asks
  const stop = () => runningTurn && outbox.stop(session.id, runningTurn.turn);
  const send = (/** @type {string} */ text, /** @type {Api.AttachedFile[]} */ files = []) => {
    pin();
    outbox.send(session.id, newKey(), text, undefined, files);
    return true;
  };
  const sendToBoth = (/** @type {string} */ text, /** @type {Api.AttachedFile[]} */ files = []) => {
    if (files.length) {
      setNote(FILES_FOR_BOTH);
      return false;
    }
    outbox.send(other, newKey(), text);
    return send(text);
  };
  const sendNow = (/** @type {string} */ text, /** @type {Api.AttachedFile[]} */ files) => {
    pin();
    outbox.send(session.id, newKey(), text, { stops: runningTurn?.turn }, files);
    return true;
  };
  const steer = (/** @type {string} */ text) => {
    pin();
    outbox.send(session.id, newKey(), text, { steers: runningTurn?.turn });
    return true;
  };
  const [note, setNote, accept] = useAnswer(session, question, isBoth ? sendToBoth : send);
  const edit = (/** @type {string} */ text, /** @type {Api.AttachedFile[]} */ files = []) => setGiven({ text, files });
  const takeBack = useTakeBack(session, edit);
  const agent = oneLine(chat?.agent) || "the agent";
  const heldTurns = held(thread);
  const isEmpty = thread.turns.every(isTakenBack) && !thread.unsent.length;
  const byComposer = isBeside ? {} : { onEdit: edit, onSend: send, onTakeBack: takeBack };

  return html`
    <div class="thread" ref=${scroller} tabindex="0" role="region" aria-label=${isBeside ? `Conversation with ${agent}` : "Conversation"} data-ready=${thread.known}>
      <div class="column" ref=${content}>
        ${thread.earlier && html`<${Earlier} session=${session} scroller=${scroller} />`}
        ${
          (chat?.origin || chat?.continues) &&
          !isBeside &&
          !thread.earlier &&
          thread.known &&
          html`<${Origin} key=${chat.id} chat=${chat} />`
        }
        ${!thread.known && !thread.unsent.length && html`<${Status} loading>Loading…<//>`}
        ${thread.known && isEmpty && html`<${Empty} agent=${agent} chat=${chat} />`}
        ${turnsOf(session, chat, { question, isBeside, onLate: setNote, ...byComposer })}
        ${thread.unsent.map((message) => unsentMessage(session, message, isBeside ? undefined : edit))}
      </div>
    </div>
    <div class="foot">
      ${!isPinned && html`<${Latest} onClick=${pin} />`}
      ${!isBeside && session.isLate && html`<${ConnectionLost} attempts=${session.attempts} reason=${session.reason} />`}
      ${!isBeside && !session.isLate && thread.unkept && html`<${Unkept} store=${thread.unkept} />`}
      ${!session.isLate && chat?.is_away && html`<${MachineAway} name=${machineOf(chat)} />`}
      ${runningTurn && runningTurn.turn === thread.stopping?.turn && html`<${StopWaits} stopping=${thread.stopping} />`}
      ${heldTurns.length > 0 && html`<${HeldTurns} id=${session.id} turns=${heldTurns} onTakeBack=${byComposer.onTakeBack} />`}
      ${!isBeside && runningTurn && html`<${OfferNotifications} key=${runningTurn.turn} since=${runningTurn.began_at} />`}
      ${
        isBeside
          ? html`${runningTurn && !isReader() && html`<button type="button" class="button" onClick=${stop}>Stop</button>`}<${Wrong}>${note}<//>`
          : isReader()
            ? html`<p class="banner reading">You can read this chat.</p>`
            : html`<${Composer}
        draft=${session.id}
        label=${`Message to ${agent}`}
        placeholder=${placeholder(question, agent, heldTurns.length)}
        maxBytes=${about.max_prompt_bytes}
        chat=${session.id}
        maxFileBytes=${about.max_attachment_bytes}
        onSend=${accept}
        onSendNow=${isBoth ? undefined : sendNow}
        onSteer=${runningTurn?.steerable && !isBoth ? steer : null}
        onStop=${runningTurn ? stop : null}
        text=${given}
      >
        <div class="chips">
          ${chat && html`<${Permission} chat=${chat} />`}
          ${other && html`<${Both} id=${other} isOn=${isBoth} isDisabled=${question !== null} onChange=${setBothOn} />`}
          <${ContextLeft} chat=${session.id} turns=${thread.turns} />
        </div>
        <${Wrong}>${note}<//>
      <//>`
      }
    </div>
  `;
}

/**
 * The turns, with a heading wherever a day begins.
 *
 * @param {ChatSession} session
 * @param {Api.ChatView | undefined} chat
 * @param {{ question: OpenQuestion | null, isBeside: boolean, onEdit?: (text: string, files?: Api.AttachedFile[]) => void,
 *   onSend?: (text: string) => boolean, onTakeBack?: (turn: Turn) => Promise<void>, onLate: (text: string) => void }} shared
 */
function turnsOf({ id, chat: thread }, chat, { question, isBeside, ...handlers }) {
  const turns = thread.turns.filter((turn) => !isTakenBack(turn) && wholeOf(turn) === undefined);
  const last = turns.length - 1;
  const agent = chat && agentOf(chat.agent);
  const away = chat?.is_away ? machineOf(chat) : "";
  const waiting = queue(thread).filter((it) => !thread.unsent.some(({ key }) => key === it.key));
  const runs = running(thread);
  const level = chat && last >= 0 ? levelFor(turns[last], chat.allow, agent) : undefined;
  return turns.flatMap((turn, i) => [
    beginsDay(turns, i) && html`<h2 class="day" key=${`day ${turn.turn}`}>${day(turn.asked_at ?? 0)}</h2>`,
    html`<${TurnView}
      key=${turn.turn}
      chat=${id}
      path=${chatPath(id)}
      turn=${turn}
      canLook=${true}
      waits=${waits(thread, turn)}
      queue=${turn.state === "queued" && !isReader() ? waiting : NOBODY_WAITS}
      stops=${turn.state === "queued" ? runs?.turn : undefined}
      steers=${turn.state === "queued" && Boolean(runs?.steerable)}
      parts=${partsOf(thread, turn)}
      versions=${isBeside ? NO_VERSIONS : versionsOf(state.chats, id, turn.turn)}
      away=${away}
      isUnkept=${thread.unkept !== null}
      isLast=${i === last}
      isFar=${i <= last - NEAR_TURNS}
      question=${question?.turn === turn ? question.question : null}
      level=${i === last ? level : undefined}
      resumes=${agent?.resumes ?? true}
      remembers=${Boolean(chat?.has_session && agent?.resumes)}
      ...${handlers}
    />`,
  ]);
}

/**
 * @param {ChatSession} session
 * @param {UnsentMessage} message
 * @param {(text: string, files?: Api.AttachedFile[]) => void} [edit]
 */
function unsentMessage({ id }, message, edit) {
  const retry = () => outbox.send(id, message.key, message.text, undefined, message.attachments);
  const takeBack =
    edit &&
    (() => {
      outbox.drop(message.key);
      edit(message.text, message.attachments);
    });
  return html`<${Unsent} key=${message.key} chat=${id} message=${message} onRetry=${retry} onEdit=${takeBack} />`;
}

/**
 * Load the turns before those that are shown until the one is there where one read; if it is gone, go to the end.
 *
 * @param {ChatSession} session
 * @param {import("../components/scroll.js").Place | null} place
 * @param {() => void} pin
 */
function useReturn(session, place, pin) {
  const { known, earlier, turns } = session.chat;
  const first = turns.length ? firstTurn(session.chat) : 0;
  useEffect(() => {
    if (!place || !known) return;
    if (earlier && first > place.turn) session.loadEarlier().catch(pin);
    else if (!turns.some((it) => it.turn === place.turn)) pin();
  }, [known, first, place]);
}

/**
 * Keep a thread at its end while it grows, or at the place where one read; returns how to go to the end, and that place.
 *
 * @param {string} id  Of what is read.
 * @param {{ current: HTMLElement | null }} scroller
 * @param {{ current: HTMLElement | null }} content
 * @param {(isPinned: boolean) => void} onChange
 * @param {boolean} [isBeside]  It is beside the open chat: only keys there are meant for it.
 * @returns {[() => void, import("../components/scroll.js").Place | null]}
 */
export function useStickToEnd(id, scroller, content, onChange, isBeside = false) {
  const name = placeName(id);
  const [place, setPlace] = useState(() => placeOf(readTabObject(name)));
  const stick = useRef(/** @type {StickToEnd | null} */ (null));
  const pin = () => stick.current?.pin();
  const keep = () => stick.current?.keep();
  const step = (/** @type {Event} */ event) => {
    const { detail } = /** @type {CustomEvent<-1 | 1>} */ (event);
    if (isInThreadBeside() === isBeside) stick.current?.step(detail);
  };
  const moveTo = (/** @type {Event} */ event) => {
    if (isBeside) return;
    const wanted = placeOf(/** @type {CustomEvent} */ (event).detail);
    if (wanted) stick.current?.goTo(wanted);
    setPlace(wanted);
  };
  useLayoutEffect(() => {
    if (!scroller.current || !content.current) return undefined;
    const made = new StickToEnd(scroller.current, content.current, onChange, {
      place,
      note: (here) => write(name, here ? JSON.stringify(here) : ""),
    });
    stick.current = made;
    listenForCopies(content.current);
    listenForPlaces(content.current, openFileOf(id));
    document.addEventListener(LATEST, pin);
    document.addEventListener(TO_PLACE, moveTo);
    document.addEventListener(STEP, step);
    document.addEventListener(KEEP, keep);
    return () => {
      document.removeEventListener(KEEP, keep);
      document.removeEventListener(STEP, step);
      document.removeEventListener(TO_PLACE, moveTo);
      document.removeEventListener(LATEST, pin);
      made.close();
    };
  }, []);
  return [pin, place];
}

/** @param {{ onClick: () => void }} props */
export function Latest({ onClick }) {
  return html`<button type="button" class="latest" onClick=${onClick}><${Icon} name="down" />Latest</button>`;
}

/**
 * Take turns back; their texts return to the composer once they are seen to be taken back, so that none is lost with an
 * answer of the server.
 *
 * @param {ChatSession} session
 * @param {(text: string, files: Api.AttachedFile[]) => void} edit
 */
function useTakeBack({ id, chat: { turns } }, edit) {
  const wanted = useRef(/** @type {Set<number>} */ (new Set()));
  useEffect(() => {
    const over = turns.filter((it) => wanted.current.has(it.turn) && it.state === "completed");
    for (const { turn } of over) wanted.current.delete(turn);
    const taken = over.filter(isTakenBack);
    const texts = taken.map((it) => it.prompt).filter(Boolean);
    if (taken.length)
      edit(
        texts.join("\n\n"),
        taken.flatMap((it) => it.attachments ?? []),
      );
  }, [turns]);
  return async (/** @type {Turn[]} */ ...taken) => {
    for (const { turn } of taken) wanted.current.add(turn);
    // The last one first: none of them begins meanwhile, and each text comes before those that are there already.
    for (const { turn } of taken.toReversed()) await api.takeBack(id, turn);
  };
}

/**
 * That a stop waits for the connection, or why the turn was not stopped.
 *
 * @param {{ stopping: import("../state/reducer.js").Stopping }} props
 */
function StopWaits({ stopping: { why } }) {
  if (why) return html`<p class="banner" role="alert">The turn was not stopped. <${Coded} text=${why} /></p>`;
  return html`<p class="banner" role="status">The turn is stopped once the server can be reached.</p>`;
}

/**
 * @param {OpenQuestion | null} question
 * @param {string} agent
 * @param {number} heldTurns
 */
function placeholder(question, agent, heldTurns) {
  if (!question) return heldTurns ? `Message ${agent} (it waits too)` : `Message ${agent}`;
  return isWaiting(question) ? answerPlaceholder(question.question) : "Answer, or say something else";
}

/** Whether the turn waits for the answer; else it ended with the question, and any message goes on. */
const isWaiting = (/** @type {OpenQuestion} */ { turn }) => turn.state !== "completed";

/**
 * What becomes of the composer's text while there is a question: a note on it, how to set the note, and the function
 * that accepts the text or does not.
 *
 * @param {ChatSession} session
 * @param {OpenQuestion | null} open
 * @param {(text: string, files?: Api.AttachedFile[]) => boolean} send
 * @returns {[string, (note: string) => void, (text: string, files?: Api.AttachedFile[]) => Promise<boolean> | boolean]}
 */
function useAnswer(session, open, send) {
  const [note, setNote] = useState("");
  const earlyFor = useRef(/** @type {string | null} */ (null));
  const isBusy = useRef(false);
  const question = open?.question;
  // What was being written when the question came was not meant for it.
  useLayoutEffect(() => {
    earlyFor.current = question && composerField()?.value.trim() ? question.id : null;
  }, [question?.id]);
  const answer = async (/** @type {Api.OpenQuestion} */ question, /** @type {string} */ text) => {
    const { answer, why = "" } = answerOf(question, text);
    setNote(why);
    if (answer === undefined || isBusy.current) return false;
    isBusy.current = true;
    try {
      return await giveAnswer(session.id, question, answer, setNote);
    } catch (error) {
      setNote(messageOf(error));
      return false;
    } finally {
      isBusy.current = false;
    }
  };
  const accept = (/** @type {string} */ text, /** @type {Api.AttachedFile[]} */ files = []) => {
    setNote("");
    const isMessage = files.length > 0 || !open || !question || (!isWaiting(open) && !optionOf(question, text));
    if (isMessage) return send(text, files);
    if (earlyFor.current !== question.id && isShown(question.id)) return answer(question, text);
    earlyFor.current = null;
    setNote(EARLY_TEXT);
    return false;
  };
  return [note, setNote, accept];
}

/** @param {{ attempts: number, reason: string }} props */
export function ConnectionLost({ attempts, reason }) {
  const text = connectionText({ host: location.hostname, online: navigator.onLine, attempts, reason: oneLine(reason) });
  return html`<p class="banner" role="status"><${Coded} text=${text} /> Nothing is lost meanwhile.</p>`;
}

/**
 * Nothing can be kept, so nothing more is shown: a turn at work is cut off.
 *
 * @param {{ store: Api.StoreChanged }} props
 */
function Unkept({ store }) {
  const { reason = "", help = "" } = store;
  return html`<p class="banner" role="alert">
    Nothing can be kept now: <bdi>${oneLine(reason)}</bdi>${help && html` (<bdi>${oneLine(help)}</bdi>)`}. What is shown
    is safe; an agent at work is stopped.
  </p>`;
}

/** @param {{ name: string }} props */
function MachineAway({ name }) {
  return html`<p class="banner" role="status">
    The machine <bdi>${name}</bdi> is away. You can read and write here; what you send waits until it is back.
  </p>`;
}

/**
 * Whether a day begins with this turn. A thread that begins today needs no heading for it.
 *
 * @param {Turn[]} turns
 * @param {number} i
 */
export function beginsDay(turns, i) {
  const before = i ? day(turns[i - 1].asked_at ?? 0) : "Today";
  return day(turns[i].asked_at ?? 0) !== before;
}

/** @param {{ agent: string, chat: Api.ChatView | undefined }} props */
function Empty({ agent, chat }) {
  const machine = machineOf(chat);
  const on = machine && html` on <bdi>${machine}</bdi>`;
  const where = chat && html`, which works in <bdi class="path">${oneLine(chat.cwd)}</bdi>${on}`;
  return html`<div class="empty">
    <h2>Nothing said yet</h2>
    <p>What you write goes to <bdi>${agent}</bdi>${where}.</p>
  </div>`;
}

/**
 * Loads the turns before: by itself once it comes into sight, or by its button.
 *
 * @param {{ session: ChatSession, scroller: { current: HTMLElement | null } }} props
 */
function Earlier({ session, scroller }) {
  const [isBusy, setBusy] = useState(false);
  const [error, setError] = useState("");
  const button = useRef(/** @type {HTMLElement | null} */ (null));
  const anchor = useRef(/** @type {{ first: Element | null | undefined, top: number } | null} */ (null));
  const firstTurn = () => scroller.current?.querySelector("[data-turn]");
  const load = async () => {
    if (anchor.current) return;
    setBusy(true);
    setError("");
    const first = firstTurn();
    anchor.current = { first, top: first?.getBoundingClientRect().top ?? 0 };
    try {
      await session.loadEarlier();
    } catch (problem) {
      anchor.current = null;
      setError(messageOf(problem));
    }
    setBusy(false);
  };
  // What was seen stays where it was, with or without the browser's own anchor.
  useLayoutEffect(() => {
    const held = anchor.current;
    if (!scroller.current || !held?.first || held.first === firstTurn()) return;
    anchor.current = null;
    scroller.current.scrollTop += held.first.getBoundingClientRect().top - held.top;
  });
  useEffect(() => {
    const options = { root: scroller.current, rootMargin: EARLIER_MARGIN };
    const observer = new IntersectionObserver(([entry]) => entry.isIntersecting && load(), options);
    if (button.current) observer.observe(button.current);
    return () => observer.disconnect();
  }, [session.chat.turns[0]?.turn]);
  return html`<p class="earlier">
    <button type="button" class="quiet" ref=${button} disabled=${isBusy} onClick=${load}>
      ${isBusy ? "Loading…" : "Earlier turns"}
    </button>
    ${error && html`<span class="wrong" role="alert">${error}</span>`}
  </p>`;
}
