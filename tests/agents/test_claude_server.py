"""Claude Code over its two-way stream: what the dialogue sends, what it reads, and when it ends."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from penstock import updates as up
from penstock.adapter import Dialogue, Request, Startable
from penstock.agents import registry
from penstock.agents._claude_questions import REJECTED
from penstock.agents._claude_server import INITIALIZE, INTERRUPT
from penstock.agents.ccs.server import CcsServer
from penstock.agents.claude.server import ClaudeServer
from penstock.core.decoding import fit
from penstock.core.normalizer.outcome import Exit
from penstock.core.questions import resolve
from penstock.errors import UsageError
from penstock.events import Change, Event, Option, QuestionAnswered, QuestionAsked, RunEnded, ToolReturned
from penstock.stream import Stream
from penstock.testing import check_adapter, feeds, verify

RECORDINGS = Path(__file__).parents[1] / "recordings"
OLD, NEW = "claude-server", "claude-server-2.1.330"
"""Recordings without reports of the session's state, and with them."""
CASES = [(folder.parent.name, folder.name) for name in (OLD, NEW) for folder in sorted((RECORDINGS / name).iterdir())]
Reply = Callable[[QuestionAsked], str]


def sent_by_hand(folder: str, case: str) -> list[dict[str, Any]]:
    """Lines that a hand-written client sent to the real program when it was recorded."""
    return [json.loads(line) for line in (RECORDINGS / folder / case / "sent.ndjson").read_text("utf-8").splitlines()]


def lines_of(folder: str, case: str) -> list[bytes]:
    """Lines of a recording."""
    return (RECORDINGS / folder / case / "input.ndjson").read_bytes().splitlines(keepends=True)


def taken(dialogue: ClaudeServer) -> list[dict[str, Any]]:
    """Messages that the dialogue has to send now."""
    return [json.loads(line) for line in dialogue.take().splitlines()]


class Played:
    """A recording played to a dialogue, with all messages that it sends meanwhile.

    Args:
        reply: words that answer a question; "cancel" cancels the run instead.
        cancel_after: text of the line after which the run is cancelled.
    """

    def __init__(self, folder: str, case: str, reply: Reply = lambda _: "once", cancel_after: bytes = b"") -> None:
        lines = lines_of(folder, case)
        prompt = sent_by_hand(folder, case)[1]["message"]["content"]
        self.dialogue = ClaudeServer(Request(prompt=prompt))
        self.sent = taken(self.dialogue)
        self.stream = Stream(self.dialogue)
        self.events: list[Event] = []
        self.over_after: list[bytes] = []
        """Lines from the one on after which the dialogue is over."""
        for line in lines:
            for event in self.stream.feed(line):
                self.events.append(event)
                if isinstance(event, QuestionAsked):
                    self._reply(event, reply(event))
            if cancel_after and cancel_after in line:
                assert self.dialogue.cancel()
            self.sent += taken(self.dialogue)
            if self.dialogue.over and not self.stream.working:
                self.over_after.append(line)
        self.events += self.stream.close()
        assert verify(self.events) == []

    def _reply(self, question: QuestionAsked, words: str) -> None:
        if words == "cancel":
            assert self.dialogue.cancel()
            return
        answer = resolve(question, words)
        assert answer is not None
        self.events += self.stream.apply(self.dialogue.answer(answer))

    def of(self, kind: type) -> list[Any]:
        """Events of one kind."""
        return [event for event in self.events if isinstance(event, kind)]

    @property
    def end(self) -> RunEnded:
        """The last event."""
        last = self.events[-1]
        assert isinstance(last, RunEnded)
        return last


def reply_of(case: str) -> Reply:
    """Return the answers that the hand-written client gave in a recording."""
    if case == "choice":
        return lambda question: "Red" if question.id.endswith(".0") else "Small, Large"
    if case == "deny":
        return lambda _: "no, like this"
    fixed = {"interrupt_question": "cancel"}.get(case, "once")
    return lambda _: fixed


