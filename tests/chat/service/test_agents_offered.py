"""Which agents can be chatted with."""

from __future__ import annotations

import json
import socket
import threading
from collections.abc import Callable, Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

import pytest

from penstock.agents import registry
from penstock.chat.errors import Invalid, NoSuchAgent
from penstock.chat.service.agents import ollama
from penstock.chat.service.agents.offered import Agents, AgentView, of_other_nodes
from penstock.chat.service.agents.ollama import FRESH_SECONDS, MAX_ANSWER_BYTES, MAX_MODELS, OllamaServer
from penstock.config import settings

CONFIG = """
[agents.mine]
command = ["mine", "--resume={session_id}"]

[agents.thinking]
command = ["mine", "--effort={effort}"]

[agents.once]
command = ["nowhere"]

[agents.spoken]
command = ["mine"]
protocol = "acp"

[agents.labelled]
label = "no command"
"""


@pytest.fixture(autouse=True)
def patient(monkeypatch: pytest.MonkeyPatch) -> None:
    """These servers answer; a machine that has much to do may need its time for that."""
    monkeypatch.setattr(ollama, "WAIT_SECONDS", 20.0)
    monkeypatch.setattr(ollama, "ASK_SECONDS", 20.0)


@pytest.fixture
def agents(tmp_path: Path) -> Agents:
    """Those of Penstock and of a configuration; `codex` and `mine` are installed."""
    for name in ("codex", "mine"):
        (tmp_path / name).write_text("#!/bin/sh\n")
        (tmp_path / name).chmod(0o755)
    file = tmp_path / "penstock.toml"
    file.write_text(CONFIG)
    return Agents(settings.load({"PENSTOCK_CONFIG": str(file)}), {"PATH": str(tmp_path), "OLLAMA_HOST": nobody()})


def nobody() -> str:
    """An address at which nothing listens."""
    with socket.create_server(("127.0.0.1", 0)) as taken:
        return f"127.0.0.1:{taken.getsockname()[1]}"


def of(agents: Agents, name: str) -> AgentView:
    """One agent, as it is offered."""
    return next(agent for agent in agents.listed() if agent.name == name)


def test_what_is_offered(agents: Agents) -> None:
    """Each with what it can do; ways to read just any program are none of them."""
    offered = {agent.name: agent for agent in agents.listed()}
    codex, claude, cline = offered["codex"], offered["claude"], offered["cline"]
    assert (codex.installed, codex.route, codex.asks, codex.resumes) == (True, "server", True, True)
    assert (claude.installed, claude.route, claude.asks, claude.resumes) == (False, "server", True, True)
    assert "npm install" in (claude.install or "")
    assert not cline.resumes
    assert (offered["mine"].installed, offered["mine"].asks, offered["mine"].resumes) == (True, False, True)
    assert (offered["once"].installed, offered["once"].resumes) == (False, False)
    assert (offered["spoken"].route, offered["spoken"].asks, offered["spoken"].resumes) == ("acp", True, True)
    assert not offered.keys() & {"acp", "generic", "labelled"}
    assert agents.default() == "codex"


def test_what_a_permission_does(agents: Agents) -> None:
    """Each agent says what it does at each level, by its route; levels that change nothing are left out."""

    def levels(name: str) -> dict[str, str]:
        return {level.allow: level.label for level in of(agents, name).allows}

    own, everything = {"own": "Its own settings"}, {"all": "Does everything"}
    full = {"read": "Only reads", "ask": "Asks first", "edits": "Edits files", **everything, **own}
    for name in ("codex", "spoken", "claude", "opencode", "gemini"):
        assert list(levels(name).items()) == [it for it in full.items() if it[0] in levels(name)]
    assert levels("codex") == levels("spoken") == levels("claude") == levels("opencode") == full
    assert levels("gemini") == {name: label for name, label in full.items() if name != "own"}, "its own is to read"
    assert levels("pi") == {"read": "Only reads", **everything}
    assert levels("cursor") == {**everything, **own}
    assert levels("mine") == own
    assert "sandbox" in of(agents, "codex").allows[0].text


def test_what_a_chat_does_for_which_nothing_is_chosen(agents: Agents) -> None:
    """It asks if the agent can; one that cannot does what it does by itself, and the level is one of those offered."""
    defaults = {
        name: of(agents, name).default_allow for name in ("claude", "gemini", "opencode", "pi", "cursor", "mine")
    }
    assert defaults == {
        "claude": "ask", "gemini": "ask", "opencode": "ask", "pi": "all", "cursor": "own", "mine": "own"
    }  # fmt: skip
    assert of(agents, "gemini").route == "acp"
    for agent in agents.listed():
        assert agent.default_allow in [level.allow for level in agent.allows]


