"""Documents and loops over HTTP: the list, the stream, the details, and what a client cannot reach."""

from __future__ import annotations

import json
import os
import shutil
import sys
import threading
from collections.abc import Callable
from pathlib import Path
from typing import Any

import httpx
import pytest
from git_repository import identity
from loop_desk import Desk
from served import PLAYER, RECORDINGS, Gateway
from viewer import Lines
from waiting import until

from penstock.chat.runs.recordings import RecordingReader
from penstock.doc import answer
from penstock.events import Event
from penstock.loop.inbox import LoopInbox

__all__ = ["identity"]

NOTES = "# Notes\n\n## User\n\nWhich quills are best?\n"


class Documents:
    """A gateway, and documents that are answered in its data directory as `penstock doc` does it."""

    def __init__(self, gateway: Gateway, monkeypatch: pytest.MonkeyPatch) -> None:
        self.gateway = gateway
        self.gate = gateway.folder / "gate"
        recording = RECORDINGS / "thinktools"
        held = [sys.executable, "-S", str(PLAYER), str(recording), "--speed=0", f"--hold=20:{self.gate}"]
        with (gateway.folder / "agents.toml").open("a") as file:
            file.write(f'\n[agents.held]\ncommand = {json.dumps(held)}\nadapter = "claude"\n')
        monkeypatch.setenv("PENSTOCK_CONFIG", str(gateway.folder / "agents.toml"))
        monkeypatch.setenv("PENSTOCK_DATA", str(gateway.folder))

    def file(self, name: str = "notes.md", text: str = NOTES) -> Path:
        """Write a document."""
        file = self.gateway.root / name
        file.write_text(text)
        return file

    def answer(self, file: Path, agent: str = "scripted") -> None:
        """Answer a document to its end."""
        assert answer(file, agent=agent, cwd=self.gateway.root).published

    def begin(self, file: Path) -> threading.Thread:
        """Begin to answer a document; the agent waits before its 20th line until the gate is there."""
        thread = threading.Thread(target=self.answer, args=(file, "held"))
        thread.start()
        return thread


@pytest.fixture
def documents(own: Callable[..., Gateway], monkeypatch: pytest.MonkeyPatch) -> Documents:
    """A gateway whose data directory has no documents yet."""
    return Documents(own(), monkeypatch)


def listed(gateway: Gateway) -> list[dict[str, Any]]:
    """Return the list of documents and loops."""
    with gateway.client() as client:
        found: list[dict[str, Any]] = client.get("/api/runs").json()["runs"]
        return found


class Watching:
    """Reader of the stream of a document or loop: the frames that came, and the number of the last."""

    def __init__(self, gateway: Gateway, id: str, after: int | None = None) -> None:
        self.frames: list[dict[str, Any]] = []
        self.after = after
        self._lines = Lines()
        self._client = gateway.client()
        query = {} if after is None else {"after": str(after)}
        self._stream = self._client.stream("GET", f"/api/runs/{id}/events", params=query)
        self.response = self._stream.__enter__()
        self._bytes = self.response.iter_raw()

    def until(self, condition: Callable[..., bool]) -> None:
        """Read until a condition holds."""
        while not condition():
            for id, _, text in self._lines.feed(next(self._bytes)):
                self.frames.append(json.loads(text))
                self.after = int(id) if id is not None else self.after

    def has(self, kind: str) -> bool:
        """Return whether a frame of this type came."""
        return any(frame["type"] == kind for frame in self.frames)

    @property
    def state(self) -> dict[str, Any]:
        """Return the newest state of the document or loop."""
        return next(frame for frame in reversed(self.frames) if frame["type"] == "run")

    def close(self) -> None:
        """Close the connection."""
        self._stream.__exit__(None, None, None)
        self._client.close()


# --- documents ---


@pytest.mark.slow
def test_documents_are_listed_by_their_file_names(documents: Documents) -> None:
    """A document that was answered is in the list with its file name, its state and its agent, the newest first."""
    assert listed(documents.gateway) == []
    for name in ("a.md", "b.md"):
        documents.answer(documents.file(name))
    first, second = listed(documents.gateway)
    assert (first["title"], second["title"]) == ("b.md", "a.md")
    assert (first["kind"], first["state"], first["note"]) == ("document", "idle", "answered")
    assert (first["path"], first["agent"]) == (str(documents.gateway.root / "b.md"), "scripted")
    (documents.gateway.root / "a.md").unlink()
    assert {run["title"]: run["note"] for run in listed(documents.gateway)} == {"b.md": "answered", "a.md": "missing"}


