from __future__ import annotations

import re
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from penstock.adapter import MAX_ARGUMENT_BYTES, Command, Feature, Request, checked
from penstock.agents import registry
from penstock.agents.support import FEATURES
from penstock.errors import UsageError

EXEC = (
    "claude",
    "codex",
    "gemini",
    "opencode",
    "cursor",
    "qwen",
    "copilot",
    "pi",
    "cline",
    "droid",
    "goose",
    "kilo",
    "kimi",
    "ccs",
)
ACP = ("claude", "codex", "gemini", "opencode", "qwen", "copilot", "cline", "kilo", "goose", "vibe")
PIPED = tuple(name for name in EXEC if name not in ("cline", "kimi"))
ID = "0a1b-2c"


def command(name: str, prompt: str = "hi", **asked: Any) -> Command:
    """The command line of `agent`, on its plain route, or of `agent/acp`, for a request that is checked."""
    agent, _, route = name.partition("/")
    return registry.command(agent, route or "exec", checked(Request(prompt=prompt, **asked)))


CLAUDE = "--print --output-format=stream-json --verbose --include-partial-messages"
QWEN = "qwen --output-format=stream-json --include-partial-messages"
GEMINI = "gemini --output-format=stream-json"
COPILOT = "copilot --output-format=json --no-auto-update"
CURSOR = "cursor-agent --print --output-format=stream-json --stream-partial-output"
OPENCODE = "opencode run --format=json --thinking"
DROID = "droid exec --output-format=stream-json"
GOOSE = "goose run --quiet --output-format=stream-json --instructions -"
CODEX = "codex exec --json --skip-git-repo-check"
ALL_LIMITS = {"max_cost": 0.3, "max_turns": 3, "max_tokens": 1000}
MORE = {"model": "m", "session_id": ID, "args": ("--x", "y z")}