@pytest.mark.parametrize("name", ["claude", "mine", "ccs", "ccs/glm", "ccs/my-profile.2"])
def test_these_can_be_asked_for(agents: Agents, name: str) -> None:
    """Installed or not."""
    agents.require(name)


@pytest.mark.parametrize(
    "name",
    ["", "claud", "acp", "generic", "acp:sh -c id", "claude/x", "ccs/", "ccs/-x", "ccs/../x", "labelled", "a" * 9999],
)
def test_these_cannot(agents: Agents, name: str) -> None:
    """A request never says which program is started."""
    with pytest.raises(NoSuchAgent):
        agents.require(name)


def test_the_order_in_which_they_are_offered(agents: Agents) -> None:
    """The proven, the user's own, and then those that nobody has recorded; each once."""
    names = [agent.name for agent in agents.listed()]
    unproven = [name for name, entry in registry.AGENTS.items() if not entry.proven and name in names]
    assert unproven
    assert names[-len(unproven) :] == unproven
    assert names.index("claude") < names.index("mine") < names.index("ollama")
    assert len({*names}) == len(names)


def test_agents_of_other_nodes(agents: Agents) -> None:
    """What other nodes have is available with their models; an agent that this node does not know comes last."""
    found = of_other_nodes(agents.listed(), {"once": [], "ollama": ["m"], "theirs": []})
    assert [it.name for it in found if it.available] == ["once", "ollama", "theirs"]
    assert {it.name: it.models for it in found if it.models} == {"ollama": ["m"]}
    assert found[-1].name == "theirs"
    assert [level.allow for level in found[-1].allows] == ["edits", "all", "own"]
    assert not any(it.reason for it in found)


def test_a_default_that_is_named(tmp_path: Path) -> None:
    """It need not be installed, but there has to be one of that name."""
    assert Agents(settings.load({}, str(tmp_path)), {"PATH": ""}, default="pi").default() == "pi"
    with pytest.raises(NoSuchAgent, match="claud"):
        Agents(settings.load({}, str(tmp_path)), {"PATH": ""}, default="claud")


# --- ollama ---


class Server(ThreadingHTTPServer):
    """Answers as an Ollama server does, or as `answer` says: a status and a body."""

    daemon_threads = True

    def __init__(self, answer: Callable[[BaseHTTPRequestHandler], tuple[int, bytes]]) -> None:
        self.asked: list[str] = []
        server = self

        class Handler(BaseHTTPRequestHandler):
            def do_GET(self) -> None:
                server.asked.append(self.path)
                status, body = answer(self)
                self.send_response(status)
                self.send_header("Location", "/elsewhere")
                self.send_header("Content-Length", str(len(body)))
                self.end_headers()
                self.wfile.write(body)

            def log_message(self, format: str, *args: Any) -> None:
                pass

        super().__init__(("127.0.0.1", 0), Handler)
        threading.Thread(target=self.serve_forever, kwargs={"poll_interval": 0.01}, daemon=True).start()

    @property
    def host(self) -> str:
        """As `OLLAMA_HOST` has it."""
        return f"127.0.0.1:{self.server_port}"


@pytest.fixture
def served() -> Iterator[Callable[..., Server]]:
    """Starts servers: with these models, or with this answer."""
    started: list[Server] = []

    def start(*models: str, answer: tuple[int, bytes] | None = None) -> Server:
        body = json.dumps({"models": [{"name": name, "size": 1} for name in models]}).encode()
        started.append(Server(lambda _: answer or (200, body)))
        return started[-1]

    yield start
    for server in started:
        server.shutdown()
        server.server_close()


def with_ollama(folder: Path, host: str, text: str = "") -> Agents:
    """Agents of which none is installed but what `text` configures, with an Ollama server there."""
    file = folder / "config.toml"
    file.write_text(text)
    environ = {"PATH": str(folder), "OLLAMA_HOST": host, "HTTP_PROXY": f"http://{nobody()}"}
    return Agents(settings.load({"PENSTOCK_CONFIG": str(file)}), environ)


def test_ollama_is_a_server_that_answers(tmp_path: Path, served: Callable[..., Server]) -> None:
    """It is there while its server is, with its models; a chat without a model gets the first."""
    server = served("qwen3:8b", "llama3.2:latest")
    agents = with_ollama(tmp_path, server.host)
    view = of(agents, "ollama")
    assert (view.installed, view.available, view.reason) == (True, True, None)
    assert view.models == ["qwen3:8b", "llama3.2:latest"]
    assert agents.default() == "ollama"  # nothing else is there
    assert agents.choose(None, None) == ("ollama", "qwen3:8b")
    assert agents.choose("ollama", "other") == ("ollama", "other")
    assert agents.choose("claude", None) == ("claude", None)
    assert server.asked == ["/api/tags"]  # once for all of that


