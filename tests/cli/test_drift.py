"""`penstock drift` names what an installed program can print and Penstock does not know; the programs are stand-ins."""

from __future__ import annotations

import os
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import msgspec
import pytest

from penstock.agents import kinds, registry
from penstock.agents._facts import KindSource
from penstock.cli.main import main
from penstock.core.decoding import Decoded, Decoder
from penstock.core.health import Health
from penstock.core.unfamiliar import Unfamiliar
from penstock.run import drift_log, installed, process
from penstock.updates import Unknown

CLAUDE = (
    b'junk\0var q=1,aa=p(()=>c({type:x("assistant"),message:B()})),'
    b'ab=p(()=>sa().extend({type:x("system"),subtype:x("init"),u:r()})),'
    b'ac=p(()=>c({type:x("system"),subtype:x("%b"),text:r()})),ad=p(()=>lt([ae(),af()]).describe("end")),'
    b'ae=p(()=>c({type:x("result"),subtype:x("success")})),af=p(()=>ag().extend({uuid:g()})),ag=p(()=>c({type:x("user")})),'
    b'zz=p(()=>c({type:x("of_another_list")})),oa=p(()=>lt([aa(),ab(),ac(),ad()])'
    b'.describe("Every conversational and informational message the CLI emits on its output stream")),\0'
)
"""Part of an executable of Claude Code with the list of its messages, one of which has a name to fill in."""
CODEX = {
    "ServerNotification.json": {
        "definitions": {"ThreadItem": {"oneOf": [{"properties": {"type": {"enum": ["agentMessage"]}}}]}},
        "oneOf": [{"properties": {"method": {"enum": [it]}}} for it in ("item/completed", "turn/completed", "NEW")],
    },
    "ServerRequest.json": {"oneOf": [{"properties": {"method": {"const": "item/fileChange/requestApproval"}}}]},
}