def played(folder: str, case: str) -> Played:
    """Play a recording with the answers that its client gave."""
    return Played(folder, case, reply_of(case), b'"tick 0 "' if case == "interrupt" else b"")


def unnamed(message: dict[str, Any]) -> dict[str, Any]:
    """Return a message without what a client may choose: the ids of its own requests, and words for a rejection."""
    text = json.dumps(message, ensure_ascii=False)
    for ours, theirs in ((INITIALIZE, "req_1"), (INTERRUPT, "req_2")):
        text = text.replace(ours, theirs)
    found: dict[str, Any] = json.loads(text)
    response = found.get("response", {}).get("response", {})
    if response.get("behavior") == "deny":
        response["message"] = "…"
    return found


def dialogue_in_turn(**asked: Any) -> ClaudeServer:
    """A dialogue whose turn runs, with nothing left to send."""
    dialogue = ClaudeServer(Request(prompt="do it", **asked))
    read_line(dialogue, type="system", subtype="init", session_id="s")
    dialogue.take()
    return dialogue


def read_line(dialogue: ClaudeServer, **line: Any) -> list[up.Update]:
    """Return the updates of one line, which is decoded as a stream does it."""
    return list(dialogue.read(fit(line, ClaudeServer.wire)))


def ask(dialogue: ClaudeServer, tool: str, given: Any, id: str = "q", **more: Any) -> list[Any]:
    """Return the updates of a request for a permission."""
    request = {"subtype": "can_use_tool", "tool_name": tool, "input": given, "tool_use_id": "c", **more}
    return read_line(dialogue, type="control_request", request_id=id, request=request)


def response(dialogue: ClaudeServer) -> Any:
    """Return the one answer that the dialogue has to send now."""
    [message] = taken(dialogue)
    assert message["type"] == "control_response"
    assert message["response"]["subtype"] == "success"
    return message["response"]["response"]


# --- the command and the first lines -------------------------------------------------------------------


def test_it_is_what_the_runner_expects() -> None:
    """It can be started, and the shell can talk with it."""
    assert issubclass(ClaudeServer, Startable)
    assert isinstance(ClaudeServer(), Dialogue)


@pytest.mark.parametrize(
    ("asked", "flags"),
    [
        ({}, []),
        ({"allow": "edits"}, ["--permission-mode=acceptEdits"]),
        ({"allow": "all"}, ["--permission-mode=bypassPermissions"]),
        ({"model": "m", "session_id": "0a", "fork": True, "args": ("--x",)},
         ["--model=m", "--resume=0a", "--fork-session", "--x"]),
    ],
)  # fmt: skip
def test_the_command(asked: dict[str, Any], flags: list[str]) -> None:
    """It has the flags of the stream and of the request; the prompt is not in it, and stdin is left to the dialogue."""
    command = registry.command("claude", "server", Request(prompt="--help", **asked))
    both = ["--input-format=stream-json", "--permission-prompt-tool=stdio"]
    stream = ["--print", "--output-format=stream-json", "--verbose", "--include-partial-messages"]
    assert list(command.argv) == ["claude", *stream, *both, *flags]
    assert command.stdin == b""
    assert command.env == {"CLAUDE_CODE_SDK_READS_SESSION_STATE": "1"}
    assert "CLAUDECODE" in command.unset


def test_a_profile_of_ccs_is_started_with_the_same_flags() -> None:
    """A profile passes them and stdin through; a name that is no profile is rejected."""
    command = registry.command("ccs", "server", Request(prompt="x", profile="glm"))
    assert command.argv[:3] == ("ccs", "glm", "--print")
    assert "--permission-prompt-tool=stdio" in command.argv
    assert CcsServer.traits.asks_for_all
    with pytest.raises(UsageError, match="not a profile"):
        registry.command("ccs", "server", Request(prompt="x", profile="config"))


def test_a_prompt_that_cannot_be_encoded_is_rejected_before_the_start() -> None:
    """It has half a character."""
    for make in (ClaudeServer.command, ClaudeServer):
        with pytest.raises(UsageError, match="half a character"):
            make(Request(prompt="\ud83d"))