@pytest.mark.slow
def test_the_answers_of_a_document_are_turns(documents: Documents) -> None:
    """The stream begins with all answers as turns, with what was asked, and the document's own state."""
    file = documents.file()
    documents.answer(file)
    [run] = listed(documents.gateway)
    watching = Watching(documents.gateway, run["id"])
    watching.until(lambda: watching.has("run"))
    snapshot, state = watching.frames
    [turn] = snapshot["turns"]
    assert (turn["turn"], turn["state"], turn["outcome"], turn["agent"]) == (1, "completed", "ok", "scripted")
    assert "Which quills are best?" in turn["prompt"]
    assert turn["message"].strip() in file.read_text()
    assert turn["finalized"] is True
    assert state["run"] == run
    watching.close()


@pytest.mark.slow
def test_an_answer_is_shown_while_it_is_written(documents: Documents) -> None:
    """A viewer sees the turn begin, and its end after the agent went on; the list says that it is being answered."""
    file = documents.file()
    documents.answer(file)
    [run] = listed(documents.gateway)
    watching = Watching(documents.gateway, run["id"])
    watching.until(lambda: watching.has("run"))
    file.write_text(file.read_text() + "And when did steel come?\n")
    thread = documents.begin(file)
    watching.until(lambda: watching.has("streaming"))
    assert [run["note"] for run in listed(documents.gateway)] == ["being answered"]
    assert not watching.has("completed")
    documents.gate.touch()
    watching.until(lambda: watching.has("finalized"))
    thread.join()
    prompted = next(frame for frame in watching.frames if frame["type"] == "prompted")
    assert prompted["turn"] == 2
    assert prompted["prompt"] == "And when did steel come?"
    watching.close()


@pytest.mark.slow
def test_what_was_changed_is_shown_as_a_diff(documents: Documents) -> None:
    """A question that removes or replaces text is shown as the diff that the agent gets."""
    file = documents.file()
    documents.answer(file)
    file.write_text(file.read_text().replace("Which quills", "What pens") + "Look again.\n")
    documents.answer(file)
    [run] = listed(documents.gateway)
    watching = Watching(documents.gateway, run["id"])
    watching.until(lambda: watching.has("run"))
    prompt = watching.frames[0]["turns"][1]["prompt"].splitlines()
    assert {"-Which quills are best?", "+What pens are best?", "+Look again."} <= set(prompt)
    watching.close()


@pytest.mark.slow
def test_a_stream_resumes(documents: Documents) -> None:
    """A viewer that comes back with its number gets what it missed and no snapshot; with an old number, a snapshot."""
    file = documents.file()
    documents.answer(file)
    [run] = listed(documents.gateway)
    staying = Watching(documents.gateway, run["id"])  # as long as one watches, the numbers are known
    leaving = Watching(documents.gateway, run["id"])
    for watching in (staying, leaving):
        watching.until(lambda watching=watching: watching.has("run"))
    leaving.close()
    file.write_text(file.read_text() + "And when did steel come?\n")
    documents.gate.touch()
    documents.begin(file).join()
    staying.until(lambda: staying.has("finalized"))
    back = Watching(documents.gateway, run["id"], leaving.after)
    back.until(lambda: back.has("finalized"))
    assert [frame["type"] for frame in back.frames if frame["type"] in ("snapshot", "prompted")] == ["prompted"]
    old = Watching(documents.gateway, run["id"], 17)
    old.until(lambda: old.has("run"))
    assert old.frames[0]["type"] == "snapshot"
    for watching in (staying, back, old):
        watching.close()


def test_the_details_of_an_answer(documents: Documents) -> None:
    """Details have the calls of the agent, and the events as NDJSON; a turn that does not exist is not found."""
    documents.answer(documents.file())
    [run] = listed(documents.gateway)
    with documents.gateway.client() as client:
        path = f"/api/runs/{run['id']}/turns/1/details"
        details = client.get(path).json()
        assert details["whole"] is True
        assert {"thinking", "call", "text"} <= {item["kind"] for item in details["items"]}
        events = client.get(path, params={"format": "ndjson"})
        assert events.headers["content-type"] == "application/x-ndjson"
        assert json.loads(events.text.splitlines()[-1])["type"] == "run_ended"
        assert client.get(path, params={"format": "xml"}).status_code == 400
        assert client.get(f"/api/runs/{run['id']}/turns/2/details").status_code == 404
        assert client.get(f"/api/runs/{run['id']}").json() == {"run": run}