@pytest.mark.parametrize(
    ("name", "asked", "argv"),
    [
        ("claude", {}, f"claude {CLAUDE}"),
        ("claude", MORE, f"claude {CLAUDE} --model=m --resume={ID} --x|y z"),
        ("claude", {"session_id": ID, "fork": True}, f"claude {CLAUDE} --resume={ID} --fork-session"),
        ("claude", {"allow": "edits"}, f"claude {CLAUDE} --permission-mode=acceptEdits"),
        ("claude", {"allow": "all"}, f"claude {CLAUDE} --permission-mode=bypassPermissions"),
        ("claude", ALL_LIMITS, f"claude {CLAUDE} --max-budget-usd=0.3 --max-turns=3"),
        ("ccs", ALL_LIMITS, f"ccs {CLAUDE} --max-budget-usd=0.3 --max-turns=3"),
        ("qwen", {"max_turns": 3}, f"{QWEN} --max-session-turns=3"),
        ("pi", ALL_LIMITS, "pi --mode json"),
        ("ccs", {}, f"ccs {CLAUDE}"),
        ("ccs", {"profile": "glm", **MORE}, f"ccs glm {CLAUDE} --model=m --resume={ID} --x|y z"),
        ("ccs", {"profile": "glm", "session_id": ID, "fork": True}, f"ccs glm {CLAUDE} --resume={ID} --fork-session"),
        ("ccs", {"profile": "glm", "allow": "all"}, f"ccs glm {CLAUDE} --permission-mode=bypassPermissions"),
        ("codex", {}, f"{CODEX} -"),
        ("codex", MORE, f"{CODEX} --model=m --x|y z|resume {ID} -"),
        ("codex", {"session_id": ID, "fork": True}, f"{CODEX} fork {ID} -"),
        ("codex", {"allow": "edits", "session_id": ID}, f"{CODEX} --sandbox=workspace-write resume {ID} -"),
        ("codex", {"allow": "all"}, f"{CODEX} --dangerously-bypass-approvals-and-sandbox -"),
        ("gemini", {}, GEMINI),
        ("gemini", MORE, f"{GEMINI} --model=m --resume={ID} --x|y z"),
        ("gemini", {"allow": "edits"}, f"{GEMINI} --approval-mode=auto_edit"),
        ("gemini", {"allow": "all"}, f"{GEMINI} --approval-mode=yolo"),
        ("opencode", {}, OPENCODE),
        ("opencode", MORE, f"{OPENCODE} --model=m --session={ID} --x|y z"),
        ("opencode", {"session_id": ID, "fork": True}, f"{OPENCODE} --session={ID} --fork"),
        ("opencode", {"allow": "all"}, f"{OPENCODE} --auto"),
        ("kilo", MORE, "kilo run --format=json --thinking --model=m --session=0a1b-2c --x|y z"),
        ("kilo", {"session_id": ID, "fork": True}, f"kilo run --format=json --thinking --session={ID} --fork"),
        ("kilo", {"allow": "all", "effort": "high"}, "kilo run --format=json --thinking --auto --variant=high"),
        ("kilo/acp", {**MORE, "fork": True}, "kilo acp --x|y z"),
        ("kimi", {}, "kimi --output-format=stream-json --prompt hi"),
        (
            "kimi",
            {**MORE, "allow": "all"},
            f"kimi --output-format=stream-json --model=m --session={ID} --x|y z|--prompt hi",
        ),
        ("cursor", {}, CURSOR),
        ("cursor", MORE, f"{CURSOR} --model=m --resume={ID} --x|y z"),
        ("cursor", {"allow": "all"}, f"{CURSOR} --force"),
        ("qwen", {}, QWEN),
        ("qwen", MORE, f"{QWEN} --model=m --resume={ID} --x|y z"),
        ("qwen", {"allow": "all"}, f"{QWEN} --approval-mode=yolo"),
        ("copilot", {}, COPILOT),
        ("copilot", MORE, f"{COPILOT} --model=m --resume={ID} --x|y z"),
        ("copilot", {"allow": "edits"}, f"{COPILOT} --allow-tool=write --disallow-temp-dir"),
        ("copilot", {"allow": "all"}, f"{COPILOT} --allow-all"),
        ("pi", {}, "pi --mode json"),
        ("pi", MORE, f"pi --mode json --model m --session {ID} --x|y z"),
        ("pi", {"session_id": ID, "fork": True}, f"pi --mode json --fork {ID}"),
        ("pi", {"allow": "all"}, "pi --mode json"),
        ("pi", {"allow": "read"}, "pi --mode json --tools read,grep,find,ls"),
        ("codex", {"allow": "read"}, f"{CODEX} --sandbox=read-only -"),
        ("gemini", {"allow": "read"}, f"{GEMINI} --approval-mode=default"),
        ("qwen/acp", {"allow": "ask"}, "qwen --acp --approval-mode=default"),
        ("qwen/acp", {"allow": "edits"}, "qwen --acp --approval-mode=default"),
        ("copilot/acp", {"allow": "edits"}, "copilot --acp --no-auto-update"),
        ("copilot", {"allow": "read"}, f"{COPILOT} --deny-tool=write --deny-tool=shell"),
        (
            "claude",
            {"allow": "read"},
            f"claude {CLAUDE} --permission-mode=default"
            " --disallowed-tools=Edit --disallowed-tools=Write --disallowed-tools=NotebookEdit",
        ),
        ("cline", {}, "cline --json --|hi\n"),
        ("cline", {"model": "m", "args": ("--x", "y z")}, "cline --json --model=m --x|y z|--|hi\n"),
        ("cline", {"allow": "all"}, "cline --json --auto-approve=true --|hi\n"),
        ("droid", {}, DROID),
        ("droid", MORE, f"{DROID} --model=m --session-id={ID} --x|y z"),
        ("droid", {"session_id": ID, "fork": True}, f"{DROID} --fork={ID}"),
        ("droid", {"effort": "high"}, f"{DROID} --reasoning-effort=high"),
        ("droid", {"allow": "all", "deny_tools": ("Edit",)}, f"{DROID} --skip-permissions-unsafe --remove-tools=Edit"),
        ("goose", {}, GOOSE),
        (
            "goose",
            {"model": "m", "system_prompt": "Short.", "args": ("--x",)},
            GOOSE.replace(" --instr", " --model=m --system=Short. --x --instr"),
        ),
        ("goose/acp", MORE, "goose acp --x|y z"),
        ("vibe/acp", MORE, "vibe-acp --x|y z"),
        ("claude/acp", MORE, "claude-agent-acp --x|y z"),
        ("codex/acp", {}, "codex-acp"),
        ("codex/acp", MORE, 'codex-acp --config=model="m" --x|y z'),
        ("codex/acp", {"allow": "edits"}, 'codex-acp --config=sandbox_mode="workspace-write"'),
        (
            "codex/acp",
            {"allow": "all"},
            'codex-acp --config=sandbox_mode="danger-full-access" --config=approval_policy="never"',
        ),
        ("gemini/acp", {**MORE, "allow": "edits"}, "gemini --acp --model=m --approval-mode=auto_edit --x|y z"),
        ("opencode/acp", {**MORE, "fork": True}, "opencode acp --x|y z"),
        ("qwen/acp", {**MORE, "allow": "all"}, "qwen --acp --model=m --approval-mode=yolo --x|y z"),
        ("copilot/acp", {**MORE, "allow": "all"}, "copilot --acp --no-auto-update --model=m --allow-all --x|y z"),
        ("cline/acp", MORE, "cline --acp --x|y z"),
        ("cline/acp", {"allow": "edits"}, "cline --acp"),
        ("cline/acp", {"allow": "all"}, "cline --acp --auto-approve=true"),
    ],
)
def test_command_lines(name: str, asked: dict[str, Any], argv: str) -> None:
    """What is asked becomes the agent's own flags, each value in one argument, and the prompt goes to stdin.

    `argv` is written with a bar where an argument holds a blank, and with a blank elsewhere.
    """
    made = command(name, **asked)
    assert list(made.argv) == split(argv)
    assert made.stdin == (b"" if name in ("cline", "kimi") or "/" in name else b"hi")


