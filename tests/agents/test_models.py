"""The models that agents list: what their real programs printed, and what no list of theirs should be."""

from __future__ import annotations

import random
from collections.abc import Callable
from pathlib import Path

import pytest
from msgspec import UNSET

from penstock.adapter import EFFORT, MODEL
from penstock.agents import registry
from penstock.agents._models import MAX_EFFORTS, MAX_MODELS, AgentModel

RECORDED = Path(__file__).parent / "model_lists"
"""Output of opencode 1.18.33, pi 1.6.0, and in part kilo 7.7.9 and codex 0.171.0, whose long texts are left out."""
AGENTS = ("codex", "opencode", "kilo", "pi")
UP_TO_ULTRA = ["low", "medium", "high", "xhigh", "max", "ultra"]

Read = Callable[[bytes], list[AgentModel]]


def reader_of(agent: str) -> Read:
    """What reads the list of an agent."""
    listing = registry.AGENTS[agent].models
    assert listing is not None
    read: Read = registry.load(listing.reader)
    return read


def recorded(name: str) -> bytes:
    """What a program printed."""
    return (RECORDED / f"{name}.txt").read_bytes()


def test_the_list_of_codex() -> None:
    """Each model has its levels and its usual one; those that codex hides are left out."""
    assert reader_of("codex")(recorded("codex")) == [
        AgentModel("gpt-6.2-sol", UP_TO_ULTRA, "low"),
        AgentModel("gpt-6-luna", UP_TO_ULTRA[:-1], "medium"),
        AgentModel("gpt-5.5", UP_TO_ULTRA[:-2], "medium"),
    ]


def test_the_list_of_opencode() -> None:
    """The variants are the levels; a model without variants has no levels."""
    found = reader_of("opencode")(recorded("opencode"))
    assert len(found) == 8
    assert found[0] == AgentModel("opencode/big-pickle", [])
    assert found[1] == AgentModel("opencode/ling-3.0-flash-fin-free", ["low", "medium", "high"])
    assert found[-1] == AgentModel("opencode/space-bunny-free", UP_TO_ULTRA[:-1])


def test_the_list_of_kilo() -> None:
    """It has the form of opencode; the names have two slashes."""
    found = reader_of("kilo")(recorded("kilo"))
    assert [it.name for it in found] == [
        f"kilo/~anthropic/claude-{name}-latest" for name in ("fable", "haiku", "opus", "sonnet")
    ]
    assert found[1].efforts == ["none", "high"]


def test_the_list_of_pi() -> None:
    """The rows of its table; without a login there are none. A model that does not think has no levels."""
    read = reader_of("pi")
    found = read(recorded("pi"))
    assert len(found) == 18
    assert found[0] == AgentModel("anthropic/claude-fable-5")
    assert read(recorded("pi-without-login")) == []
    table = b"provider  model  context  thinking\nx  dull  1K  no\nx  bright  1K  yes\nx short\n"
    assert read(table) == [AgentModel("x/dull", []), AgentModel("x/bright")]


@pytest.mark.parametrize("agent", AGENTS)
def test_a_damaged_list(agent: str) -> None:
    """Cut anywhere, or with other bytes anywhere, a list has models with usable names, or none, and is no error."""
    whole, read, chance = recorded(agent), reader_of(agent), random.Random(1)
    known = {it.name for it in read(whole)}
    for at in range(0, len(whole), max(1, len(whole) // 200)):
        cut = read(whole[:at])
        assert {it.name for it in cut[:-1]} <= known  # the last name may be cut
        assert all(MODEL.fits(it.name) for it in cut)
    for _ in range(200):
        spoilt = bytearray(whole)
        for _ in range(20):
            spoilt[chance.randrange(len(spoilt))] = chance.randrange(256)
        for it in read(bytes(spoilt)):
            assert MODEL.fits(it.name)
            assert it.efforts is UNSET or all(map(EFFORT.fits, it.efforts))


@pytest.mark.parametrize("agent", AGENTS)
@pytest.mark.parametrize(
    "output",
    [
        b"",
        b"\n",
        b"\0\xff\xfe",
        b"null",
        b'"models"',
        b'{"models": 3}',
        b'{"models": [null, 1, "x", [], {"visibility": "list", "slug": {}}]}',
        b"[" * 100_000,
        b'{"models":' * 50_000,
        b'{"a": ' * 50_000 + b"\n" + b"}" * 50_000,
        b"Error: cannot read /etc/passwd or /dev/null",
        b"--flag/x\n{}\n",
        b"a/\x1b[31mred\n{}\n",
        "a/\u202egnp\n{}\n".encode(),
        b"a/" + b"x" * 100_000 + b"\n{}\n",
        b"provider model\n--x y\n\x1b[2Ja b\n",
    ],
)
def test_hostile_output(agent: str, output: bytes) -> None:
    """What is no list, or has names that a terminal or a program would misread, gives none."""
    assert reader_of(agent)(output) == []


def test_a_list_without_an_end() -> None:
    """Many models, and many levels of one, are cut; a name counts once, and levels that are none are left out."""
    read = reader_of("opencode")
    assert len(read(b"".join(b"a/%d\n" % it for it in range(MAX_MODELS * 3)))) == MAX_MODELS
    levels = ",".join(f'"l{it}": {{}}' for it in range(MAX_EFFORTS * 3))
    (found,) = read(f'a/b\n{{"variants": {{"-x": 1, "a b": 1, {levels}}}}}\na/b\n'.encode())
    assert found.efforts == [f"l{it}" for it in range(MAX_EFFORTS)]


def test_a_model_whose_object_is_damaged() -> None:
    """Its name counts, and so do the models after it."""
    found = reader_of("opencode")(b'a/b\n{\n  "variants": {"low"\n}\na/c\n{\n  "variants": {"low": {}}\n}\n')
    assert found == [AgentModel("a/b"), AgentModel("a/c", ["low"])]


def test_a_usual_level_that_the_model_does_not_have() -> None:
    """It is left out."""
    text = b'{"models": [{"slug": "m", "visibility": "list", "supported_reasoning_levels": [{"effort": "low"}], '
    (found,) = reader_of("codex")(text + b'"default_reasoning_level": "<b>"}]}')
    assert found == AgentModel("m", ["low"])
