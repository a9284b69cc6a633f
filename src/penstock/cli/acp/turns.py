"""Turns of a session: a prompt is answered, an earlier turn is shown again, and the client's answers are passed on."""

from __future__ import annotations

import threading
from base64 import b64encode
from collections.abc import Callable, Collection, Iterator, Sequence
from concurrent.futures import Future
from typing import Any

from penstock.chat.history.entries import FIRST_TURN, Numbered
from penstock.chat.history.frames import TurnView
from penstock.chat.service.media import PICTURES
from penstock.chat.web.doors.acp import AcpTurn, commands_listed, form_of, is_permission, notice, stop_reason, usage_of
from penstock.chat.web.doors.turn_fold import failure_text, question_text
from penstock.cli.acp.chats import ServerChats
from penstock.cli.acp.content import GivenPrompt
from penstock.cli.acp.parameters import chosen_option, filled_in
from penstock.cli.acp.session import Active, Session, ShownTurn
from penstock.cli.console import notify
from penstock.cli.serve.client import Rejected
from penstock.cli.stdio.peer import AUTH_REQUIRED, INTERNAL_ERROR, INVALID_PARAMS, Peer, RpcError
from penstock.core.questions import REJECT, OpenQuestion
from penstock.errors import PenstockError
from penstock.events import AgentCommand, CommandsChanged, added

MAX_PICTURE_BYTES = 512 * 1024
"""Bytes of the largest picture that is shown again: most screenshots have less."""

MAX_PICTURES_BYTES = 16 * 1024 * 1024
"""Bytes of all pictures of a session that are shown again: those of a long chat would keep an editor busy."""


