"""Every option of the Python API, with values that it cannot have: a sentence that names it, never a traceback."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator
from decimal import Decimal
from inspect import signature
from typing import Any, get_type_hints

import msgspec
import pytest

from penstock import Agent, Limits, Stream, TextSink, UsageError, agent
from penstock.adapter import PROMPT_RULES
from penstock.agents.generic.classifier import StreamEventClassifier
from penstock.config.rules import check
from penstock.config.settings import load
from penstock.errors import MAX_SHOWN_CHARS
from penstock.run.launch import plan
from penstock.run.replay import replay
from penstock.run.run import Run
from penstock.run.spec import OPTION_RULES, RULES, Options, RunSpec, spec_of

HUGE = 10**400


class Hostile:
    """A value that fails wherever it is looked at."""

    def __repr__(self) -> str:
        raise RuntimeError("no repr")


ODD: list[Any] = [
    None, True, False, 0, 1, -1, -0.5, 5, math.nan, math.inf, -math.inf, HUGE, -HUGE, 1 + 2j, Decimal("nan"), "", " ",
    "x", "5", "-1", "a\0b", "\ud800", "x" * 100_000, b"", b"x", b"\0", [], ["x"], ["a\0b"], [1], [None], ("x",), {},
    {"a": "b"}, {"a": 1}, {1: "a"}, {"": "x"}, {"a=b": "x"}, {"a": "\0"}, {"x": "delta"}, {"x": "noise"}, {"x": None},
    set(), object(), Hostile(), type, len, ...,
]  # fmt: skip
"""Values that somebody may hand in by mistake. Some fit some options: those are let through."""

RUN = set(signature(Agent.run).parameters) - {"self", "options", "on_question"}


def _run(**options: Any) -> Run:
    prompt = options.pop("prompt", "hi")
    return agent("demo", command=["cat"], adapter="pi").run(prompt, **options)  # pi counts all limits


def _replayed(**options: Any) -> Any:
    return next(replay(__file__, **options))  # type: ignore[arg-type]


CALLS: dict[str, tuple[Callable[..., Any], set[str]]] = {
    "agent": (lambda **options: agent(options.pop("name", "claude"), **options), {"name", *Options.__annotations__}),
    "run": (_run, RUN | set(Options.__annotations__)),
    "send_streaming": (
        lambda **options: agent("demo", command=["cat"]).send_streaming(options.pop("prompt", "hi"), **options),
        set(signature(Agent.send_streaming).parameters) - {"self"},
    ),
    "Limits": (Limits, set(Limits.__struct_fields__)),
    "Stream": (lambda **options: Stream(**options), set(signature(Stream).parameters)),
    "feed": (lambda **options: Stream().feed(**{"data": b"", **options}), {"data", "at"}),
    "close": (lambda **options: Stream().close(**options), {"exit", "at"}),
    "TextSink": (lambda **options: TextSink(**{"mode": "none", **options}), set(signature(TextSink).parameters)),
    "StreamEventClassifier": (StreamEventClassifier, {"overrides"}),
    "classify": (
        lambda **options: StreamEventClassifier().classify(**{"event_type": "x", **options}),
        {"event_type", "content", "key"},
    ),
}
"""What takes options, and the names of all of them."""


def cells() -> Iterator[Any]:
    """Every option of every call."""
    for call, (make, names) in CALLS.items():
        for name in sorted(names):
            yield pytest.param(make, name, id=f"{call}({name}=)")


@pytest.mark.sample(3)
@pytest.mark.parametrize(("make", "name"), [*cells()])
def test_every_option_with_odd_values(make: Callable[..., Any], name: str) -> None:
    """A value fits, or the error is a sentence that says what is expected; at least one value is wrong."""
    wrong = 0
    for value in ODD:
        try:
            made = make(**{name: value})
        except UsageError as error:
            wrong += 1
            said = str(error)
            assert named(name, value, said), said
            assert "\n" not in said
            assert len(said) < 600, said
        else:
            _use(made)
    assert wrong


def named(name: str, value: object, said: str) -> bool:
    """Whether the sentence says which option it is about: its name, what it is for, or the very value."""
    if f"{name} is " in said or name in said:
        return True
    words = {"prompt": "prompt", "env": "environment", "cwd": "directory", "command": "demo", "stdin_text": "prompt"}
    words |= {"allow_tools": "--allow-tool", "deny_tools": "--deny-tool", "files": "'x' cannot be read"}
    words |= {"fallback": "there is no agent 'x'"}
    return words.get(name, "\0") in said or (isinstance(value, str) and value != "" and repr(value)[:20] in said)


def _use(made: object) -> None:
    """Let what was made work, so that a value that fits does no harm later."""
    if isinstance(made, Stream):
        made.feed(b"{}\n")
        made.close()


@pytest.mark.parametrize(
    ("call", "option", "value", "said"),
    [
        ("agent", "timeout", "5", "timeout is '5'; expected a number of seconds above 0, or None"),
        ("agent", "timeout", 0, "timeout is 0; expected a number of seconds above 0, or None"),
        ("agent", "timeout", math.nan, "timeout is nan; expected a number of seconds above 0, or None"),
        ("agent", "timeout", True, "timeout is True; expected a number of seconds above 0, or None"),
        ("agent", "timeuot", 5, "there is no option 'timeuot'; did you mean 'timeout'?"),
        ("agent", "args", "--flag", "args is '--flag'; expected a list of strings without NUL characters"),
        ("agent", "allow", "some", "allow is 'some'; expected one of default, read, ask, edits, all, own"),
        ("agent", "name", 5, "name is 5; expected a string that is not empty"),
        ("run", "prompt", None, "prompt is None; expected a string"),
        ("run", "fork", "yes", "fork is 'yes'; expected True or False"),
        ("run", "fork", True, "there is nothing to fork; expected a session_id, the conversation that is branched"),
        ("run", "cwd", "/no/such", "there is no directory '/no/such'; expected cwd to be the directory that"),
        ("run", "number", 2**53, f"number is {2**53}; expected a whole number from 0 to {2**53 - 1}, or None"),
        ("Limits", "step", -1, "step is -1; expected a number of seconds, 0 or more"),
        ("Stream", "agent", None, 'agent is None; expected the name of an agent, "auto", or an adapter'),
        ("feed", "data", "{}", "data is '{}'; expected bytes, as of a file that is opened with \"rb\""),
        ("TextSink", "mode", "auto", "mode is 'auto'; expected one of full, basic, none"),
        ("StreamEventClassifier", "overrides", {"a": "noise"}, "'noise' is not a type of event; there are: complete,"),
    ],
)
def test_what_the_sentence_is(call: str, option: str, value: Any, said: str) -> None:
    """What it was, what was expected, in the words of Python."""
    with pytest.raises(UsageError) as caught:
        CALLS[call][0](**{option: value})
    assert str(caught.value).startswith(said)


def test_every_option_has_its_rule() -> None:
    """A new option comes with the values that it may have."""
    assert set(PROMPT_RULES) == RUN - {"fallback", "fallback_on"}
    assert set(RULES) == {"agent", *PROMPT_RULES, *OPTION_RULES} == {*RunSpec.__struct_fields__}


def test_python_takes_the_fields_of_the_spec() -> None:
    """Each field of a run's spec is an option of Python, of the same type but for the paths and lists it accepts."""
    fields = {name: hint for name, hint in get_type_hints(RunSpec).items() if name not in ("agent", *PROMPT_RULES)}
    wider = {"cwd", "record", "args", "command", "files", "schema", "mcp_config", "allow_tools", "deny_tools"}
    wider |= {"network_hosts"}
    options = get_type_hints(Options)
    assert set(options) == set(fields)
    assert {name for name, hint in fields.items() if options[name] != hint} == wider
    prompted = get_type_hints(Agent.run)
    assert {name: prompted[name] for name in PROMPT_RULES} == {
        name: hint for name, hint in get_type_hints(RunSpec).items() if name in PROMPT_RULES
    }