def test_a_run_that_was_killed_is_cut_off(documents: Documents) -> None:
    """A recording without an end, of which nobody writes more, is a turn that was cut off."""
    file = documents.file()
    documents.answer(file)
    [recording] = (documents.gateway.folder / "docs").glob("*/recordings/*")
    meta = json.loads((recording / "meta.json").read_text())
    del meta["ended"]
    (recording / "meta.json").write_text(json.dumps(meta))
    lines = (recording / "input.ndjson").read_bytes().splitlines(keepends=True)
    (recording / "input.ndjson").write_bytes(b"".join(lines[:10]) + lines[10][:20])
    [run] = listed(documents.gateway)
    watching = Watching(documents.gateway, run["id"])
    watching.until(lambda: watching.has("run"))
    [turn] = watching.frames[0]["turns"]
    assert (turn["state"], turn["outcome"]) == ("completed", "cut_off")
    watching.close()


@pytest.mark.slow
def test_nothing_is_read_while_nobody_watches(documents: Documents) -> None:
    """When the last viewer has left, the reading of the document ends."""
    documents.answer(documents.file())
    [run] = listed(documents.gateway)
    watching = Watching(documents.gateway, run["id"])
    watching.until(lambda: watching.has("run"))
    assert documents.gateway.metrics.watches == 1
    watching.close()
    until(lambda: documents.gateway.metrics.watches == 0, "nobody watches any more")
    assert "penstock run" not in documents.gateway.call(_task_names())


async def _task_names() -> list[str]:
    import asyncio

    return [task.get_name() for task in asyncio.all_tasks()]


# --- loops ---


class Loops:
    """A gateway, and a user whose loops have the gateway's data directory."""

    def __init__(self, gateway: Gateway) -> None:
        self.gateway = gateway
        (gateway.folder / "loops-desk").mkdir()
        self.desk = Desk(gateway.folder / "loops-desk")
        self.desk.data = gateway.folder
        self.gate = self.desk.scripts / "gate"
        self.desk.agent("waiter", 'while [ ! -e "$DESK/gate" ]; do sleep 0.02; done; touch done; reply "Add done"')
        fixes = 'if [ $(count fixer) = 1 ]; then echo "a <b>" > half; reply Half; else touch done; reply "Add done"; fi'
        self.desk.agent("fixer", fixes)

    def begin(self, *agents: str) -> threading.Thread:
        """Run a loop in a thread."""
        journal = self.desk.begin(self.desk.settings(*agents))
        engine, _ = self.desk.engine(journal)

        def run() -> None:
            engine.run()
            journal.close()

        thread = threading.Thread(target=run)
        thread.start()
        until(lambda: any(run["note"] == "round 1" for run in listed(self.gateway)), "the first round begins")
        return thread


@pytest.fixture
def loops(own: Callable[..., Gateway]) -> Loops:
    """A gateway whose data directory has no loops yet."""
    return Loops(own())


@pytest.mark.slow
def test_a_loop_is_shown_with_its_rounds(loops: Loops) -> None:
    """The stream has the rounds with their results, each step, the replies as turns, and what it cost."""
    status, _ = loops.desk.run(loops.desk.settings("fixer", checks=("echo looked; test -e done",)))
    assert status == 0
    [run] = listed(loops.gateway)
    assert (run["id"], run["kind"], run["title"], run["state"], run["note"]) == (
        "loop-l1",
        "loop",
        "l1",
        "idle",
        "done",
    )
    watching = Watching(loops.gateway, "loop-l1")
    watching.until(lambda: watching.has("run"))
    snapshot, state = watching.frames
    loop = state["loop"]
    assert [it["result"] for it in loop["rounds"]][:2] == ["red: echo looked; test -e done", "green"]
    assert [turn["message"] for turn in snapshot["turns"]] == ["Half", "Add done", "Add done"]
    work = [step for step in loop["steps"] if step["kind"] == "work"]
    assert [(step["turn"], step["round"], step["agent"], step["state"]) for step in work] == [
        (1, 1, "fixer", "ok"),
        (2, 2, "fixer", "ok"),
        (3, 3, "fixer", "ok"),
    ]
    assert (loop["cost_usd"], loop["is_cost_known"], loop["status"], loop["reason"]) == (0.03, True, 0, "done")
    assert loop["rounds"][1]["commit"] == loops.desk.user.git("rev-parse", "penstock/l1")
    watching.close()