def split(argv: str) -> list[str]:
    """The arguments of a line of the table."""
    if "|" not in argv:
        return argv.split(" ")
    first, *rest = argv.split("|")
    return [*first.split(" "), *(part for bar in rest for part in ([bar] if bar == "y z" else bar.split(" ")))]


@pytest.mark.parametrize(("name", "variable"), [("claude/acp", "ANTHROPIC_MODEL"), ("cline/acp", "CLINE_MODEL")])
def test_models_that_are_variables(name: str, variable: str) -> None:
    """A program without a flag for the model has it from its environment, and only where one is asked for."""
    assert command(name, model="m").env == {variable: "m"}
    assert command(name).env == {}


def test_the_mode_of_goose_is_a_variable() -> None:
    """It has no flag for it, and its own settings decide where nothing is asked for."""
    assert command("goose", allow="all").env == {"GOOSE_MODE": "auto"}
    assert command("goose").env == {}


@pytest.mark.parametrize("name", ["claude", "ccs", "claude/acp"])
def test_a_claude_is_no_part_of_the_one_around_it(name: str) -> None:
    """Whoever runs Penstock inside of Claude Code gets a session of its own; credentials stay."""
    unset = command(name).unset
    assert {"CLAUDECODE", "CLAUDE_CODE_ENTRYPOINT", "CLAUDE_CODE_CHILD_SESSION"} <= set(unset)
    assert not [variable for variable in unset if "TOKEN" in variable or "USE" in variable]


NO_FORK = (
    *("gemini", "kimi", "cursor", "qwen", "copilot", "gemini/acp", "qwen/acp", "copilot/acp", "cline/acp"),
    *("goose/acp", "vibe/acp"),
)
NO_EDITS = {
    "opencode": "use --route server",
    "kilo": "With --allow all",
    "kilo/acp": "With --allow all",
    "droid": "With --allow all",
    "goose": "use --route acp",
    "qwen": "use --route acp",
    "kimi": "It changes files",
    "cursor": "commands are denied. With --allow all: It does everything",
    "pi": "It has no permissions",
    "cline": "use --route acp",
}