def test_the_prompt_follows_the_first_request_as_it_is() -> None:
    """Bytes that were no UTF-8 are replaced, since JSON has none."""
    first, second = taken(ClaudeServer(Request(prompt="-- 'hi'\n\udcff ünï")))
    assert first["request"] == {"subtype": "initialize", "hooks": None}
    assert second["message"] == {"role": "user", "content": "-- 'hi'\n\ufffd ünï"}


# --- recordings ----------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("folder", "case"), [found for found in CASES if found != (OLD, "always")]
)  # a rule went with it
def test_the_lines_are_those_of_a_client_that_works(folder: str, case: str) -> None:
    """All that the dialogue sends, in its order, is what a hand-written client sent to the real program."""
    found = played(folder, case)
    assert list(map(unnamed, found.sent)) == list(map(unnamed, sent_by_hand(folder, case)))


@pytest.mark.parametrize(("folder", "case"), CASES)
def test_stdin_is_closed_after_the_last_line_that_matters(folder: str, case: str) -> None:
    """The dialogue is over at the last `idle` if the state is reported, else at the last `result`; never before."""
    expected = [line for line in lines_of(folder, case) if b'"state":"idle"' in line or b'"type":"result"' in line][-1:]
    if folder == NEW and "interrupt" in case:
        expected = lines_of(folder, case)[-2:]  # at the result: nothing more is waited for
    assert played(folder, case).over_after == expected


@pytest.mark.parametrize(
    ("folder", "case", "outcome", "refused"),
    [
        (OLD, "edit_allow", "ok", 0),
        (OLD, "deny", "ok", 1),
        (OLD, "always", "ok", 0),
        (OLD, "choice", "ok", 0),
        (OLD, "interrupt", "cancelled", 0),
        (OLD, "interrupt_question", "cancelled", 0),
        (OLD, "background", "ok", 0),
        (NEW, "deny", "ok", 1),
        (NEW, "interrupt_question", "cancelled", 0),
    ],
)
def test_the_end_of_each_recording(folder: str, case: str, outcome: str, refused: int) -> None:
    """Denied actions are counted. A call that an interrupt ended is none, though the wire lists it as denied."""
    end = played(folder, case).end
    assert (end.outcome, end.refused) == (outcome, refused)
    assert end.reason is None


def test_a_permission_is_a_question_with_the_change() -> None:
    """It has the subject, the options in order, the call, and the diff of the edit."""
    [question] = played(OLD, "edit_allow").of(QuestionAsked)
    path = "/tmp/demo/README.md"
    assert (question.ask, question.tool_kind, question.title, question.blocking) == ("edit", "edit", path, True)
    assert question.call_id == "toolu_mock0003r1a"
    assert question.options == [
        Option("once", "Allow once", "allow_once"),
        Option("all", "Allow for the session: all edits", "allow_always", wide=True),
        Option("reject", "Reject", "reject_once"),
    ]
    assert question.changes == [Change(path, "update", added=1, removed=1, diff="@@\n-old line\n+new line\n")]


def test_a_denied_call_returns_as_refused() -> None:
    """The words of the answer are the tool's result, and the model goes on."""
    found = played(NEW, "deny")
    returned = found.of(ToolReturned)[-1]
    assert (returned.refused, returned.is_error) == (True, True)
    assert found.end.reply == "All done: `notes.txt` has two lines. FINAL-REPLY."


def test_a_limit_of_its_own_is_the_reason() -> None:
    """A run that Claude Code ended at its own limit keeps the reason; only that of an interrupt is left out."""
    stream = Stream(ClaudeServer(Request(prompt="hi", max_turns=1)))
    ended = {"type": "result", "subtype": "error_max_turns", "is_error": True, "session_id": "s1"}
    line = json.dumps({**ended, "errors": ["Reached maximum number of turns (1)"]}).encode() + b"\n"
    [*_, last] = [*stream.feed(line), *stream.close(Exit(code=1))]
    assert isinstance(last, RunEnded)
    assert (last.outcome, last.cause) == ("cancelled", "budget")
    assert last.reason == "stopped: the run came to turn 2, the limit is 1"