@pytest.mark.slow
def test_the_output_of_a_check_and_the_changes_of_a_round(loops: Loops) -> None:
    """A check's output and a round's diff are text; a step without output and a round that is not there are 404."""
    loops.desk.run(loops.desk.settings("fixer", checks=("echo '<b>looked</b>'; test -e done",)))
    with loops.gateway.client() as client:
        steps = client.get("/api/runs/loop-l1").json()["loop"]["steps"]
        checks = [step for step in steps if step["kind"] == "check"]
        assert {(step["state"], step["status"]) for step in checks} == {("ok", 0), ("failed", 1)}
        output = client.get(f"/api/runs/loop-l1/steps/{checks[-1]['step']}/output").json()
        assert output == {"output": "<b>looked</b>\n"}
        [first] = client.get("/api/runs/loop-l1/rounds/1/changes").json()["changes"]
        assert (first["path"], first["kind"], first["added"]) == ("half", "add", 1)
        assert "+a <b>" in first["diff"]
        for log in [*loops.gateway.folder.glob("loops/l1/**/check-*-*.txt")]:
            log.unlink()
            os.mkfifo(log)  # it is not waited for: the journal has the end of the output
        output = client.get(f"/api/runs/loop-l1/steps/{checks[-1]['step']}/output").json()
        assert output == {"output": "<b>looked</b>\n"}
        tree = next(step for step in steps if step["kind"] == "tree")
        assert client.get(f"/api/runs/loop-l1/steps/{tree['step']}/output").status_code == 404
        assert client.get("/api/runs/loop-l1/rounds/9/changes").status_code == 404


@pytest.mark.slow
def test_candidates_are_shown_with_their_changes(loops: Loops) -> None:
    """Agents side by side are turns one after the other; a round has its candidates, and each one's changes."""
    loops.desk.agent("small", 'touch done; reply "Small"')
    loops.desk.agent("large", 'touch done; seq 3 > more; reply "Large"')
    status, _ = loops.desk.run(loops.desk.settings("small", "large", candidates=("small", "large")))
    assert status == 0
    watching = Watching(loops.gateway, "loop-l1")
    watching.until(lambda: watching.has("run"))
    turns = watching.frames[0]["turns"]
    assert [(it["turn"], it["agent"], it["message"]) for it in turns[:2]] == [
        (1, "small", "Small"),
        (2, "large", "Large"),
    ]
    assert {turn["outcome"] for turn in turns} == {"ok"}
    loop = watching.state["loop"]
    first = loop["rounds"][0]["candidates"]
    assert [(it["name"], it["result"], it["changes"], it.get("chosen")) for it in first] == [
        ("small", "green", "1 file, +0 −0", "the smaller change"),
        ("large", "green", "2 files, +3 −0", None),
    ]
    assert [it["candidate"] for it in loop["steps"] if it["kind"] == "check" and it.get("round") == 1] == [
        "small",
        "large",
    ]
    assert next(it["text"] for it in loop["steps"] if it["kind"] == "choose") == "small"
    assert "running" not in {step["state"] for step in loop["steps"]}
    watching.close()
    with loops.gateway.client() as client:
        url = "/api/runs/loop-l1/rounds/1/candidates"
        assert [it["path"] for it in client.get(f"{url}/2/changes").json()["changes"]] == ["done", "more"]
        assert client.get(f"{url}/3/changes").status_code == 404