class SessionTurns:
    """Turns of the sessions of one client."""

    def __init__(self, peer: Peer, chats: ServerChats) -> None:
        self.has_forms: bool = False
        """Whether the client can show forms."""
        self.has_notices: bool = False
        """Whether the client can show notices."""
        self.has_compactions: bool = False
        """Whether the client can show compactions."""
        self.starts_logins: bool = False
        """Whether the client can start the login of an agent."""
        self._peer = peer
        self._chats = chats

    def answer(self, session: Session, active: Active, prompt: GivenPrompt) -> dict[str, Any]:
        """Answer a prompt, which is the answer to a question if one waits for it; return the result of the prompt.

        Raises:
            RpcError: the turn failed, or cannot begin; or the answer to a question has files.
        """
        session.has_text = False
        if session.is_new:
            active.turn = self._begin_first(session, active, prompt)
            return self._answer(session, active)
        self._chats.check_depth(session)
        if prompt.files and session.waiting is not None and session.waiting.shown.question is not None:
            what = "the agent waits for an answer, which has no files; expected an answer in words"
            raise RpcError(INVALID_PARAMS, what)
        waiting, session.waiting = session.waiting, None
        question = waiting.shown.question if waiting is not None else None
        if waiting is not None and question is not None:
            active.turn = waiting.shown.turn
            waiting.answered = question.id
            try:
                is_answer = self._chats.answer(session.id, question.id, prompt.text)
            except Rejected:
                session.waiting = waiting
                raise
            with session.lock:
                if is_answer:
                    return self._follow(session, active, waiting)
                if not self._show(session, active, waiting):  # somebody else has answered it
                    session.waiting = waiting
                    return {"stopReason": "end_turn"}
            active.turn = None
        if not active.cancelled.is_set():
            active.turn = self._chats.submit(session.id, prompt)
        return self._answer(session, active)

    def _answer(self, session: Session, active: Active) -> dict[str, Any]:
        """Show the turn of a prompt, and return the result of the prompt, which is cancelled if it has no turn.

        Raises:
            RpcError: the turn failed.
        """
        if active.turn is None:
            return {"stopReason": "cancelled"}
        self._say_held(session, active.turn)
        if active.cancelled.is_set():
            self._chats.stop(session.id, active.turn)
        with session.lock:
            return self._follow(session, active, self._begun(session, active.turn, has_notices=self.has_notices))

    def _begun(self, session: Session, turn: int, *, has_notices: bool = False) -> ShownTurn:
        """Return a turn of which nothing was shown."""
        shown = AcpTurn(
            turn, session.cwd, spent=session.spent, has_notices=has_notices, has_compactions=self.has_compactions
        )
        return ShownTurn(shown)

    def cancel(self, session: Session) -> None:
        """Stop the turn of a session that runs, without waiting for the server."""
        active = session.active
        turn = session.waiting.shown.turn if session.waiting is not None else session.replayed
        if active is not None:
            active.cancelled.set()
            if active.trust is not None:
                self._peer.withdraw(active.trust)
            turn = active.turn if active.turn is not None else turn
        if turn is not None:
            threading.Thread(target=self._stop, args=(session.id, turn), daemon=True).start()

    def _stop(self, id: str, turn: int) -> None:
        try:
            self._chats.stop(id, turn)
        except PenstockError as error:
            notify(f"penstock: the turn cannot be stopped: {error}\n")

    def replay(self, session: Session) -> None:
        """Show all turns of a session but the one that answers a prompt now."""
        turns = self._chats.turns(session.id)
        session.spent = _spent_before(session.spent, turns)
        pictures = _shown_pictures(turns)
        for turn in turns:
            if session.active is None or session.active.turn != turn.turn:
                self._replay(session, turn, pictures)

    # --- a new chat ---

    def _begin_first(self, session: Session, active: Active, prompt: GivenPrompt) -> int | None:
        """Create the chat of a session with its first turn, and return that; None if the prompt was cancelled.

        If its directory is not trusted, the person at the client is asked before.
        """
        if active.cancelled.is_set():
            return None
        try:
            chat = self._chats.create(session, prompt)
        except Rejected as error:
            if error.code != "untrusted_directory":
                raise
            self._trust(session, active)
            if active.cancelled.is_set():
                return None
            chat = self._chats.create(session, prompt)
        session.cwd, session.is_new = chat.cwd, False
        return FIRST_TURN

    def _trust(self, session: Session, active: Active) -> None:
        """Ask the person at the client whether to trust the directory of a session, unless the prompt is cancelled.

        Raises:
            RpcError: the person does not trust it.
        """
        text = "Its own settings may start programs. Penstock asks once for each directory."
        call = {
            "toolCallId": "trust",
            "title": f"Trust {session.cwd}?",
            "kind": "other",
            "status": "pending",
            "content": [{"type": "content", "content": {"type": "text", "text": text}}],
        }
        options = [
            {"optionId": "trust", "name": "Trust this directory", "kind": "allow_always"},
            {"optionId": "no", "name": "No", "kind": "reject_once"},
        ]
        active.trust, answer = self._peer.ask(
            "session/request_permission", {"sessionId": session.id, "toolCall": call, "options": options}
        )
        if active.cancelled.is_set():
            self._peer.withdraw(active.trust)
        is_trusted = chosen_option(answer) == "trust"
        if active.cancelled.is_set():
            return
        if not is_trusted:
            what = f"{session.cwd} is not trusted, so no agent works there"
            raise RpcError(INTERNAL_ERROR, what, {"reason": "untrusted_directory"})
        self._chats.trust(session.cwd)

    # --- what is shown ---

    def _follow(self, session: Session, active: Active | None, followed: ShownTurn) -> dict[str, Any]:
        """Show a turn to its end, or to a question for the next prompt; return the result of the prompt.

        Raises:
            RpcError: the turn failed.
        """
        if not self._show(session, active, followed):
            session.waiting = followed
            return {"stopReason": "end_turn"}
        end = followed.shown.fold.completed
        assert end is not None
        self._retitle(session)
        reason = stop_reason(end)
        if reason is None:
            data = {"outcome": end.outcome, "reason": end.reason, "cause": end.cause}
            code = AUTH_REQUIRED if end.cause == "auth" and self.starts_logins else INTERNAL_ERROR
            raise RpcError(code, failure_text(end) or end.outcome, data)
        usage = usage_of(followed.shown.fold.usage)
        return {"stopReason": reason, **({"usage": usage} if usage else {})}

    def _show(
        self,
        session: Session,
        active: Active | None,
        followed: ShownTurn,
        on_live: Callable[[], None] = lambda: None,
    ) -> bool:
        """Send the updates of a turn; return False if a question waits for the next prompt."""
        asking: tuple[str, int, Future[Any]] | None = None
        is_live = followed.number > 0
        shown = followed.shown
        try:
            for step in self._chats.follow(session.id, shown.turn, followed.number):
                for update in shown.take(step.rows):
                    self._update(session, update)
                if active is not None or is_live:
                    self._follow_commands(session, step.rows)
                if active is None and not session.is_open:
                    return True
                if step.rows:
                    followed.number = step.rows[-1].number
                if step.is_live:
                    is_live = True
                    on_live()
                question = shown.question
                if asking is not None and asking[0] == followed.declined:
                    asking = None
                elif asking is not None and not shown.fold.waits_for(asking[0]):
                    self._peer.withdraw(asking[1])
                    asking = None
                if question is None or not is_live or asking is not None or question.id == followed.answered:
                    continue
                if not is_permission(question) and (not self.has_forms or followed.declined == question.id):
                    self._say(session, question_text(question), f"t{shown.turn}.{question.id}")
                    return False
                asking = self._ask(session, followed, question)
        finally:
            if asking is not None:
                self._peer.withdraw(asking[1])
        session.spent = added(session.spent, shown.fold.cost_usd)
        return True

    def _replay(self, session: Session, turn: TurnView, pictures: Collection[str]) -> None:
        """Show an earlier turn. One that still runs is shown up to now, and then live."""
        for content in self._prompt(session, turn, pictures):
            prompt = {"sessionUpdate": "user_message_chunk", "content": content, "messageId": f"t{turn.turn}.prompt"}
            self._update(session, prompt)
        live = threading.Event()
        followed = self._begun(session, turn.turn)

        def show() -> None:
            try:
                with session.lock:
                    session.replayed = turn.turn
                    if not self._show(session, None, followed, live.set):
                        session.waiting = followed
                    self._say_end(session, followed)
            except PenstockError as error:
                notify(f"penstock: the turn cannot be shown: {error}\n")
            finally:
                session.replayed = None
                live.set()

        if turn.finalized:
            show()
        else:  # it runs, or its reply is complete and its run is about to end, for which the client need not wait
            threading.Thread(target=show, daemon=True).start()
            live.wait()

    def _prompt(self, session: Session, turn: TurnView, pictures: Collection[str]) -> Iterator[dict[str, Any]]:
        """Yield the message of a turn as blocks: its text, and each of its files as a picture, or by its name."""
        files = turn.attachments or []
        if turn.prompt or not files:
            yield {"type": "text", "text": turn.prompt}
        for file in files:
            if file.id in pictures:
                try:
                    data = b64encode(self._chats.file(session.id, file)).decode()
                except Rejected:  # it was removed meanwhile
                    pass
                else:
                    yield {"type": "image", "data": data, "mimeType": file.media_type}
                    continue
            yield {"type": "text", "text": f"\n[{file.name}]"}

    # --- questions ---

    def _ask(self, session: Session, followed: ShownTurn, question: OpenQuestion) -> tuple[str, int, Future[Any]]:
        if is_permission(question):
            method, more = "session/request_permission", followed.shown.permission(question)
        else:
            method, more = "elicitation/create", form_of(question)
        number, answer = self._peer.ask(method, {"sessionId": session.id, **more})

        def done(found: Future[Any]) -> None:
            if not found.cancelled():
                threading.Thread(target=self._pass_on, args=(session, followed, question, found), daemon=True).start()

        answer.add_done_callback(done)
        return question.id, number, answer

    def _pass_on(self, session: Session, followed: ShownTurn, question: OpenQuestion, answer: Future[Any]) -> None:
        """Pass an answer on to the agent. A client that cannot answer rejects a permission, and declines a form."""
        text = filled_in(answer)
        if is_permission(question):
            offered = {option["optionId"] for option in followed.shown.permission(question)["options"]}
            chosen = chosen_option(answer)
            text = chosen if chosen in offered else REJECT
        try:
            if text is None:
                followed.declined = question.id
            else:
                self._chats.answer(session.id, question.id, text)
        except PenstockError as error:
            followed.declined = question.id
            notify(f"penstock: the answer was not accepted: {error}\n")

    # --- commands ---

    def list_commands(self, session: Session, known: list[AgentCommand] | None) -> None:
        """Send the commands that the agent of a session is known to offer, unless a turn has listed some.

        `known`: those of the session when it was opened; a turn has listed others if the session has others now.
        """
        try:
            found = self._chats.commands(session)
        except PenstockError:
            return  # the session can be used without; an older server has no such list
        with session.listing:
            if session.commands is known:
                self._send_commands(session, found)

    def _follow_commands(self, session: Session, rows: Sequence[Numbered]) -> None:
        """Send the commands that the agent has listed in a turn."""
        for row in rows:
            if isinstance(row.what, CommandsChanged):
                with session.listing:
                    self._send_commands(session, row.what.commands)

    def _send_commands(self, session: Session, commands: list[AgentCommand]) -> None:
        """Send commands, unless the client has these. The caller holds the lock."""
        before, session.commands = session.commands or [], commands
        if commands != before:
            self._update(session, commands_listed(commands))

    # --- notices ---

    def _say_held(self, session: Session, turn: int) -> None:
        """Notify the client that the turn waits, if it waits for messages that a stop on the page holds back."""
        chat = self._chats.find(session.id)
        held = chat.held
        session.spent = max(session.spent, chat.spent)  # others may have asked for turns
        if held:
            text = f"Waiting for {held} earlier messages, which the page of penstock serve can release or take back."
            content = {"type": "text", "text": text}
            thought = {"sessionUpdate": "agent_thought_chunk", "content": content, "messageId": f"t{turn}.held"}
            self._update(session, notice("warning", text) if self.has_notices else thought)

    def _say_end(self, session: Session, followed: ShownTurn) -> None:
        """Notify the client why an earlier turn ended, if it failed or was stopped: no result reports that."""
        end = followed.shown.fold.completed
        if end is None:
            return
        text = failure_text(end) or (end.reason or "stopped" if end.outcome == "cancelled" else None)
        if text is not None:
            self._say(session, f"[{text}]", f"t{end.turn}.end")

    def _say(self, session: Session, text: str, message: str) -> None:
        """Send a text of Penstock's own as a message. Many clients join those that follow each other."""
        content = {"type": "text", "text": f"\n\n{text}" if session.has_text else text}
        self._update(session, {"sessionUpdate": "agent_message_chunk", "content": content, "messageId": message})

    def _retitle(self, session: Session) -> None:
        """Tell the client the title of the chat, if it is new."""
        try:
            title = self._chats.find(session.id).title
        except PenstockError:
            return  # the chat is gone, and the turn was shown nevertheless
        if title != session.title:
            session.title = title
            self._update(session, {"sessionUpdate": "session_info_update", "title": title})

    def _update(self, session: Session, update: dict[str, Any]) -> None:
        kind = update["sessionUpdate"]
        if kind in ("agent_message_chunk", "user_message_chunk"):
            session.has_text = kind == "agent_message_chunk"
        self._peer.notify("session/update", {"sessionId": session.id, "update": update})


def _spent_before(spent: float, turns: Sequence[TurnView]) -> float:
    """Return what the turns of a chat before these have cost, if all of them have cost `spent`."""
    return max(0.0, round(spent - sum(it.cost_usd or 0.0 for it in turns), 6))


def _shown_pictures(turns: Sequence[TurnView]) -> set[str]:
    """Return the ids of the pictures that are shown again: the small ones, of which the newest come first."""
    found, left = set(), MAX_PICTURES_BYTES
    for turn in reversed(turns):
        for file in turn.attachments or ():
            if file.media_type in PICTURES and file.size <= min(MAX_PICTURE_BYTES, left):
                found.add(file.id)
                left -= file.size
    return found