@pytest.mark.parametrize(
    ("name", "asked", "what", "can"),
    [
        *((name, {"session_id": ID, "fork": True}, "cannot fork a session", "can be resumed") for name in NO_FORK),
        ("codex/acp", {"session_id": ID, "fork": True}, "cannot fork a session", "use --route server or --route exec"),
        *((name, {"allow": "edits"}, "cannot be allowed edits alone", can) for name, can in NO_EDITS.items()),
        ("goose", {"session_id": ID}, "cannot resume a session", "use --route acp"),
        ("cline", {"session_id": ID}, "cannot resume a session", "use --route acp"),
        ("cline", {"session_id": ID, "fork": True}, "cannot resume a session", "use --route acp"),
        *(
            (name, {"profile": "glm"}, "cannot take the profile 'glm'", "only these have profiles: ccs/NAME")
            for name in [*(name for name in EXEC if name != "ccs"), *(f"{name}/acp" for name in ACP)]
        ),
        *(
            ("ccs", {"profile": profile}, "is not a profile of ccs", "")
            for profile in ("", "-p", "--target", "update", "a b", "a/b", "g\nlm", "x" * 129)
        ),
    ],
)
def test_refusals(name: str, asked: dict[str, Any], what: str, can: str) -> None:
    """What an agent cannot do is refused before anything is started, with what it can do instead."""
    with pytest.raises(UsageError) as caught:
        command(name, **asked)
    assert what in caught.value.what
    assert can in caught.value.help


ROUTES = [(name, route) for name, facts in registry.AGENTS.items() for route in facts.routes if not facts.no_command]
ASKED: dict[Feature, dict[str, Any]] = {
    "resume": {"session_id": ID},
    "fork": {"session_id": ID, "fork": True},
    "read": {"allow": "read"},
    "ask": {"allow": "ask"},
    "edits": {"allow": "edits"},
    "args": {"args": ("--x",)},
    "max_cost": {"max_cost": 0.5},
    "max_turns": {"max_turns": 3},
    "max_tokens": {"max_tokens": 1000},
}


@pytest.mark.sample(3)
@pytest.mark.parametrize(("name", "route"), ROUTES)
@pytest.mark.parametrize("feature", ASKED)
def test_a_route_supports_what_its_facts_say(name: str, route: str, feature: Feature) -> None:
    """A feature that a route lacks is rejected, and what the error names instead works; other features are accepted."""
    request = checked(Request(prompt="hi", model="a/m", **ASKED[feature]))
    used = {key for key, use in FEATURES.items() if use.is_used(request)}
    facts = registry.AGENTS[name]
    if used <= facts.routes[route].features:
        assert registry.command(name, route, request).argv
        return
    with pytest.raises(UsageError) as caught:
        registry.command(name, route, request)
    assert caught.value.help
    for other in re.findall(r"(?:use|or) --route (\w+)", caught.value.help):
        assert used & facts.routes[other].features
    agents = caught.value.help if caught.value.help.startswith("these agents can: ") else ""
    for other, way in re.findall(r"(?:can:|,) (\w+)(?: --route (\w+))?", agents):
        able = registry.AGENTS[other]
        assert used <= (able.routes[way] if way else able.default).features


@pytest.mark.parametrize(("name", "route"), ROUTES)
def test_the_levels_of_a_route_are_those_of_its_facts(name: str, route: str) -> None:
    """The words for people and what is rejected come from one list each, which agree; `all` and `own` always work."""
    levels = registry.AGENTS[name].allows[route]
    supported = registry.AGENTS[name].routes[route].supports
    assert set(levels) == {"all", "own", *({"read", "ask", "edits"} & set(supported))}


def test_an_error_names_a_route_that_supports_everything_asked() -> None:
    """The route that is proposed has all features of the request, not only the one that is missing."""
    request = checked(Request(prompt="hi", allow="edits", session_id=ID, fork=True))
    with pytest.raises(UsageError, match="cannot fork a session") as caught:
        registry.command("codex", "acp", request)
    assert caught.value.help == "use --route server or --route exec"