@pytest.mark.parametrize("folder", [OLD, NEW])
def test_an_interrupt_withdraws_the_question(folder: str) -> None:
    """The program cancels its request; then the call fails, without having been refused."""
    found = played(folder, "interrupt_question")
    assert [answer.by for answer in found.of(QuestionAnswered)] == ["withdrawn"]
    returned = found.of(ToolReturned)[-1]
    assert (returned.text, returned.is_error, returned.refused) == ("interrupted", True, False)
    assert found.sent[-1]["request"] == {"subtype": "interrupt"}


@pytest.mark.parametrize("folder", [OLD, NEW])
def test_a_helper_in_the_background_may_ask_until_it_has_ended(folder: str) -> None:
    """Its question is in the lane of the call that started it, and the first result does not end the dialogue."""
    found = played(folder, "background")
    [question] = found.of(QuestionAsked)
    assert question.parent == "toolu_000002"
    assert sum(b'"type":"result"' in line for line in lines_of(folder, "background")) == 2
    assert len(found.over_after) == 1


@pytest.mark.parametrize("folder", [OLD, NEW])
def test_a_question_of_the_model_is_a_choice(folder: str) -> None:
    """Each question of one call is asked for itself; the answers go back together, by the text of their question."""
    found = played(folder, "choice")
    one, other = found.of(QuestionAsked)
    assert (one.ask, one.text, one.free_text) == ("choice", "Colour\nWhich colour?", True)
    assert one.options == [Option("Red", "Red: like fire", "choice"), Option("Blue", "Blue: like the sea", "choice")]
    assert other.text == "Sizes\nWhich sizes?"
    sent = found.sent[-1]["response"]["response"]
    assert sent["updatedInput"]["answers"] == {"Which colour?": "Red", "Which sizes?": "Small, Large"}


def test_a_recording_is_read_without_an_answer() -> None:
    """A reader without a request sends nothing, whatever is asked, and cannot cancel."""
    dialogue = ClaudeServer()
    for folder, case in CASES:
        feeds.whole(Stream(dialogue), b"".join(lines_of(folder, case)))
    read_line(dialogue, type="control_request", request_id="x", request={"subtype": "new"})
    assert dialogue.take() == b""
    assert not dialogue.cancel()


def test_it_reads_what_exec_reads() -> None:
    """The recordings of the route `exec` give the same events, but for the count of denied actions."""
    for case in ("tools", "thinktools", "parallel"):
        data = (RECORDINGS / "claude" / case / "input.ndjson").read_bytes()
        one, other = (feeds.whole(Stream(agent), data) for agent in ("claude", "claude/server"))
        assert one[:-1] == other[:-1]
        assert isinstance(other[-1], RunEnded)
        assert other[-1].refused == 0


def test_the_adapter_keeps_its_promises() -> None:
    """Chunks, cuts and mutations of the recordings harm nothing."""
    check_adapter(
        ClaudeServer, [b"".join(lines_of(OLD, case)) for case in ("deny", "background", "interrupt_question")]
    )


# --- answers -------------------------------------------------------------------------------------------

RULES: list[dict[str, Any]] = [
    {"type": "addRules", "rules": [{"toolName": "Bash", "ruleContent": "npm test:*"}], "destination": "localSettings"},
    {"type": "addDirectories", "directories": ["/other"], "destination": "userSettings"},
    {"type": "setMode", "mode": "acceptEdits"},
]


def test_allowing_sends_the_input_as_it_came() -> None:
    """Whatever is in it; no rule goes with it."""
    given = {"command": "ls", "n": 2**70, "f": 1.5, "nested": {"a": [None, True, "ü\n"]}}
    dialogue = dialogue_in_turn()
    [question] = ask(dialogue, "Bash", given, permission_suggestions=RULES)
    assert dialogue.answer(up.Answer("q", "person", "once")) == (up.Answer("q", "person", "once"),)
    assert response(dialogue) == {"behavior": "allow", "updatedInput": given}
    assert question.text == "ls"


