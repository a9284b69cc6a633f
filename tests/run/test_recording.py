"""Records of runs: what is in them, what never, and what is left of one when the disk or Penstock fails."""

from __future__ import annotations

import errno
import json
import os
import re
import shutil
import stat
import subprocess
import sys
import tempfile
import threading
import time
from pathlib import Path
from typing import Any

import pytest
from effort import at_most
from hypothesis import given, settings
from hypothesis import strategies as st

from penstock.core.normalizer.outcome import Exit
from penstock.errors import UsageError
from penstock.run import recording as recordings
from penstock.run.recording import MAX_STDERR_BYTES, RecordingWriter
from penstock.run.replay import MAX_NAMED, find, read_times, replay

ROOT = Path(__file__).parents[2]
TOOLS = ROOT / "tests" / "recordings" / "claude" / "tools" / "input.ndjson"
TIMEOUT = 60
"""Seconds after which a process hangs; none takes a tenth of it."""
MARKER = "marker-7f3a9c-of-the-environment"


def begin(directory: Path, **more: Any) -> RecordingWriter:
    """A record of a run of claude."""
    facts = {"agent": "claude", "label": "claude", "route": "exec", "argv": ["claude", "-p"], "cwd": None}
    return RecordingWriter.begin(directory, **{**facts, **more})


def end(writer: RecordingWriter, **more: Any) -> None:
    """The regular end of a run."""
    facts = {"outcome": "ok", "reason": None, "exit_status": 0, "duration_ms": 5}
    writer.end(**{**facts, **more})


def replayed(path: Path) -> list[tuple[bytes, int | None]]:
    """What a replay feeds, at once."""
    found = find(path)
    return list(replay(found.input, whole=found.cut is not None, sleep=lambda seconds: None))


def meta_of(folder: Path) -> dict[str, Any]:
    """What the record says of itself."""
    meta: dict[str, Any] = json.loads((folder / "meta.json").read_text("utf-8"))
    return meta


def environment() -> dict[str, str]:
    """For a process of its own: nothing configured, and a secret that no record may hold."""
    path = os.pathsep.join([str(ROOT / "src"), os.environ.get("PYTHONPATH", "")]).rstrip(os.pathsep)
    return {
        **os.environ,
        "PYTHONPATH": path,
        "XDG_CONFIG_HOME": "nowhere",
        "A_NAME_LIKE_ANY": MARKER,
        "API_KEY": MARKER,
    }


def python(script: str, *words: object, before: tuple[str, ...] = ()) -> str:
    """What a script prints in a process of its own."""
    done = subprocess.run(
        [*before, sys.executable, "-c", script, *map(str, words)],
        capture_output=True,
        text=True,
        env=environment(),
        timeout=TIMEOUT,
        check=False,
    )
    assert (done.returncode, done.stderr) == (0, "")
    return done.stdout


def penstock(*words: object) -> subprocess.CompletedProcess[str]:
    """Run the command line."""
    command = [sys.executable, "-m", "penstock", *map(str, words)]
    return subprocess.run(command, capture_output=True, text=True, env=environment(), timeout=TIMEOUT, check=False)


# --- what is in a record ---