@pytest.mark.slow
def test_candidates_are_shown_while_they_work(loops: Loops) -> None:
    """Two agents work at once: the first is a running turn; the second follows when the first has ended."""
    loops.desk.agent("quick", 'touch done; reply "Quick"')
    journal = loops.desk.begin(loops.desk.settings("waiter", "quick", candidates=("waiter", "quick")))
    engine, _ = loops.desk.engine(journal)
    thread = threading.Thread(target=engine.run)
    thread.start()
    until(lambda: any(run["note"] == "round 1" for run in listed(loops.gateway)), "the first round begins")
    watching = Watching(loops.gateway, "loop-l1")
    watching.until(lambda: watching.has("run"))
    assert [(it["turn"], it["state"]) for it in watching.frames[0]["turns"]] == [(1, "running")]
    loops.gate.touch()
    watching.until(lambda: watching.state["run"]["state"] == "idle")
    thread.join()
    journal.close()
    ended = [frame["turn"] for frame in watching.frames if frame["type"] == "completed"]
    assert ended[:2] == [1, 2]
    watching.close()


@pytest.mark.slow
def test_a_loop_is_shown_while_it_runs(loops: Loops) -> None:
    """A viewer sees the agent at work; a message is shown as not read until the loop reads it; stop ends it at once."""
    thread = loops.begin("waiter")
    watching = Watching(loops.gateway, "loop-l1")
    watching.until(lambda: watching.has("run"))
    assert watching.frames[0]["turns"][0]["state"] == "running"
    assert watching.state["run"]["state"] == "running"
    with loops.gateway.client() as client:
        sent = client.post("/api/runs/loop-l1/messages", json={"text": "Use tabs."})
        assert sent.status_code == 202
        assert sent.json()["loop"]["messages"] == [{"text": "Use tabs.", "round": 1}]
        watching.until(lambda: bool(watching.state["loop"]["messages"]))
        assert client.post("/api/runs/loop-l1/stop", json={"now": True}).status_code == 202
        watching.until(lambda: watching.state["run"]["state"] == "idle")
        thread.join()
        assert watching.state["loop"]["status"] == 130
        assert watching.state["loop"]["messages"] == [{"text": "Use tabs.", "round": 1, "is_read": True}]
        assert [frame["outcome"] for frame in watching.frames if frame["type"] == "completed"] == ["cancelled"]
        again = client.post("/api/runs/loop-l1/stop", json={})
        assert (again.status_code, again.json()["code"]) == (409, "conflict")
    watching.close()


@pytest.mark.slow
def test_a_loop_can_be_stopped_after_its_step(loops: Loops) -> None:
    """Stop without `now` lets the agent finish, and the loop ends before the next step."""
    thread = loops.begin("waiter")
    with loops.gateway.client() as client:
        assert client.post("/api/runs/loop-l1/stop", json={}).json()["loop"]["is_stopping"] is True
        loops.gate.touch()
        thread.join()
        loop = client.get("/api/runs/loop-l1").json()["loop"]
    assert loop["status"] == 130
    assert [step["state"] for step in loop["steps"] if step["kind"] == "work"] == ["ok"]


@pytest.mark.slow
def test_an_agent_that_is_not_there_is_a_turn_that_failed(loops: Loops) -> None:
    """A step without a recording is a turn that failed, and the next agent of the chain is the next turn."""
    config = loops.desk.config_file
    config.write_text(config.read_text() + '[agents.absent]\nadapter = "claude"\ncommand = ["/nowhere/at-all"]\n')
    loops.gate.touch()
    loops.desk.run(loops.desk.settings("absent", "waiter"))
    watching = Watching(loops.gateway, "loop-l1")
    watching.until(lambda: watching.has("run"))
    turns = watching.frames[0]["turns"]
    assert [(turn["agent"], turn["outcome"]) for turn in turns[:2]] == [("absent", "error"), ("waiter", "ok")]
    watching.close()


@pytest.mark.slow
def test_a_message_that_cannot_be(loops: Loops) -> None:
    """An empty or a very long message is rejected; what is not a loop cannot be stopped or written to."""
    loops.desk.run(loops.desk.settings("fixer"))
    with loops.gateway.client() as client:
        for text in ("", " \n", "x" * 100_001):
            assert client.post("/api/runs/loop-l1/messages", json={"text": text}).status_code == 400
        assert client.post("/api/runs/doc-1/messages", json={"text": "x"}).status_code == 404
        assert client.post("/api/runs/doc-1/stop", json={}).status_code == 404
    assert LoopInbox(loops.gateway.folder / "loops" / "l1").letters() == []


# --- what a client cannot reach ---