def test_what_claude_suggests_never_reaches_the_settings_of_the_user_or_the_project() -> None:
    """Its rules hold for the session alone. They allow more than this command, so they have a number and no letter."""
    dialogue = dialogue_in_turn()
    [question] = ask(dialogue, "Bash", {"command": "npm test"}, permission_suggestions=RULES)
    assert question.options[1:2] == [
        Option("all", "Allow for the session: Bash(npm test:*), in /other, all edits", "allow_always", wide=True),
    ]
    dialogue.answer(up.Answer("q", "person", "all"))
    sent = response(dialogue)
    assert [rule["destination"] for rule in sent["updatedPermissions"]] == ["session"] * 3
    assert sent["updatedPermissions"][0]["rules"] == RULES[0]["rules"]


def test_a_suggestion_for_this_command_alone_is_left_to_penstock() -> None:
    """The same command has the same action, whatever it is described as; to leave the sandbox is another one."""
    rule = {"type": "addRules", "rules": [{"toolName": "Bash", "ruleContent": "rm -rf build"}], "behavior": "allow"}
    command = {"command": "rm -rf build"}
    dialogue = dialogue_in_turn()
    [first] = ask(dialogue, "Bash", {**command, "description": "Clean"}, permission_suggestions=[rule])
    [same] = ask(dialogue, "Bash", {"description": "Clean again", **command}, permission_suggestions=[rule])
    [other] = ask(dialogue, "Bash", {**command, "dangerouslyDisableSandbox": True})
    assert [option.id for option in first.options] == ["once", "reject"]
    assert first.action == same.action != other.action


@pytest.mark.parametrize(
    "rules",
    [
        [{"toolName": "Bash"}],
        [{"toolName": "Bash", "ruleContent": ""}],
        [{"toolName": "Edit", "ruleContent": "/x"}],
        [{"toolName": "Bash", "ruleContent": "ls"}, {"toolName": "Write", "ruleContent": "/x"}],
        [],
        ["Bash"],
        None,
    ],
)
def test_a_suggestion_that_is_more_than_the_command_is_wide(rules: Any) -> None:
    """A whole tool, another tool, and what is not understood never have the letter of this command alone."""
    dialogue = dialogue_in_turn()
    suggested = [{"type": "addRules", "rules": rules, "behavior": "allow"}]
    [question] = ask(dialogue, "Bash", {"command": "ls"}, permission_suggestions=suggested)
    assert [(option.id, option.wide) for option in question.options] == [
        ("once", False),
        ("all", True),
        ("reject", False),
    ]
    dialogue.answer(up.Answer("q", "person", "always"))
    assert response(dialogue)["behavior"] == "deny"


def test_without_suggestions_nothing_can_be_allowed_for_the_session() -> None:
    """The option is not there, and its id does not allow."""
    dialogue = dialogue_in_turn()
    [question] = ask(dialogue, "mcp__a__b", {"x": 1}, permission_suggestions=[7, None])
    assert [option.id for option in question.options] == ["once", "reject"]
    assert (question.ask, question.text) == ("tool", 'mcp__a__b: {"x":1}')


@pytest.mark.parametrize(
    ("answer", "message"),
    [
        (up.Answer("q", "person", "reject"), REJECTED),
        (up.Answer("q", "nobody"), REJECTED),
        (up.Answer("q", "person", text="use make"), "use make"),
        (up.Answer("q", "person", "of another kind"), REJECTED),
    ],
)
def test_rejecting_has_words_for_the_model(answer: up.Answer, message: str) -> None:
    """The person's own, or else a sentence that lets the model go on."""
    dialogue = dialogue_in_turn()
    ask(dialogue, "Bash", {"command": "ls"})
    dialogue.answer(answer)
    assert response(dialogue) == {"behavior": "deny", "message": message}


def test_an_answer_counts_once() -> None:
    """A second one, and one to a question that was not asked, is an error."""
    dialogue = dialogue_in_turn()
    ask(dialogue, "Bash", {"command": "ls"})
    dialogue.answer(up.Answer("q", "person", "once"))
    for id in ("q", "other"):
        with pytest.raises(KeyError):
            dialogue.answer(up.Answer(id, "person", "once"))