@pytest.mark.parametrize(
    ("agent", "route", "asked", "error"),
    [
        (
            "codex",
            "exec",
            {"max_tokens": 9},
            "codex cannot be stopped at a number of tokens, because it does not report them during a run; "
            "use --route server",
        ),
        (
            "codex",
            "server",
            {"max_cost": 1},
            "codex cannot be stopped at a cost, because it does not report its cost during a run; "
            "use --max-turns or --max-tokens or --timeout",
        ),
        (
            "claude",
            "acp",
            {"max_cost": 1},
            "claude cannot be stopped at a cost, because it does not report its cost during a run; "
            "use --route server or --route exec",
        ),
        (
            "ollama",
            "exec",
            {"max_turns": 1},
            "ollama cannot be stopped at a number of turns, because it does not report them during a run; "
            "use --timeout",
        ),
    ],
)
def test_a_limit_that_cannot_be_counted(agent: str, route: str, asked: dict[str, Any], error: str) -> None:
    """It is rejected, with another route of the agent, or the limits that this route has."""
    with pytest.raises(UsageError) as caught:
        registry.command(agent, route, checked(Request(prompt="hi", **asked)))
    assert str(caught.value) == error


@pytest.mark.parametrize("name", ACP)
def test_a_dialogue_has_no_prompt_on_its_command_line(name: str) -> None:
    """The dialogue gives the prompt; stdin stays open for it."""
    made = command(f"{name}/acp", prompt="the prompt")
    assert made.stdin == b""
    assert not [arg for arg in made.argv if "prompt" in arg]


ODD = [
    "-",
    "--",
    "--help",
    "-p x",
    "word",
    " word ",
    "two words",
    "a\nb",
    "\"'`$(x)\\",
    "@file",
    "/help",
    "日本語",
    "\x1b",
]


@pytest.mark.parametrize("name", EXEC)
@given(prompt=st.sampled_from(ODD) | st.text(st.characters(exclude_characters="\0"), min_size=1, max_size=50))
def test_a_prompt_is_never_a_flag(name: str, prompt: str) -> None:
    """Whatever the prompt, it is all of stdin, or one argument behind `--`; the rest is the same for all prompts."""
    if not prompt.strip():
        prompt += "x"
    try:
        prompt.encode()
    except UnicodeEncodeError:
        prompt = prompt.encode(errors="replace").decode()
    made, other = command(name, prompt), command(name, "another one")
    if name in PIPED:
        assert made.stdin == prompt.encode()
        assert made.argv == other.argv
    else:
        assert made.argv[:-1] == other.argv[:-1]
        assert made.argv[-2] == ("--prompt" if name == "kimi" else "--")
        assert made.argv[-1] in (prompt, prompt + "\n")
        assert made.stdin == b""


@pytest.mark.parametrize(("prompt", "given_"), [("word", "word\n"), ("two words", "two words"), ("a\nb", "a\nb")])
def test_cline_gets_no_lone_word(prompt: str, given_: str) -> None:
    """A single word would be a command of cline's."""
    assert command("cline", prompt).argv[-1] == given_


@pytest.mark.parametrize("name", EXEC)
def test_a_prompt_of_a_megabyte(name: str) -> None:
    """Stdin takes it; where a prompt is an argument it is refused with its size, the limit and a way out."""
    prompt = "word " * 200_000
    if name in PIPED:
        assert command(name, prompt).stdin == prompt.encode()
        return
    with pytest.raises(UsageError, match="1,000,000 bytes") as caught:
        command(name, prompt)
    assert f"{MAX_ARGUMENT_BYTES:,}" in caught.value.expected
    assert "file" in caught.value.help


def test_the_longest_argument_counts_the_line_feed() -> None:
    """The line feed that makes a word of cline's a prompt is a byte of the argument too."""
    assert len(command("cline", "w" * (MAX_ARGUMENT_BYTES - 1)).argv[-1]) == MAX_ARGUMENT_BYTES
    with pytest.raises(UsageError):
        command("cline", "w" * MAX_ARGUMENT_BYTES)


@pytest.mark.parametrize("name", EXEC)
def test_bytes_that_are_no_text(name: str) -> None:
    """Bytes of the shell's that were no UTF-8 come out as they went in; half a character is refused."""
    made = command(name, b"caf\xe9 ol\xe9".decode(errors="surrogateescape"))
    assert made.stdin == b"caf\xe9 ol\xe9" or made.argv[-1] == "caf\udce9 ol\udce9"
    with pytest.raises(UsageError, match=r"half a character \(U\+D83D\)"):
        command(name, "a \ud83d")