def test_every_address_needs_authentication(shared: Gateway) -> None:
    """Without the token, nothing of a document or loop is answered, not even whether it exists."""
    paths = ["/api/runs", "/api/runs/x", "/api/runs/x/events", "/api/runs/x/turns/1/details"]
    paths += ["/api/runs/x/steps/1/output", "/api/runs/x/rounds/1/changes"]
    with httpx.Client(base_url=shared.url, trust_env=False) as client:
        assert {client.get(path).status_code for path in paths} == {401}
        posts = ["/api/runs/x/stop", "/api/runs/x/messages"]
        assert {client.post(path, json={"text": "x"}).status_code for path in posts} == {401}


@pytest.mark.parametrize("id", ["..", "../docs", "%2e%2e", "%2e%2e%2fchats.db", "docs%2Fx", "doc-", "a" * 65])
def test_an_id_is_never_a_path(shared: Gateway, id: str) -> None:
    """An id that is not in the list is not found, however it is written."""
    answered = shared.raw(
        f"GET /api/runs/{id}/events HTTP/1.1\r\nHost: 127.0.0.1:{shared.port}\r\n"
        f"Authorization: {shared.bearer['Authorization']}\r\nConnection: close\r\n\r\n".encode()
    )
    assert answered.startswith(b"HTTP/1.1 404"), answered[:100]


def test_links_are_not_followed(documents: Documents, tmp_path: Path) -> None:
    """A folder of a document, or of a recording, that is a link to another place is not read."""
    documents.answer(documents.file())
    [folder] = [it for it in (documents.gateway.folder / "docs").iterdir() if it.is_dir()]
    away = tmp_path / "away"
    [recording] = (folder / "recordings").iterdir()
    recording.rename(away)
    recording.symlink_to(away)
    [run] = listed(documents.gateway)
    watching = Watching(documents.gateway, run["id"])
    watching.until(lambda: watching.has("run"))
    assert watching.frames[0]["turns"] == []
    watching.close()
    folder.rename(tmp_path / "moved")
    folder.symlink_to(tmp_path / "moved")
    assert listed(documents.gateway) == []


@pytest.mark.parametrize("name", ["input.ndjson", "times", "meta.json"])
@pytest.mark.parametrize("has_writer", [False, True])
def test_a_pipe_in_a_recording(tmp_path: Path, name: str, has_writer: bool) -> None:
    """It is not waited for: the thread that reads would be lost to the other clients."""
    folder = tmp_path / "recording"
    shutil.copytree(RECORDINGS / "thinktools", folder)
    (folder / "meta.json").write_text("{")
    whole = RecordingReader(folder).read(is_live=False)
    assert len(whole) > 20
    (folder / name).unlink(missing_ok=True)
    os.mkfifo(folder / name)
    held = [os.open(folder / name, os.O_RDWR)] if has_writer else []
    found: list[list[Event]] = []
    thread = threading.Thread(target=lambda: found.append(RecordingReader(folder).read(is_live=False)), daemon=True)
    thread.start()
    thread.join(20)
    for fd in held:
        os.close(fd)
    assert [len(events) for events in found] == [0 if name == "input.ndjson" else len(whole)]


# --- landing ---


class Landings:
    """A gateway, and a loop below its root that has ended with a commit."""

    def __init__(self, gateway: Gateway) -> None:
        self.gateway = gateway
        folder = gateway.root / "desk"
        folder.mkdir()
        self.desk = Desk(folder)
        self.desk.data = gateway.folder
        self.desk.agent("worker", 'echo theirs > shared; touch done; reply "Add done"')
        assert self.desk.run(self.desk.settings("worker"))[0] == 0

    def trust(self) -> None:
        """Trust the directory of the repository."""
        with self.gateway.client() as client:
            client.post("/api/workspaces", json={"path": str(self.desk.user.root)}).raise_for_status()

    def land(self, **body: object) -> httpx.Response:
        """Ask for the landing."""
        with self.gateway.client() as client:
            return client.post("/api/runs/loop-l1/land", json=body)

    @property
    def loop(self) -> dict[str, Any]:
        """State of the loop."""
        with self.gateway.client() as client:
            found: dict[str, Any] = client.get("/api/runs/loop-l1").json()["loop"]
            return found


@pytest.fixture
def landings(own: Callable[..., Gateway]) -> Landings:
    """A gateway with a loop that can be landed."""
    return Landings(own())