def test_a_choice_is_made_in_words_or_not_at_all() -> None:
    """Words are an answer too. If no question has one, the call is denied, and no action counts as refused."""
    questions = {"questions": [{"question": "Which?", "options": [{"label": "A"}]}]}
    answered = {**questions, "answers": {"Which?": "both"}}
    for answer, sent in (
        (up.Answer("q", "person", text="both"), {"behavior": "allow", "updatedInput": answered}),
        (up.Answer("q", "nobody"), {"behavior": "deny", "message": REJECTED}),
    ):
        dialogue = dialogue_in_turn()
        ask(dialogue, "AskUserQuestion", questions)
        dialogue.answer(answer)
        assert response(dialogue) == sent
    denials = [{"tool_name": "AskUserQuestion", "tool_use_id": "c"}]
    [result, _] = read_line(dialogue, type="result", subtype="success", result="x", permission_denials=denials)
    assert isinstance(result, up.Result)
    assert result.refused == 0


def test_one_of_several_choices_may_stay_open() -> None:
    """The answer is sent when the last question is answered, with the answers that there are."""
    questions = [{"question": name, "options": [{"label": "A"}]} for name in ("One?", "Two?")]
    dialogue = dialogue_in_turn()
    one, two = ask(dialogue, "AskUserQuestion", {"questions": questions})
    dialogue.answer(up.Answer(two.id, "person", "A"))
    assert taken(dialogue) == []
    dialogue.answer(up.Answer(one.id, "person"))
    assert response(dialogue)["updatedInput"]["answers"] == {"Two?": "A"}


OUTSIDE = {"decision_reason": "Path is outside", "decision_reason_type": "workingDir"}
USUAL = {"decision_reason": "This needs approval", "decision_reason_type": "other"}


@pytest.mark.parametrize(
    ("tool", "given", "more", "ask_of", "text"),
    [
        ("Bash", {"command": "one\ntwo", "description": "d"}, {}, "command", "one\ntwo"),
        ("Write", {"file_path": "/a", "content": "x"}, OUTSIDE, "outside", "/a\nPath is outside"),
        ("Edit", {"file_path": "/a"}, {"blocked_path": "/a"}, "outside", "/a"),
        ("Bash", {"command": "touch a"}, {"blocked_path": "/w/d/a"}, "command", "touch a"),
        ("Bash", {"command": "touch a"}, {"blocked_path": "/w/d"}, "command", "touch a"),
        ("Bash", {"command": "touch a"}, {"blocked_path": "b/../a"}, "command", "touch a"),
        ("Bash", {"command": "touch a"}, {"blocked_path": "/w/d/../a"}, "outside", "touch a"),
        ("Bash", {"command": "touch a"}, {"blocked_path": "/w/different/a"}, "outside", "touch a"),
        ("Bash", {"command": "touch a"}, {"blocked_path": "../a"}, "outside", "touch a"),
        ("Bash", {"command": "touch a"}, {"blocked_path": {"odd": 1}}, "outside", "touch a"),
        ("WebFetch", {"url": "http://x", "prompt": "p"}, {}, "network", "http://x"),
        ("ExitPlanMode", {"plan": "# All\nof it"}, {}, "tool", "ExitPlanMode: # All\nof it"),
        ("Bash", {"command": "ls"}, USUAL, "command", "ls"),
    ],
)
def test_a_question_shows_the_whole_of_what_it_allows(
    tool: str, given: Any, more: dict[str, Any], ask_of: str, text: str
) -> None:
    """A command and a plan are whole, and a reason of the program's own follows if it is a special one."""
    dialogue = dialogue_in_turn()
    if given == {"command": "touch a"}:
        read_line(dialogue, type="system", subtype="init", session_id="s", cwd="/w/d")
    [question] = ask(dialogue, tool, given, **more)
    assert (question.ask, question.text) == (ask_of, text)