def test_without_a_server_there_is_no_ollama(tmp_path: Path) -> None:
    """It says where it was looked for; nothing is available, and the default is the first of all."""
    host = nobody()
    agents = with_ollama(tmp_path, host)
    view = of(agents, "ollama")
    assert (view.installed, view.available, view.models) == (False, False, [])
    assert view.reason == f"no Ollama server answers at {host}"
    assert not any(agent.available or agent.installed for agent in agents.listed())
    assert agents.default() == "claude"
    with pytest.raises(Invalid, match="needs the name of a model: no Ollama server answers"):
        agents.choose("ollama", None)


def test_an_agent_of_ones_own_is_offered_before_ollama(tmp_path: Path, served: Callable[..., Server]) -> None:
    """Whoever configured one wants it."""
    text = f'[agents.zeta]\ncommand = ["{tmp_path / "zeta"}"]\n'
    (tmp_path / "zeta").write_text("#!/bin/sh\n")
    (tmp_path / "zeta").chmod(0o755)
    agents = with_ollama(tmp_path, served("a").host, text)
    assert agents.default() == "zeta"
    assert [agent.name for agent in agents.listed() if agent.available] == ["zeta", "ollama"]


def test_the_configuration_says_where_ollama_is(tmp_path: Path, served: Callable[..., Server]) -> None:
    """As for a run: over the environment. Where it names a command, there is no server to be asked."""
    server = served("a")
    agents = with_ollama(tmp_path, nobody(), f'[agents.ollama.env]\nOLLAMA_HOST = "http://{server.host}/"\n')
    assert of(agents, "ollama").models == ["a"]
    own = with_ollama(tmp_path, server.host, '[agents.ollama]\ncommand = ["nowhere"]\n')
    assert (of(own, "ollama").installed, of(own, "ollama").reason) == (False, None)
    assert own.choose("ollama", None) == ("ollama", None)


@pytest.mark.parametrize(
    "answer",
    [
        (500, b'{"models": [{"name": "a"}]}'),
        (302, b'{"models": [{"name": "a"}]}'),
        (204, b""),
        (200, b""),
        (200, b"<!doctype html><title>Something else</title>"),
        (200, b"[]"),
        (200, b"{}"),
        (200, b'{"models": {"name": "a"}}'),
        (200, b'{"models": ["a"]}'),
        (200, b'{"models": [{"name": 1}]}'),
        (200, b'\xff\xfe'),
        (200, b"[" * 50_000),
        (200, b'{"models": [], "x": "' + b"x" * MAX_ANSWER_BYTES + b'"}'),
    ],
)  # fmt: skip
def test_what_is_no_ollama(tmp_path: Path, served: Callable[..., Server], answer: tuple[int, bytes]) -> None:
    """Something else listens there, or it is broken: not installed, and nobody hears of its trouble."""
    view = of(with_ollama(tmp_path, served(answer=answer).host), "ollama")
    assert (view.installed, view.available, view.models) == (False, False, [])


@pytest.mark.parametrize(
    "host", ["http://[::1", "127.0.0.1:99999", "\x00", "http://", "a b", "file:///etc/passwd", "ftp://x", "é" * 300]
)
def test_a_host_that_is_none(tmp_path: Path, host: str) -> None:
    """What nothing can be asked at is not there."""
    view = of(with_ollama(tmp_path, host), "ollama")
    assert (view.installed, bool(view.reason)) == (False, True)


def test_models_that_cannot_be_named(tmp_path: Path, served: Callable[..., Server]) -> None:
    """A name that would be a flag, has control characters, or comes twice is left out; so are too many."""
    server = served("good", "--evil", "", "good", "a\x1b[31mb", "a\nb", "\u202eevil", "x" * 10_000)
    assert of(with_ollama(tmp_path, server.host), "ollama").models == ["good"]
    many = served(*(f"m{number}" for number in range(3 * MAX_MODELS)))
    assert len(of(with_ollama(tmp_path, many.host), "ollama").models) == MAX_MODELS


def test_ollama_without_a_model(tmp_path: Path, served: Callable[..., Server]) -> None:
    """It is there, and cannot be chatted with; it says what to do."""
    agents = with_ollama(tmp_path, served().host)
    view = of(agents, "ollama")
    assert (view.installed, view.available) == (True, False)
    assert "ollama pull" in (view.reason or "")
    assert agents.default() == "claude"