@pytest.mark.slow
def test_a_loop_is_landed_in_a_trusted_directory(landings: Landings) -> None:
    """Nothing is merged before the directory is trusted; then the branch has the commits, and a second time is 409."""
    assert landings.loop["can_land"] is True
    before = landings.desk.user.git("rev-parse", "main")
    refused = landings.land()
    assert (refused.status_code, refused.json()["code"]) == (409, "untrusted_directory")
    assert landings.desk.user.git("rev-parse", "main") == before
    landings.trust()
    landed = landings.land()
    assert (landed.status_code, landed.json()["loop"]["landed"]) == (200, "main")
    assert landed.json()["run"]["note"] == "landed in main"
    assert landings.desk.user.git("rev-parse", "main") == landings.desk.user.git("rev-parse", "penstock/l1")
    assert (landings.desk.user.root / "done").exists()
    assert "can_land" not in landings.loop
    again = landings.land()
    assert (again.status_code, again.json()["code"]) == (409, "conflict")


@pytest.mark.slow
def test_a_landing_as_one_commit(landings: Landings) -> None:
    """With `squash` the branch gets one commit, which is not that of the loop."""
    landings.trust()
    before = landings.desk.user.git("rev-parse", "main")
    assert landings.land(squash=True).status_code == 200
    assert landings.desk.user.git("rev-parse", "main^") == before
    assert landings.desk.user.git("rev-parse", "main") != landings.desk.user.git("rev-parse", "penstock/l1")


@pytest.mark.slow
def test_a_landing_with_conflicts(landings: Landings) -> None:
    """Files that both sides have changed are named, with what to do; nothing has changed."""
    landings.trust()
    before = landings.desk.user.commit("Ours", {"shared": "ours\n"})
    found = landings.land()
    assert (found.status_code, found.json()["code"], found.json()["paths"]) == (409, "conflict", ["shared"])
    assert "penstock loop land l1 --resolve" in found.json()["help"]
    assert landings.desk.user.git("rev-parse", "main") == before
    assert landings.loop["can_land"] is True


@pytest.mark.slow
def test_a_merge_is_left_to_the_terminal(landings: Landings) -> None:
    """A branch that has gone on needs the checks on the merge, which nobody waits for on the page: nothing changes."""
    landings.trust()
    before = landings.desk.user.commit("Ours", {"other": "ours\n"})
    found = landings.land()
    assert (found.status_code, found.json()["code"]) == (409, "conflict")
    assert "penstock loop land in a terminal" in found.json()["help"]
    assert landings.desk.user.git("rev-parse", "main") == before


@pytest.mark.slow
def test_a_landing_over_files_of_the_user(landings: Landings) -> None:
    """A file that is not committed is not overwritten: it is named."""
    landings.trust()
    landings.desk.user.write({"shared": "mine\n"})
    found = landings.land()
    assert (found.status_code, found.json()["paths"]) == (409, ["shared"])
    assert (landings.desk.user.root / "shared").read_text() == "mine\n"


@pytest.mark.slow
def test_no_landing_outside_of_the_roots(loops: Loops) -> None:
    """The repository of a loop may be anywhere; the server merges only below its roots."""
    assert loops.desk.run(loops.desk.settings("fixer"))[0] == 0
    with loops.gateway.client() as client:
        found = client.post("/api/runs/loop-l1/land", json={})
    assert (found.status_code, found.json()["code"]) == (403, "forbidden")


@pytest.mark.slow
def test_no_landing_of_a_loop_that_runs(landings: Landings) -> None:
    """A loop that runs has nothing to land yet."""
    gate = landings.desk.scripts / "gate"
    landings.desk.agent("waiter", 'while [ ! -e "$DESK/gate" ]; do sleep 0.02; done; touch more; reply "Add more"')
    landings.trust()
    journal = landings.desk.begin(landings.desk.settings("waiter", checks=("test -e more",)), "l2")
    engine, _ = landings.desk.engine(journal)

    def run() -> None:
        engine.run()
        journal.close()

    thread = threading.Thread(target=run)
    thread.start()
    try:
        with landings.gateway.client() as client:
            found = client.post("/api/runs/loop-l2/land", json={})
        assert (found.status_code, found.json()["code"]) == (409, "conflict")
    finally:
        gate.touch()
        thread.join()