@pytest.mark.parametrize(
    ("tool", "given", "diff"),
    [
        ("Write", {"content": "one\ntwo\n"}, "@@ -0,0 +1,2 @@\n+one\n+two\n"),
        ("MultiEdit", {"edits": [{"old_string": "a", "new_string": "b"}, {"old_string": "c", "new_string": ""}]},
         "@@\n-a\n+b\n@@\n-c\n"),
        ("NotebookEdit", {"new_source": "x"}, None),
    ],
)  # fmt: skip
def test_a_question_has_the_change_of_each_editing_tool(tool: str, given: Any, diff: str | None) -> None:
    """A diff where the input has the texts, else the name of the file."""
    [question] = ask(dialogue_in_turn(), tool, {"file_path": "/f", "notebook_path": "/f", **given})
    [change] = question.changes
    assert (change.path, change.diff) == ("/f", diff)


# --- control -------------------------------------------------------------------------------------------


def test_an_unknown_request_is_answered_with_an_error_at_once() -> None:
    """The run would wait for ever otherwise. It is counted as unknown."""
    dialogue = dialogue_in_turn()
    updates = read_line(dialogue, type="control_request", request_id="x", request={"subtype": "new_thing"})
    assert updates == [up.Unknown("control_request/new_thing")]
    [sent] = taken(dialogue)
    assert sent["response"] == {"subtype": "error", "request_id": "x", "error": "new_thing is not supported here"}


def test_a_cancel_before_the_turn_is_left_to_a_signal() -> None:
    """Claude Code would ignore an interrupt then, and begin the turn after it."""
    dialogue = ClaudeServer(Request(prompt="x"))
    dialogue.take()
    assert not dialogue.cancel()
    read_line(dialogue, type="control_response", response={"subtype": "success", "request_id": INITIALIZE})
    assert not dialogue.cancel()
    read_line(dialogue, type="system", subtype="init", session_id="s")
    assert dialogue.cancel()
    assert dialogue.cancel()
    assert [message["request"] for message in taken(dialogue)] == [{"subtype": "interrupt"}]


def test_a_cancel_drops_what_waits() -> None:
    """A question can no longer be answered, a new one is denied at once, and the result withdraws what is left."""
    dialogue = dialogue_in_turn()
    ask(dialogue, "Bash", {"command": "ls"})
    dialogue.cancel()
    with pytest.raises(KeyError):
        dialogue.answer(up.Answer("q", "person", "once"))
    dialogue.take()
    assert ask(dialogue, "Bash", {"command": "rm"}, "r", tool_use_id="d") == []
    assert response(dialogue)["behavior"] == "deny"
    denials = [{"tool_name": "Bash", "tool_use_id": id} for id in ("c", "d", "e")]
    updates = read_line(
        dialogue, type="result", subtype="error", terminal_reason="aborted_tools", permission_denials=denials
    )
    assert updates[0] == up.Answer("q", "withdrawn")
    assert isinstance(updates[1], up.Result)
    assert updates[1].refused == 1
    assert dialogue.over
    assert not dialogue.cancel()


def test_the_program_may_withdraw_a_question_by_itself() -> None:
    """A hook or a rule may answer it first. An unknown id withdraws nothing."""
    dialogue = dialogue_in_turn()
    ask(dialogue, "Bash", {"command": "ls"})
    assert read_line(dialogue, type="control_cancel_request", request_id="z") == []
    assert read_line(dialogue, type="control_cancel_request", request_id="q") == [up.Answer("q", "withdrawn")]
    assert read_line(dialogue, type="control_cancel_request", request_id="q") == []


def test_a_failed_request_is_noted() -> None:
    """The run goes on: the prompt needs no answer to the first request."""
    [notice] = read_line(ClaudeServer(), type="control_response", response={"subtype": "error", "error": "no"})
    assert notice == up.Notice("error", "no", "warning")


def state(dialogue: ClaudeServer, value: str) -> None:
    """Report the state of the session."""
    read_line(dialogue, type="system", subtype="session_state_changed", state=value)


def result(dialogue: ClaudeServer) -> bool:
    """Report a result; return whether the dialogue is over after it."""
    read_line(dialogue, type="result", subtype="success", result="x")
    return dialogue.over