def test_an_adapter_sees_a_part_of_the_spec() -> None:
    """Each field of a request is that of the spec, but for the profile, contents of files, and what a launch adds."""
    asked: dict[str, Any] = {
        "prompt": "p",
        "model": "m",
        "session_id": "s",
        "fork": True,
        "cwd": "/",
        "allow": "all",
        "args": ("a",),
    }
    asked |= {"max_cost": 0.5, "max_turns": 3, "max_tokens": 9, "effort": "high", "system_prompt": "s"}
    asked |= {"allow_tools": ("a",), "deny_tools": ("b",), "ignore_project": True}
    request = spec_of({"agent": "x", "stdin_text": "t", **asked}).request()
    read = {"profile": None, "files": (), "images": (), "schema": None, "mcp_config": None}
    found = msgspec.structs.asdict(request)
    assert not found.pop("stays_inside")(["/"])  # until a launch knows the directory, a person is asked
    assert found == {**asked, "stdin_text": "t", **read}


@pytest.mark.parametrize("speed", [0, -1, math.nan, math.inf, -math.inf, HUGE, "2", None, True])
def test_the_speed_of_a_replay(speed: Any) -> None:
    """A number above 0."""
    with pytest.raises(UsageError, match=r"speed is .*; expected a number above 0"):
        _replayed(speed=speed)


@pytest.mark.parametrize("timeout", [1e-300, 1e10, 1e300])
def test_extreme_time_limits_work(timeout: float) -> None:
    """A limit that no clock can wait for is waited for in parts; one of almost nothing is over at once."""
    run = agent("demo", command=["cat"], adapter="generic", timeout=timeout).run("hi")
    with run:
        ended = run.wait()
    assert ended.outcome == ("timed_out" if timeout < 1 else "error") or ended.outcome in ("ok", "empty")


@pytest.mark.parametrize("value", [5, None, b"yes", ["yes"]])
def test_an_answer_that_is_no_text(value: Any) -> None:
    """It is the caller's error, and does not end the run."""
    with agent("demo", command=["cat"], adapter="generic").run("hi") as run:
        for given in ((value, "yes"), ("q", value)):
            with pytest.raises(UsageError, match="expected a string"):
                run.answer(*given)
        run.wait()


def test_a_long_value_is_shortened() -> None:
    """So that the sentence stays one."""
    with pytest.raises(UsageError) as caught:
        check({"allow": "x" * 10_000}, OPTION_RULES)
    assert len(caught.value.what) < MAX_SHOWN_CHARS + 20


def test_nul_in_what_is_configured() -> None:
    """A prompt with a NUL reaches no program."""
    with pytest.raises(UsageError, match="NUL"):
        plan(spec_of({"agent": "claude", "prompt": "a\0b"}), load({}))