def test_a_record(tmp_path: Path) -> None:
    """Each byte lies where it belongs, as it came, with its time, for the owner's eyes only."""
    record = begin(tmp_path / "not" / "there", label="codex here/now", agent="codex", route="server", cwd="/src")
    folder = record.folder
    record.sent(b'{"id":1}\n{"id":2}\n', 3)
    record.received(b'{"a', 40)
    record.received(b'":1}\n\xff\r\n{"half', 1002)
    record.errors(b"warn")
    record.errors(b"ing\n")
    end(record, outcome="error", reason="exit status 3", exit_status=3, duration_ms=70_000)
    assert record.problem is None
    assert folder.parent == tmp_path / "not" / "there"
    assert re.fullmatch(r"codex-here-now-\d{8}T\d{6}Z-[0-9a-f]{8}", folder.name)
    held = {path.name: path.read_bytes() for path in folder.iterdir()}
    meta = json.loads(held.pop("meta.json"))
    assert held == {
        "input.ndjson": b'{"a":1}\n\xff\r\n{"half',
        "times": b"1.002\n1.002\n",
        "sent.ndjson": b'{"id":1}\n{"id":2}\n',
        "sent.times": b"0.003\n0.003\n",
        "stderr": b"warning\n",
    }
    assert re.fullmatch(r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\.\d{3}\+00:00", meta.pop("started_at"))
    assert re.fullmatch(r"\d+\.\d+\.\d+", meta.pop("penstock"))
    assert meta == {
        "agent": "codex",
        "label": "codex here/now",
        "route": "server",
        "argv": ["claude", "-p"],
        "cwd": "/src",
        "ended": {"outcome": "error", "reason": "exit status 3", "exit_status": 3, "duration_ms": 70_000},
    }
    assert stat.S_IMODE(folder.stat().st_mode) == 0o700
    assert {stat.S_IMODE(path.stat().st_mode) for path in folder.iterdir()} == {0o600}


def test_it_is_on_disk_at_once(tmp_path: Path) -> None:
    """What was received can be read by others while the run goes on."""
    record = begin(tmp_path)
    record.received(b"one\ntw", 1500)
    assert (record.folder / "input.ndjson").read_bytes() == b"one\ntw"
    assert (record.folder / "times").read_bytes() == b"1.500\n"
    assert "ended" not in meta_of(record.folder)
    end(record)
    assert meta_of(record.folder)["ended"]["outcome"] == "ok"


@pytest.mark.parametrize(
    ("label", "begins"),
    [("../../etc", "etc-"), ("ccs/glm", "ccs-glm-"), ("", "agent-"), (".\0\n/", "agent-"), ("ü" * 500, "agent-"),
     ("a" * 500, "a" * 40 + "-2")],
)  # fmt: skip
def test_any_label_gives_a_safe_name(tmp_path: Path, label: str, begins: str) -> None:
    """A label never leads out of the directory, nor makes a name that a disk refuses."""
    record = begin(tmp_path, label=label)
    assert record.folder.parent == tmp_path
    assert record.folder.name.startswith(begins)
    assert meta_of(record.folder)["label"] == label
    record.close()


def test_stderr_is_bounded(tmp_path: Path) -> None:
    """A flood on stderr is kept from its beginning up to the limit, and what is missing is counted."""
    record = begin(tmp_path)
    for _ in range(3):
        record.errors(b"x" * (MAX_STDERR_BYTES - 1))
    end(record)
    assert (record.folder / "stderr").stat().st_size == MAX_STDERR_BYTES
    assert meta_of(record.folder)["ended"]["stderr_left_out"] == 2 * MAX_STDERR_BYTES - 3
    assert record.problem is None


def test_the_end_follows_no_link(tmp_path: Path) -> None:
    """An agent that can write into the folder does not have another file written."""
    mine = tmp_path / "mine"
    mine.write_text("Mine.")
    record = begin(tmp_path)
    (record.folder / "meta.json.new").symlink_to(mine)
    end(record)
    assert record.problem is None
    assert mine.read_text() == "Mine."
    assert json.loads((record.folder / "meta.json").read_text())["ended"]["outcome"] == "ok"


def test_after_the_end_nothing_is_written(tmp_path: Path) -> None:
    """A second end, and what comes after the first, change nothing and let no file open."""
    record = begin(tmp_path)
    record.received(b"one\n", 1)
    end(record)
    before = {path.name: path.read_bytes() for path in record.folder.iterdir()}
    record.received(b"two\n", 2)
    record.sent(b"three\n", 2)
    record.errors(b"four\n")
    end(record, outcome="error")
    record.close()
    assert {path.name: path.read_bytes() for path in record.folder.iterdir()} == before


def test_words_that_are_no_utf8(tmp_path: Path) -> None:
    """Arguments, folders and reasons that JSON cannot hold are made readable, not fatal."""
    record = begin(tmp_path, argv=["claude", "\udcff\ud800"], cwd="/x\udce4", label="\udcfc")
    end(record, reason="\ud83d")
    meta = meta_of(record.folder)
    assert (set(meta["argv"][1]), meta["cwd"][:2], meta["ended"]["reason"][:1]) == ({"\ufffd"}, "/x", "\ufffd")


def test_many_begin_at_once(tmp_path: Path) -> None:
    """Runs of one label that begin together get a folder each, and each its own bytes."""
    made: list[RecordingWriter] = []
    barrier = threading.Barrier(8)

    def work(number: int) -> None:
        barrier.wait()
        for _ in range(5):
            record = begin(tmp_path / "records")
            for line in range(50):
                record.received(b"%d %d\n" % (number, line), line)
            record.errors(str(number).encode())
            end(record)
            made.append(record)

    threads = [threading.Thread(target=work, args=(number,)) for number in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert len({record.folder for record in made}) == 40
    for record in made:
        number = (record.folder / "stderr").read_bytes()
        assert replayed(record.folder) == [(b"%s %d\n" % (number, line), line) for line in range(50)]


@settings(max_examples=at_most(20, 60))
@given(
    st.lists(
        st.tuples(
            st.one_of(st.binary(max_size=40), st.lists(st.sampled_from([b"{}", b"\n", b"\r\n"])).map(b"".join)),
            st.integers(0, 100_000),
        )
    )
)
def test_any_chunks(chunks: list[tuple[bytes, int]]) -> None:
    """However the bytes are cut, the record holds them as they came, a time for each line's end, and replays them."""
    now, expected = 0, []
    with tempfile.TemporaryDirectory() as directory:
        record = begin(Path(directory))
        for data, passed in chunks:
            now += passed
            record.received(data, now)
            expected += [now] * data.count(b"\n")
        cut = replayed(record.folder)
        end(record)
        whole = b"".join(data for data, _ in chunks)
        assert (record.folder / "input.ndjson").read_bytes() == whole
        assert [round(moment * 1000) for moment in read_times(record.folder / "input.ndjson")] == expected
        lines = replayed(record.folder)
        assert b"".join(line for line, _ in lines) == whole
        assert [at for line, at in lines if line.endswith(b"\n")] == expected
        assert cut == [pair for pair in lines if pair[0].endswith(b"\n")]


# --- what never is ---


def test_no_secret_of_the_environment(tmp_path: Path) -> None:
    """No value of the environment lies anywhere in a record, whatever its name is."""
    script = """
import sys
from pathlib import Path
from penstock.run.recording import RecordingWriter
import os
writer = RecordingWriter.begin(Path(sys.argv[1]), agent="claude", label="claude", route="exec", cwd="/src",
                        argv=["claude", "--x", "y" + os.environ["API_KEY"], "--", "say " + os.environ["API_KEY"]])
writer.received(b"{}\\n", 1)
writer.end(outcome="ok", reason=None, exit_status=0, duration_ms=1)
print(writer.folder)
"""
    folder = Path(python(script, tmp_path).strip())
    held = b"".join(path.read_bytes() for path in folder.iterdir())
    assert MARKER.encode() not in held
    assert b'"say [redacted]"' in held


ACP_AGENT = """
import json, sys
results = {
    "initialize": {"protocolVersion": 1},
    "session/new": {"sessionId": "s"},
    "session/prompt": {"stopReason": "end_turn"},
}
text = {"sessionUpdate": "agent_message_chunk", "content": {"type": "text", "text": "Done."}}
update = {"jsonrpc": "2.0", "method": "session/update", "params": {"sessionId": "s", "update": text}}
for line in sys.stdin:
    asked = json.loads(line)
    if asked.get("method") == "session/prompt":
        print(json.dumps(update), flush=True)
    if asked.get("method") in results:
        print(json.dumps({"jsonrpc": "2.0", "id": asked["id"], "result": results[asked["method"]]}), flush=True)
"""


def test_no_value_of_an_mcp_server(tmp_path: Path) -> None:
    """No value of a variable of an MCP server is recorded; its name and the rest of the lines are."""
    (tmp_path / "agent.py").write_text(ACP_AGENT)
    server = {"command": "zoo", "env": {"NAME": "k7", "OTHER": "a long value"}}
    (tmp_path / "mcp.json").write_text(json.dumps({"mcpServers": {"zoo": server}}))
    agent = f"acp:{sys.executable} {tmp_path / 'agent.py'}"
    done = penstock("run", agent, "hi", "--mcp-config", tmp_path / "mcp.json", "--record", tmp_path / "runs")
    assert done.returncode == 0, done.stderr
    [folder] = (tmp_path / "runs").iterdir()
    lines = [json.loads(line) for line in (folder / "sent.ndjson").read_text().splitlines()]
    assert [line.get("method") for line in lines] == ["initialize", "session/new", "session/prompt"]
    [zoo] = lines[1]["params"]["mcpServers"]
    assert zoo["env"] == [{"name": "NAME", "value": "[redacted]"}, {"name": "OTHER", "value": "[redacted]"}]
    assert b"a long value" not in b"".join(path.read_bytes() for path in folder.iterdir())


@pytest.mark.parametrize(
    ("argv", "kept"),
    [
        (["--api-key", "s3cret", "-p"], ["--api-key", "[redacted]", "-p"]),
        (["--token=s3cret", "-p"], ["--token=[redacted]", "-p"]),
        (["--password", "-s3cret"], ["--password", "[redacted]"]),
        (["--no-auth", "--model", "m"], ["--no-auth", "--model", "m"]),
        (["-c", 'model_providers.x.secret="s3cret s3cret"'], ["-c", "model_providers.x.secret=[redacted]"]),
        (["OPENAI_API_KEY=s3cret"], ["OPENAI_API_KEY=[redacted]"]),
        (["-H", "Authorization: Bearer s3cret"], ["-H", "Authorization: [redacted]"]),
        (["X: Bearer s3cret"], ["X: Bearer [redacted]"]),
        (['{"env":{"MY_TOKEN": "s3c\\"ret","a":1}}'], ['{"env":{"MY_TOKEN": [redacted],"a":1}}']),
        (["{ authToken = 's3cret', b = 2 }"], ["{ authToken = [redacted], b = 2 }"]),
        (["https://me:s3cret@host/x?a=1&key=s3cret&b=2"], ["https://[redacted]@host/x?a=1&key=[redacted]&b=2"]),
        (["--model", "sonnet", "-p", "fix a=b: it"], ["--model", "sonnet", "-p", "fix a=b: it"]),
        (["--", "--token", "what is key: value?"], ["--", "--token", "what is key: value?"]),
    ],
)
def test_values_that_look_secret(argv: list[str], kept: list[str]) -> None:
    """The values of flags and fields named like secrets are not written down; the rest of the command line is."""
    assert recordings.redacted(["agent", *argv]) == ["agent", *kept]


@pytest.mark.sample(3)
@pytest.mark.parametrize("piece", ["key", "a", "-key", '"key":"\\', "://", "key=", "Bearer "])
def test_redacting_is_quick_whatever_stands_there(piece: str) -> None:
    """An argument of the largest size holds nothing up: a record begins before the agent does."""
    script = (
        "import sys; from penstock.run.recording import redacted; print(len(redacted(['x', sys.argv[1] * 16_000])))"
    )
    assert python(script, piece) == "2\n"


# --- when something fails ---


def test_no_place_for_a_record(tmp_path: Path) -> None:
    """A directory that cannot be is refused before anything starts, and nothing is left behind."""
    (tmp_path / "file").touch()
    for directory in (tmp_path / "file", tmp_path / "file" / "below", tmp_path / "a\0b", tmp_path / ("n" * 300)):
        with pytest.raises(UsageError, match=r"no record can be written in .*; expected a directory"):
            begin(directory)
    assert [path.name for path in tmp_path.iterdir()] == ["file"]


def test_a_folder_that_is_taken_away(tmp_path: Path) -> None:
    """A record whose folder is deleted in mid-run says so, and raises nothing."""
    record = begin(tmp_path)
    record.received(b"one\ntwo", 1)
    shutil.rmtree(record.folder)
    record.sent(b"three\n", 2)
    assert record.problem == "the record stopped after 4 bytes: No such file or directory"
    record.received(b"four\n", 3)
    end(record)
    assert record.problem == "the record stopped after 4 bytes: No such file or directory"
    assert list(tmp_path.iterdir()) == []


def test_a_file_that_may_not_grow(tmp_path: Path) -> None:
    """Where a file reaches its size limit, the record ends with its last whole line, and the run goes on."""
    script = """
import resource, sys
from pathlib import Path
from penstock.run.recording import RecordingWriter
writer = RecordingWriter.begin(Path(sys.argv[1]), agent="claude", label="claude", route="exec", argv=["claude"])
resource.setrlimit(resource.RLIMIT_FSIZE, (1000, 1000))
for number in range(40):
    writer.received(b'{"type":"x","number":%04d}\\n{"type":"x"' % number, number * 10)
    writer.received(b',"second":%04d}\\n' % number, number * 10 + 5)
writer.end(outcome="ok", reason=None, exit_status=0, duration_ms=400)
print(writer.folder, writer.problem, sep="|")
"""
    folder, problem = python(script, tmp_path).strip().split("|")
    data = (Path(folder) / "input.ndjson").read_bytes()
    assert problem == f"the record stopped after {len(data)} bytes: File too large"
    assert 950 < len(data) <= 1000
    assert data.endswith(b"}\n")
    assert meta_of(Path(folder))["problem"] == problem
    found = find(tmp_path)
    assert (found.cut, found.agent) == (problem, "claude")
    lines = replayed(tmp_path)
    assert b"".join(line for line, _ in lines) == data
    assert [at for _, at in lines] == [number // 2 * 10 + number % 2 * 5 for number in range(len(lines))]


FULL_DISK = """
import json, os, sys
from pathlib import Path
from penstock.errors import UsageError
from penstock.run.recording import RecordingWriter
from penstock.run.replay import find, replay
directory = Path(sys.argv[1])
facts = dict(agent="claude", label="claude", route="exec", argv=["claude"])
writer = RecordingWriter.begin(directory, **facts)
for number in range(3000):
    writer.received(b'{"type":"x","number":%05d}\\n{"ty' % number, number)
    writer.received(b'pe":"y"}\\n', number)
data = (writer.folder / "input.ndjson").read_bytes()
writer.end(outcome="ok", reason=None, exit_status=0, duration_ms=400)
found = find(directory)
lines = list(replay(found.input, whole=found.cut is not None, sleep=lambda seconds: None))
with open(directory / "filler", "wb", buffering=0) as filler:
    try:
        while True:
            filler.write(bytes(4096))
    except OSError:
        pass
try:
    RecordingWriter.begin(directory, **facts)
    refused = None
except UsageError as error:
    refused = error.what
print(json.dumps({"problem": writer.problem, "size": len(data), "tail": data[-9:].decode(), "cut": found.cut,
                  "same": b"".join(line for line, _ in lines) == data, "lines": len(lines), "refused": refused,
                  "left": sum(path.is_dir() and any(path.iterdir()) for path in directory.iterdir())}))
"""


def test_a_full_disk(tmp_path: Path) -> None:
    """A real disk that is full ends the record with its last whole line; a new record is refused there."""
    inside = ("unshare", "-rm", "sh", "-c", 'mount -t tmpfs -o size=96k none "$0" && exec "$@"', str(tmp_path))
    try:
        subprocess.run([*inside, "true"], check=True, capture_output=True, timeout=TIMEOUT)
    except (OSError, subprocess.CalledProcessError):
        pytest.skip("full disk: this machine gives no file system of its own (unshare -rm)")
    told = json.loads(python(FULL_DISK, tmp_path, before=inside))
    assert told["problem"] == f"the record stopped after {told['size']:,} bytes: No space left on device"
    assert told["cut"]
    assert told["tail"].endswith("}\n")
    assert told["same"]
    assert 30_000 < told["size"] < 96 * 1024
    assert told["lines"] > 1000
    assert "No space left on device" in told["refused"]
    assert told["left"] == 1


WRITER = """
import itertools, sys
from pathlib import Path
from penstock.run.recording import RecordingWriter
writer = RecordingWriter.begin(Path(sys.argv[1]), agent="claude", label="victim", route="exec", argv=["claude"])
for number in itertools.count():
    writer.received(b'{"type":"x","n":%d}\\n{"type":"x",' % number, number)
    writer.received(b'"n":"%d and a half"}\\n' % number, number)
"""


@pytest.fixture
def killed(tmp_path: Path) -> Path:
    """The record of a process that was killed with -9 in the middle of its writing."""
    process = subprocess.Popen([sys.executable, "-c", WRITER, str(tmp_path)], env=environment())
    try:
        deadline = time.monotonic() + TIMEOUT
        while sum(path.stat().st_size for path in tmp_path.glob("*/input.ndjson")) < 100_000:
            assert time.monotonic() < deadline
            assert process.poll() is None
            time.sleep(0.01)
    finally:
        process.kill()
        process.wait(TIMEOUT)
    return tmp_path


@pytest.mark.slow
def test_kill_9(killed: Path) -> None:
    """A record whose writer was killed replays to its last whole line, each with its time."""
    found = find(killed)
    assert found.cut is not None
    assert "its end was never written" in found.cut
    lines = replayed(killed)
    assert len(lines) > 1000
    for index, (line, at) in enumerate(lines):
        number, half = divmod(index, 2)
        assert line == (b'{"type":"x","n":"%d and a half"}\n' if half else b'{"type":"x","n":%d}\n') % number
        # Only the last line may have been written before its time was.
        assert at == number or index >= len(lines) - 1
    done = penstock("replay", killed, "--speed", "1000000", "--to", "ndjson")
    assert done.stderr == f"penstock: the recording was cut after {len(lines):,} lines: {found.cut}\n"
    events = [json.loads(line) for line in done.stdout.splitlines()]
    assert {event["agent"] for event in events} == {"victim"}
    assert events[-1]["outcome"] == "error"  # no line of it is of the agent


def test_a_time_that_was_cut(tmp_path: Path) -> None:
    """The times of a cut record are read to their last whole line: a half number is another number."""
    record = begin(tmp_path)
    record.received(b"a\n", 1000)
    record.received(b"b\n", 25_000)
    record.received(b"c\n", 25_000)
    record.close()
    with (record.folder / "times").open("r+b") as times:
        times.truncate(len(b"1.000\n25.000\n2"))
    assert replayed(tmp_path) == [(b"a\n", 1000), (b"b\n", 25_000), (b"c\n", 25_000)]


# --- replaying ---


@pytest.fixture
def record(tmp_path: Path) -> Path:
    """The record of a whole run of claude, under a label of its own."""
    record = begin(tmp_path / "records", label="reviewer")
    for number, line in enumerate(TOOLS.read_bytes().splitlines(keepends=True)):
        record.received(line, number)
    end(record)
    return record.folder


def test_a_record_replays_as_its_run(record: Path) -> None:
    """Folder, directory and file give the events of the run, by the recorded agent and label, with its times.

    With times there are also the durations of the calls.
    """
    wanted = [
        json.loads(line)
        for line in penstock("read", TOOLS, "--label", "reviewer", "--to", "ndjson").stdout.splitlines()
    ]
    for path in (record, record.parent, record / "input.ndjson"):
        done = penstock("replay", path, "--speed", "1000000", "--to", "ndjson")
        assert (done.returncode, done.stderr) == (0, "")
        events = [json.loads(line) for line in done.stdout.splitlines()]
        assert events[-1].pop("at") == TOOLS.read_bytes().count(b"\n") - 1
        assert all(event.pop("duration_ms") >= 0 for event in events if event["type"] == "tool_returned")
        assert [{**event, "at": 0} for event in events] == [{**event, "at": 0} for event in wanted]


@pytest.mark.slow
def test_a_flag_is_stronger_than_the_record(record: Path) -> None:
    """`--agent` and `--label` have their way."""
    done = penstock("replay", record, "--agent", "ccs", "--label", "me", "--speed", "1000000")
    assert "[me] " in done.stdout
    assert "[me] " in penstock("replay", record, "--label", "me", "--speed", "1000000").stdout
    assert "[ccs] " in penstock("replay", record, "--agent", "ccs", "--speed", "1000000").stdout


def test_a_record_of_somebody_else(tmp_path: Path) -> None:
    """Control characters in what a record says of itself never reach a terminal."""
    record = begin(tmp_path, label="\x1b[2Ja\nb")
    record.received(b'{"type":"system"}\n{', 7)
    end(record)
    found = find(tmp_path)
    assert found.label == "[2Jab"
    done = penstock("replay", tmp_path)
    assert "\x1b" not in done.stdout + done.stderr
    assert "[2Jab: 1 line could not be parsed" in done.stderr


def test_a_half_line_of_a_whole_record(tmp_path: Path) -> None:
    """Where the record is whole, a last line without its end is what the agent printed, and is fed."""
    record = begin(tmp_path)
    record.received(b'{"type":"system"}\n{"ty', 7)
    assert replayed(tmp_path) == [(b'{"type":"system"}\n', 7)]
    end(record)
    assert replayed(tmp_path) == [(b'{"type":"system"}\n', 7), (b'{"ty', 7)]


@pytest.mark.parametrize(
    ("agent", "route", "reader"),
    [
        ("codex", "server", "codex/server"),
        ("codex", "exec", "codex"),
        ("claude", "server", "claude/server"),
        ("gemini", "acp", "gemini/acp"),
        ("acp", "acp", "acp/acp"),
        ("ccs/glm", "exec", "ccs/glm"),
        ("mine", "exec", "mine"),
        ("codex", "of tomorrow", "codex"),
    ],
)
def test_the_reader_of_a_record(tmp_path: Path, agent: str, route: str, reader: str) -> None:
    """What was spoken over a two-way route is read by that route's reader."""
    begin(tmp_path, agent=agent, label="mine", route=route).close()
    found = find(tmp_path)
    assert (found.agent, found.label) == (reader, "mine")


@pytest.mark.parametrize(
    ("ended", "exit"),
    [
        ({}, Exit(code=0)),
        (
            {"outcome": "error", "exit_status": -9, "reason": "killed by signal 9"},
            Exit(signal=9, why="killed by signal 9"),
        ),
        ({"outcome": "timed_out", "exit_status": None, "reason": "too long"}, Exit(timed_out=True, why="too long")),
        ({"outcome": "cancelled", "exit_status": 130}, Exit(cancelled=True)),
        ({"outcome": "ok", "exit_status": -2}, Exit()),
    ],
)
def test_how_a_recorded_run_ended(tmp_path: Path, ended: dict[str, Any], exit: Exit) -> None:
    """The end of the process is in the record, for whoever replays it."""
    record = begin(tmp_path)
    assert find(tmp_path).exit is None
    end(record, **ended)
    found = find(tmp_path)
    assert (found.exit, found.cut) == (exit, None)


def test_several_records_are_named(tmp_path: Path) -> None:
    """Of several records one must be chosen, and the newest are named; a directory without any says so."""
    with pytest.raises(UsageError, match=r"there is no record in .*; expected a folder with input\.ndjson"):
        find(tmp_path)
    folders = []
    for number in range(MAX_NAMED + 2):
        record = begin(tmp_path)
        end(record)
        os.utime(record.folder / "input.ndjson", (number, number))
        folders.append(record.folder)
    newest = ", ".join(map(str, folders[:1:-1]))
    done = penstock("replay", tmp_path)
    assert (done.returncode, done.stdout) == (2, "")
    assert done.stderr.endswith(
        f"there are 7 records in {str(tmp_path)!r}; name one, the newest first: {newest} and 2 more\n"
    )


@pytest.mark.parametrize("text", ["", "{", "[]", '{"agent":1}', '{"agent":"x"}', "[" * 100_000, '"\\ud800"'])
def test_a_record_that_says_nothing_of_itself(tmp_path: Path, text: str) -> None:
    """A broken `meta.json` is named with a way out; the lines beside it can still be replayed."""
    record = begin(tmp_path)
    record.received(b"{}\n", 4)
    record.close()
    (record.folder / "meta.json").write_text(text, "utf-8")
    with pytest.raises(UsageError, match=r"cannot read '.*meta\.json'.*; expected a record; replay its input\.ndjson"):
        find(tmp_path)
    assert replayed(record.folder / "input.ndjson") == [(b"{}\n", 4)]


def test_a_recording_of_the_tests_is_a_folder_too() -> None:
    """A folder of `tests/recordings` is replayed by its name, with its times."""
    lines = replayed(TOOLS.parent)
    assert b"".join(line for line, _ in lines) == TOOLS.read_bytes()
    assert lines == replayed(TOOLS)
    assert find(TOOLS.parent).agent is None


def test_the_page_tells_the_form(tmp_path: Path) -> None:
    """`docs/recording.md` names each file of a record and each field of its `meta.json`, and no other."""
    page = (ROOT / "docs" / "recording.md").read_text("utf-8")
    files, fields = (re.split(r"\n\n", part)[0] for part in re.split(r"\|---\|---\|\n", page)[1:3])
    record = begin(tmp_path, cwd="/src")
    record.received(b"\n", 1)
    record.sent(b"\n", 1)
    record.errors(b"\n")
    end(record)

    def named(table: str) -> set[str]:
        return {name for row in table.splitlines() for name in re.findall(r"`([\w.]+)`", row.split("|")[1])}

    assert named(files) == {path.name for path in record.folder.iterdir()}
    assert named(fields) == set(recordings.Meta.__struct_fields__)
    assert all(f"`{name}`" in fields for name in recordings.Ended.__struct_fields__)


def test_no_file_is_left_open(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A record that ended, was closed or never began holds no file open."""
    opened = Path("/proc/self/fd")
    if not opened.is_dir():
        pytest.skip("open files: this system does not list them (/proc/self/fd)")
    ended, closed = begin(tmp_path), begin(tmp_path)
    for record in (ended, closed):
        record.sent(b"\n", 1)
        record.errors(b"\n")

    def held() -> int:
        return sum(str(tmp_path) in os.readlink(path) for path in opened.iterdir() if path.is_symlink())

    assert held() == 10
    end(ended)
    closed.close()
    assert held() == 0

    def full(folder: Path, meta: recordings.Meta) -> None:
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    monkeypatch.setattr(recordings, "_write_meta", full)
    with pytest.raises(UsageError, match="No space left on device"):
        begin(tmp_path)
    assert held() == 0
    assert {*tmp_path.iterdir()} == {ended.folder, closed.folder}