def test_a_command_in_the_background_does_not_keep_the_run() -> None:
    """It may never end, and nothing that it does asks. Only agents and workflows wake the model."""
    dialogue = dialogue_in_turn()
    read_line(dialogue, type="system", subtype="task_started", task_id="a", task_type="local_bash")
    updates = read_line(dialogue, type="result", subtype="success", result="x")
    assert dialogue.over
    assert updates[-1] == up.Work(None, on=False)


def test_an_agent_in_the_background_keeps_the_run_until_the_turn_after_it() -> None:
    """Its end is not the end: the model gets its report, and may ask something then."""
    for ending in (
        {"subtype": "task_notification", "status": "completed"},
        {"subtype": "task_updated", "patch": {"status": "killed"}},
    ):
        dialogue = dialogue_in_turn()
        read_line(dialogue, type="system", subtype="task_started", task_id="a", task_type="local_agent")
        assert not result(dialogue)
        read_line(dialogue, type="system", task_id="a", **ending)
        assert not dialogue.over
        assert result(dialogue)


def test_a_waiting_question_keeps_the_run() -> None:
    """Stdin that closes at a question would deny it without a trace."""
    dialogue = dialogue_in_turn()
    ask(dialogue, "Bash", {"command": "ls"})
    assert not result(dialogue)
    dialogue.answer(up.Answer("q", "person", "once"))
    assert result(dialogue)


def test_the_state_of_the_session_decides_where_it_is_reported() -> None:
    """A result is no end while the session runs, and an idle session before the result is none either."""
    dialogue = dialogue_in_turn()
    state(dialogue, "idle")
    assert not dialogue.over
    state(dialogue, "running")
    assert not result(dialogue)
    state(dialogue, "requires_action")
    assert not dialogue.over
    state(dialogue, "idle")
    assert dialogue.over


def test_an_idle_session_may_be_reported_just_before_its_result() -> None:
    """Some hosts of the program do so."""
    dialogue = dialogue_in_turn()
    state(dialogue, "running")
    state(dialogue, "idle")
    assert result(dialogue)


# --- any value -----------------------------------------------------------------------------------------

JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=8),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=8), inner, max_size=3),
    max_leaves=8,
)
TYPES = ["control_request", "control_cancel_request", "control_response", "system", "result", "assistant", "user", "x"]
FIELDS = [
    "request_id", "subtype", "tool_name", "input", "permission_suggestions", "tool_use_id", "agent_id", "task_id",
    "task_type", "state", "patch", "permission_denials", "blocked_path", "decision_reason", "decision_reason_type",
    "result", "error", "message", "rules", "directories", "mode", "edits", "file_path", "questions", "options",
]  # fmt: skip
WORDED = JSON | st.sampled_from(
    [
        "q",
        "can_use_tool",
        "AskUserQuestion",
        "Edit",
        "MultiEdit",
        "Write",
        "session_state_changed",
        "idle",
        "workingDir",
    ]
)
OBJECT = st.dictionaries(st.sampled_from(FIELDS), WORDED | st.lists(st.dictionaries(st.sampled_from(FIELDS), WORDED)))


@pytest.mark.slow
@given(st.data())
def test_no_value_is_fatal(data: st.DataObject) -> None:
    """Any object is read, in a dialogue that runs, every question can be answered, and each line sent is JSON."""
    dialogue = dialogue_in_turn()
    for _ in range(data.draw(st.integers(1, 6))):
        line = {**data.draw(OBJECT), "type": data.draw(st.sampled_from(TYPES))}
        if data.draw(st.booleans()):
            line["request"] = {"subtype": "can_use_tool", **data.draw(OBJECT)}
        for update in dialogue.read(fit(line, ClaudeServer.wire)):
            if isinstance(update, up.Question):
                option = data.draw(st.sampled_from(["once", "always", "reject", None]))
                text = data.draw(st.sampled_from(["words", None]))
                dialogue.answer(up.Answer(update.id, "person", option, text))
        taken(dialogue)