def test_a_server_that_never_answers_is_not_waited_for(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """It takes connections and says nothing: who asks meanwhile does not ask it again, and it is not there."""
    monkeypatch.setattr(ollama, "WAIT_SECONDS", 0.01)
    with socket.create_server(("127.0.0.1", 0)) as silent:
        host = f"127.0.0.1:{silent.getsockname()[1]}"
        server = OllamaServer(host)
        assert [server.models() for _ in range(3)] == [None] * 3
        silent.accept()[0].close()
        silent.setblocking(False)
        with pytest.raises(BlockingIOError):
            silent.accept()


def test_an_answer_counts_for_a_while(served: Callable[..., Server]) -> None:
    """Whoever starts Ollama, or gets a model, sees it a little later; until then it is not asked again."""
    time = 0.0
    models = ["a"]
    server = Server(lambda _: (200, json.dumps({"models": [{"name": name} for name in models]}).encode()))
    try:
        asked = OllamaServer(server.host, lambda: time)
        assert asked.models() == ["a"]
        models.append("b")
        time = FRESH_SECONDS - 1
        assert (asked.models(), len(server.asked)) == (["a"], 1)
        time = FRESH_SECONDS
        assert (asked.models(), len(server.asked)) == (["a", "b"], 2)
    finally:
        server.shutdown()
        server.server_close()


# --- agents of a project's own file ---


@pytest.mark.parametrize(
    ("text", "name"),
    [
        ('[agents.its]\ncommand = ["/bin/sh"]\n', "its"),
        ('[agents.claude]\ncommand = ["/bin/sh"]\n', "claude"),
        ('[agents.codex.env]\nPATH = "/evil"\n', "codex"),
        ('[agents.ollama.env]\nOLLAMA_HOST = "evil.example"\n', "ollama"),
    ],
)
def test_what_a_project_says_counts_once_it_is_trusted(
    tmp_path: Path, served: Callable[..., Server], text: str, name: str
) -> None:
    """Until then its agent is not available, with the reason; it is no default, and nothing of the file is done."""
    server = served("a")
    project = tmp_path / "project"
    project.mkdir()
    (project / "penstock.toml").write_text(text.replace("evil.example", server.host))
    for program in ("claude", "codex", "pi"):
        (tmp_path / program).write_text("#!/bin/sh\n")
        (tmp_path / program).chmod(0o755)
    trusted = False
    environ = {"PATH": str(tmp_path), "OLLAMA_HOST": nobody()}
    agents = Agents(settings.load({}, str(project)), environ, lambda: trusted)
    view = of(agents, name)
    assert (view.installed, view.available, view.models) == (False, False, [])
    assert str(project) in (view.reason or "")
    assert "penstock.toml" in (view.reason or "")
    assert agents.default() != name
    assert agents.blocked(name) == view.reason
    assert of(agents, "pi").available  # others are as they were
    assert server.asked == []
    trusted = True
    assert (of(agents, name).available, of(agents, name).reason) == (True, None)


@pytest.mark.parametrize(
    ("name", "level"),
    [("claude", "ask"), ("ccs/glm", "ask"), ("gemini", "ask"), ("pi", "read"), ("kimi", None), ("mine", "default")],
)
def test_the_level_of_programs(tmp_path: Path, name: str, level: str | None) -> None:
    """A program gets the freest level at which an agent changes nothing unasked; some agents have none."""
    agents = Agents(settings.load({}, str(tmp_path)), {"PATH": ""})
    assert agents.careful_level(name) == level


@pytest.mark.parametrize(
    ("name", "efforts"),
    [
        ("claude", ["low", "medium", "high", "xhigh", "max"]),
        ("ccs/work", ["low", "medium", "high", "xhigh", "max"]),
        ("codex", ["low", "medium", "high"]),
        ("thinking", ["low", "medium", "high"]),
        ("gemini", []),
        ("mine", []),
        ("spoken", []),
        ("elsewhere", []),
    ],
)
def test_levels_of_effort(agents: Agents, name: str, efforts: list[str]) -> None:
    """Those of the agent's facts; the usual ones if its model decides; none if it has none, or nobody knows them."""
    assert agents.efforts(name) == efforts
    agents.check_effort(name, None)
    for effort in efforts:
        agents.check_effort(name, effort)


@pytest.mark.parametrize(("name", "effort"), [("claude", "minimal"), ("gemini", "low"), ("mine", "low"), ("kilo", "x")])
def test_an_effort_that_an_agent_lacks(agents: Agents, name: str, effort: str) -> None:
    """The error says what is possible."""
    with pytest.raises(Invalid, match=r"has no levels? of effort.*expected (null|one of low)"):
        agents.check_effort(name, effort)


@pytest.mark.parametrize("name", ["codex", "thinking", "spoken", "elsewhere"])
def test_an_effort_that_the_model_or_another_machine_may_have(agents: Agents, name: str) -> None:
    """A word that nobody here can judge is accepted."""
    agents.check_effort(name, "ultra")
