// A document or a loop: what its agents did, as a thread that only shows.

import { Coded, Dialog, html, Menu, Status, useAsync, useRef, useState, withValue, Wrong } from "../components/ui.js";
import { api } from "../net/api.js";
import { ChatSession } from "../state/chat-session.js";
import { areSeveral, decidesAbout, isOwner, otherPerson } from "../state/people.js";
import { runPath } from "../state/router.js";
import { runOf, useThread } from "../state/store.js";
import { day, oneLine } from "../text/format.js";
import { beginsDay, ConnectionLost, Latest, useStickToEnd } from "./chat.js";
import { LoopThread } from "./loop.js";
import { Missing } from "./status-pages.js";
import { TurnView } from "./turn.js";

const READ_ONLY = "Read only. To ask something, write into the document and run `penstock doc`.";

/** @param {{ id: string }} props */
export function RunPage({ id }) {
  const session = useThread();
  const run = session?.chat.run ?? runOf(id);
  if (session?.connection === "missing") {
    const text = "It was removed, or the address is not quite right.";
    return html`<${Missing} title="There is no such document or loop" text=${text} />`;
  }
  const title = oneLine(run?.title);
  return html`<section class="chat run" aria-label=${title}>
    <header class="head">
      <div class="head-text">
        <h1><bdi>${title}</bdi></h1>
        ${run && html`<p><bdi>${oneLine(run.note)}</bdi> · <bdi title=${oneLine(run.path)}>${oneLine(run.path)}</bdi>${ownerOf(run)}</p>`}
      </div>
      ${run && areSeveral() && decidesAbout(run) && html`<${RunMenu} run=${run} />`}
    </header>
    ${session instanceof ChatSession && html`<${RunThread} session=${session} />`}
  </section>`;
}

/** Whose it is, if it is another person's, and whether the team sees it. @param {Api.RunView} run */
function ownerOf(run) {
  const other = otherPerson(run.person);
  return html`${other && html` · <bdi>${other}</bdi>`}${run.visibility === "team" && " · team"}`;
}

/**
 * The choices of who sees a document or loop, only its person and the owners of the server or the team, and of whose it is.
 *
 * @param {{ run: Api.RunView }} props
 */
function RunMenu({ run: { id, person, visibility } }) {
  const [, error, run] = useAsync();
  const [isGiven, setGiven] = useState(false);
  const isTeams = visibility === "team";
  const change = () => run(() => api.changeRun(id, { visibility: isTeams ? "private" : "team" }));
  const giving = { label: "Give to somebody else…", act: () => setGiven(true) };
  const items = [
    { label: isTeams ? "Make private" : "Share with the team", act: change },
    ...(isOwner() ? [giving] : []),
  ];
  return html`<${Menu} label="Menu" items=${items} /><${Wrong}>${error}<//>
    ${isGiven && html`<${Give} id=${id} person=${person} onClose=${() => setGiven(false)} />`}`;
}

/**
 * The dialog in which an owner gives a document or loop to another person.
 *
 * @param {{ id: string, person: string, onClose: () => void }} props
 */
function Give({ id, person, onClose }) {
  const [name, setName] = useState("");
  const [isBusy, error, run] = useAsync();
  const submit = async (/** @type {Event} */ event) => {
    event.preventDefault();
    const isDone = await run(async () => {
      await api.changeRun(id, { person: name.trim() });
      return true;
    });
    if (isDone) onClose();
  };
  return html`<${Dialog} title="Give to somebody else" name="give" onClose=${onClose}>
    <form onSubmit=${submit}>
      <label class="row">
        <span>Person</span>
        <input
          autofocus
          required
          value=${name}
          maxlength="64"
          spellcheck=${false}
          autocapitalize="off"
          onInput=${withValue(setName)}
        />
      </label>
      <p class="side-note">It belongs to <bdi>${oneLine(person)}</bdi> now, and then to a person of this name alone.</p>
      <${Wrong}>${error}<//>
      <footer class="dialog-buttons">
        <button type="button" class="button" onClick=${onClose}>Cancel</button>
        <button class="button primary" disabled=${isBusy}>Give</button>
      </footer>
    </form>
  <//>`;
}

/** @param {{ session: ChatSession }} props */
function RunThread({ session }) {
  const { run, loop } = session.chat;
  if (!run) return html`<${Status} loading>Loading…<//>`;
  return run.kind === "loop" && loop
    ? html`<${LoopThread} session=${session} run=${run} loop=${loop} />`
    : html`<${DocumentThread} session=${session} />`;
}

/** @param {{ session: ChatSession }} props */
function DocumentThread({ session }) {
  const { turns, known } = session.chat;
  const [isPinned, setPinned] = useState(true);
  const scroller = useRef(/** @type {HTMLElement | null} */ (null));
  const content = useRef(/** @type {HTMLElement | null} */ (null));
  const [pin] = useStickToEnd(session.id, scroller, content, setPinned);
  return html`
    <div class="thread" ref=${scroller} tabindex="0" role="region" aria-label="Answers" data-ready=${known}>
      <div class="column" ref=${content}>
        ${!known && html`<${Status} loading>Loading…<//>`}
        ${known && !turns.length && html`<div class="empty"><h2>No recording yet</h2></div>`}
        ${turns.flatMap((turn, i) => [
          beginsDay(turns, i) && html`<h2 class="day" key=${`day ${turn.turn}`}>${day(turn.asked_at ?? 0)}</h2>`,
          html`<${TurnView}
            key=${turn.turn}
            chat=${session.id}
            path=${runPath(session.id)}
            turn=${turn}
            waits=${false}
            isLast=${i === turns.length - 1}
            isFar=${false}
            question=${null}
            resumes=${true}
          />`,
        ])}
      </div>
    </div>
    <div class="foot">
      ${!isPinned && html`<${Latest} onClick=${pin} />`}
      ${session.isLate && html`<${ConnectionLost} attempts=${session.attempts} reason=${session.reason} />`}
      <p class="side-note read-only"><${Coded} text=${READ_ONLY} /></p>
    </div>
  `;
}