@pytest.fixture
def bin(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Return the only folder in which agents are looked up."""
    folder = tmp_path / "bin"
    folder.mkdir()
    monkeypatch.setenv("PATH", f"{folder}:/usr/bin:/bin")
    monkeypatch.setenv("PENSTOCK_DATA", str(tmp_path / "data"))
    return folder


def program(path: Path, content: bytes | str) -> Path:
    """Write a program."""
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(content if isinstance(content, bytes) else content.encode())
    path.chmod(0o755)
    return path


def package(bin: Path, name: str, agent: str, version: str, files: dict[str, str]) -> Path:
    """Install an npm package whose program is the first of its files, and return its folder."""
    folder = bin.parent / "node_modules" / name
    for path, text in files.items():
        program(folder / path, text)
    (folder / "package.json").write_bytes(msgspec.json.encode({"name": name, "version": version}))
    (bin / agent).symlink_to(folder / next(iter(files)))
    return folder


def gemini(bin: Path, *names: str, version: str = "0.61.0") -> Path:
    """Install a stand-in for gemini that prints these kinds."""
    text = "".join(f'  JsonStreamEventType2["{name.upper()}"] = "{name}";\n' for name in names)
    updates = 'send({ sessionUpdate: "agent_message_chunk" });\n'
    return package(
        bin, "@google/gemini-cli", "gemini", version, {"bundle/gemini.js": "#!/bin/sh\n", "bundle/a.js": text + updates}
    )


def lines(capfd: pytest.CaptureFixture[str]) -> list[dict[str, Any]]:
    """Return the JSON lines that were printed."""
    return [msgspec.json.decode(line) for line in capfd.readouterr().out.splitlines()]


def test_all_is_known(bin: Path, capfd: pytest.CaptureFixture[str]) -> None:
    """The kinds of a program are compared with the tables; the version is that of its package, so it is not started."""
    gemini(bin, "init", "message", "error")
    assert main(["drift", "--json"]) == 0
    exec_, acp = lines(capfd)
    assert (exec_["name"], exec_["route"], exec_["version"]) == ("gemini", "exec", "0.61.0")
    assert (exec_["read"], exec_.get("unknown", [])) == (["init", "message"], [])
    assert exec_["newer"] is False
    assert exec_["ignored"].keys() == {"error"}
    assert acp["read"] == ["session/update/agent_message_chunk"]


def test_what_is_unknown_is_named(bin: Path, capfd: pytest.CaptureFixture[str]) -> None:
    """A new kind is named and the status is 1; a newer version has its mark; a named agent has the reasons."""
    gemini(bin, "init", "rewind", "retry_later", "error", version="99.0.0")
    assert main(["drift", "gemini", "--json"]) == 1
    found = lines(capfd)[0]["unknown"]
    assert found == [{"name": "retry_later", "warns": True}, {"name": "rewind", "warns": False}]
    assert main(["drift", "gemini"]) == 1
    text = capfd.readouterr().out
    assert "gemini exec, unknown: retry_later, rewind" in text
    assert "99.0.0 ▲" in text
    assert kinds.table("gemini").routes["exec"].unseen["error"] in text


def test_the_list_of_claude_is_found(bin: Path, capfd: pytest.CaptureFixture[str]) -> None:
    """Only the members of the list count, each with its own name, in a program of any bytes."""
    program(bin / "claude", b"#!/bin/sh\necho 2.1.331\nexit\n" + b"\xff" * 1000 + CLAUDE % b"status" + b"\xfe" * 1000)
    assert main(["drift", "claude", "--json"]) == 0
    for row in lines(capfd):
        assert row["version"] == "2.1.331"
        assert sorted([*row["read"], *row["ignored"]]) == [
            "assistant",
            "result/success",
            "system/init",
            "system/status",
            "user",
        ]
    program(bin / "claude", b"#!/bin/sh\necho 2.1.331\nexit\n" + CLAUDE % b"took_back")
    assert main(["drift", "claude"]) == 1
    assert "claude exec, unknown: system/took_back\n" in capfd.readouterr().out


@pytest.mark.slow
def test_the_schema_of_codex_is_asked_for(bin: Path, capfd: pytest.CaptureFixture[str]) -> None:
    """Items have the kinds of their type; a name that is an escape sequence reaches no terminal; no file is left."""
    schema = msgspec.json.encode(CODEX["ServerRequest.json"]).decode()
    said = msgspec.json.encode(CODEX["ServerNotification.json"]).decode().replace("NEW", "\\u001b[2Jnew")
    where = f"{bin.parent}/where"
    program(
        bin / "codex",
        f"#!/bin/sh\n[ $1 = --version ] && echo 0.169.0 && exit\necho $4 > {where}\n"
        f"cat > $4/ServerNotification.json <<'E'\n{said}\nE\ncat > $4/ServerRequest.json <<'E'\n{schema}\nE\n",
    )
    assert main(["drift", "codex", "--json"]) == 1
    server = next(row for row in lines(capfd) if row["route"] == "server")
    assert server["read"] == ["item/completed/agentMessage", "item/fileChange/requestApproval", "turn/completed"]
    assert [it["name"] for it in server["unknown"]] == ["\x1b[2Jnew"]
    main(["drift", "codex"])
    assert "\x1b" not in capfd.readouterr().out
    assert not os.path.exists(Path(where).read_text().strip())


def test_an_agent_that_starts_another(bin: Path, capfd: pytest.CaptureFixture[str]) -> None:
    """Ccs has the kinds of the claude beside it, with its own version; without claude nothing is said to be known."""
    program(bin / "ccs", "#!/bin/sh\necho 7.79.1\n")
    assert main(["drift", "ccs"]) == 1
    assert "claude, which it starts, is not installed" in capfd.readouterr().out
    program(bin / "claude", b"#!/bin/sh\necho 2.1.331\nexit\n" + CLAUDE % b"status")
    assert main(["drift", "ccs", "--json"]) == 0
    for row in lines(capfd):
        assert row["version"] == "7.79.1"
        assert row["read"] == ["assistant", "result/success", "system/init", "user"]
    program(bin / "claude", b"#!/bin/sh\necho 2.1.331\nexit\n" + CLAUDE % b"took_back")
    assert main(["drift", "ccs"]) == 1
    assert "ccs exec, unknown: system/took_back\n" in capfd.readouterr().out


def test_a_program_of_python(bin: Path, capfd: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    """The files are those of its environment, also through a link into it, and the version is that of the package."""
    packages = tmp_path / "venv" / "lib" / "python3.12" / "site-packages"
    (packages / "mistral_vibe-3.0.9.dist-info").mkdir(parents=True)
    program(packages / "vibe" / "acp" / "updates.py", 'send(session_update="agent_message_chunk")\n')
    (bin / "vibe-acp").symlink_to(program(tmp_path / "venv" / "bin" / "vibe-acp", "#!/bin/sh\nsleep 600\n"))
    assert main(["drift", "vibe", "--json"]) == 0
    (row,) = lines(capfd)
    assert (row["version"], row["newer"], row["read"]) == ("3.0.9", True, ["session/update/agent_message_chunk"])
    program(packages / "vibe" / "acp" / "more.py", 'send(session_update="message_replaced")\n')
    assert main(["drift", "vibe"]) == 1
    assert "vibe acp, unknown: session/update/message_replaced\n" in capfd.readouterr().out
    (packages / "mistral_vibe-3.0.9.dist-info").rmdir()
    program(tmp_path / "venv" / "bin" / "vibe-acp", "#!/bin/sh\necho vibe 3.1.0\n")
    assert main(["drift", "vibe"]) == 1
    text = capfd.readouterr().out
    assert "Python package, whose files name them, was not found" in text
    assert "3.1.0" in text


@pytest.mark.parametrize(
    ("agent", "file", "text", "read", "unknown"),
    [
        (
            "droid",
            "bin/droid",
            'var a={type:"system",subtype:"init",cwd:process.cwd(),session_id:u,tools:t};'
            'let b={type:"tool_result",id:c.id,error:c.bad?{type:"tool_error",message:m}:void 0,session_id:T};'
            'let d={type:"rewind",from:e.id,session_id:T};f({type:"span",name:"x"});g({session_id:u})',
            ["system/init", "tool_result"],
            ["rewind"],
        ),
        (
            "kimi",
            "dist/main.mjs",
            'this.writeJsonLine({\n\t\t\trole: "tool",\n});\n'
            'const m = {\n\trole: "meta",\n\ttype: "session.resume_hint",\n'
            '};\nconst n = {\n\trole: "meta",\n\ttype: "turn.discarded",\n};\nsend({ role: "user" });\n',
            ["meta/session.resume_hint", "tool"],
            ["meta/turn.discarded"],
        ),
        (
            "kilo",
            "bin/kilo",
            'if(x("text",{part:p}))a();if(y("text_replaced",{part:p}))b();',
            ["text"],
            ["text_replaced"],
        ),
    ],
)
def test_lines_in_a_bundle(
    bin: Path, capfd: pytest.CaptureFixture[str], agent: str, file: str, text: str, read: list[str], unknown: list[str]
) -> None:
    """The objects that a program prints are found in its code, and others are not taken for them."""
    package(bin, f"@x/{agent}", agent, "99.0.0", {file: text})
    assert main(["drift", agent, "--json"]) == 1
    row = next(row for row in lines(capfd) if row["route"] == "exec")
    assert (row["read"], [it["name"] for it in row["unknown"]]) == (read, unknown)


@pytest.mark.parametrize(
    ("script", "reason"),
    [
        ("exit 3", "no longer succeeds (status 3)"),
        ("exit 0", "no longer has them in a form that Penstock knows"),
        ("echo '[1' > $4/ServerRequest.json", "ServerRequest.json has another form than expected"),
        ("mkfifo $4/ServerRequest.json", "no longer has them in a form that Penstock knows"),
        (": > $4/ServerRequest.json", "ServerRequest.json has another form than expected"),
    ],
)
def test_a_program_that_no_longer_lists_its_kinds(
    bin: Path, capfd: pytest.CaptureFixture[str], script: str, reason: str
) -> None:
    """It is told with the reason and the status is 1: that nothing is unknown would be a guess."""
    program(bin / "codex", f"#!/bin/sh\n[ $1 = --version ] && echo 0.169.0 && exit\n{script}\n")
    assert main(["drift", "codex"]) == 1
    text = capfd.readouterr().out
    assert "codex server: the kinds of lines cannot be read: " in text
    assert reason in text


def test_a_program_that_does_not_end(bin: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """It is ended with what it started, at the limit of time."""
    marks: list[str] = []
    whole = process.Process.__init__

    def noted(self: process.Process, argv: Sequence[str], env: Any, cwd: Any, mark: str, **rest: Any) -> None:
        marks.append(mark)
        whole(self, argv, env, cwd, mark, **rest)

    monkeypatch.setattr(process.Process, "__init__", noted)
    path = program(bin / "codex", "#!/bin/sh\nsleep 600 &\nsleep 600\n")
    source = registry.AGENTS["codex"].routes["server"].source
    assert source is not None
    with pytest.raises(installed.Unreadable, match="no longer ends in time"):
        installed.printable(str(path), source, 0.2)
    assert len(marks) == 1
    assert process.marked(marks[0]) == []


def test_files_that_are_none(tmp_path: Path) -> None:
    """A pipe in place of a program is not waited for, an empty file has nothing, a lone program has no package."""
    source = KindSource(patterns=(("", "a"),))
    os.mkfifo(tmp_path / "pipe")
    for name, reason in (("pipe", "pipe is not a file"), ("none", "none cannot be read"), ("empty", "in a form")):
        (tmp_path / "empty").write_bytes(b"")
        with pytest.raises(installed.Unreadable, match=reason):
            installed.printable(str(tmp_path / name), source, 5)
    with pytest.raises(installed.Unreadable, match="not installed as an npm package"):
        installed.printable(str(tmp_path / "empty"), KindSource(files=("*.js",), patterns=(("", "a"),)), 5)


def test_files_that_are_too_many(tmp_path: Path) -> None:
    """A package whose files cannot be read in time is told so, and not as one without unknown kinds."""
    folder = tmp_path / "node_modules" / "x"
    for number in range(3):
        program(folder / f"{number}.js", "kind")
    (folder / "package.json").write_text('{"name": "x", "version": "1.2.3"}')
    source = KindSource(files=("*.js",), patterns=(("", "(kind)"),))
    assert installed.printable(str(folder / "0.js"), source, 5) == {"kind"}
    with pytest.raises(installed.Unreadable, match="in time"):
        installed.printable(str(folder / "0.js"), source, -1)


def test_names_of_agents(bin: Path, capfd: pytest.CaptureFixture[str]) -> None:
    """One that is not known is a mistake, one that is not installed has the status of a shell; none at all is said."""
    assert main(["drift", "clawed"]) == 2
    assert "claude" in capfd.readouterr().err
    assert main(["drift", "claude"]) == 127
    assert main(["drift"]) == 0
    assert "No agent is installed" in capfd.readouterr().out


def test_the_log_by_version(bin: Path, capfd: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    """Runs of one version are counted together, with all places; another agent's are left out if one is named."""
    assert main(["drift", "--log"]) == 0
    assert "No run on this machine" in capfd.readouterr().out
    (tmp_path / "data").mkdir()
    for version, place, warns in (
        ("1.0", "elsewhere", False),
        ("1.0", "between texts", True),
        ("2.0", "elsewhere", False),
    ):
        new = Unfamiliar("system/new", 3, place, warns)  # type: ignore[arg-type]
        drift_log.append("claude", Health(version=version, drift=[new]), tmp_path / "data")
    drift_log.append("pi", Health(drift=[Unfamiliar("settled")]), tmp_path / "data")
    assert main(["drift", "claude", "--log", "--json"]) == 0
    found = [{key: row[key] for key in ("version", "runs", "count", "places", "warns")} for row in lines(capfd)]
    assert found == [
        {"version": "1.0", "runs": 2, "count": 6, "places": ["elsewhere", "between texts"], "warns": True},
        {"version": "2.0", "runs": 1, "count": 3, "places": ["elsewhere"], "warns": False},
    ]
    assert main(["drift", "--log"]) == 0
    text = capfd.readouterr().out
    assert "pi      ?        settled     1     1      elsewhere" in text


@pytest.mark.parametrize(
    ("agent", "route"), [(name, route) for name in registry.AGENTS for route in registry.AGENTS[name].routes]
)
def test_what_no_recording_has_is_known_to_the_reader(agent: str, route: str) -> None:
    """A reason is not a guess: the reader of the route has a case for the kind, or no run prints it."""
    facts = registry.AGENTS[agent].routes[route]
    for kind, reason in kinds.table(agent).routes.get(route, kinds.RouteKinds()).unseen.items():
        if "*" in kind or reason.startswith("only "):
            continue
        adapter = registry.load(facts.reader)()
        line = msgspec.json.encode(line_of(kind, facts.tags))
        for event in Decoder(adapter.wire).slow(line):
            assert isinstance(event, Decoded)
            assert not [it for it in adapter.read(event.event) if isinstance(it, Unknown)], kind


def line_of(kind: str, tags: Sequence[str]) -> dict[str, Any]:
    """Return the least line of a kind."""
    if tags[0] == "method":
        method, item = kind, ""
        if kind.startswith(("item/started/", "item/completed/")):
            method, _, item = kind.rpartition("/")
        if kind.startswith("session/update/"):
            return {"method": "session/update", "params": {"update": {"sessionUpdate": kind.rpartition("/")[2]}}}
        asks = {"id": 7} if method.startswith("item/") and method.endswith(("Approval", "Input")) else {}
        asks = {"id": 7} if method.startswith("mcpServer/elicitation") else asks
        params: dict[str, Any] = {"item": {"type": item, "id": "i"}, "questions": [{"id": "q", "question": "?"}]}
        return {"method": method, "params": params, **asks}
    line: dict[str, Any] = {}
    for path, value in zip(tags, [kind] if tags[0] == "event.type" else kind.split("/"), strict=False):
        holder = line
        for key in path.split(".")[:-1]:
            holder = holder.setdefault(key, {})
        holder[path.rpartition(".")[2]] = value
    return line
