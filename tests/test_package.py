"""The names of the package: what a program gets from `penstock` itself, and what that costs."""

from __future__ import annotations

import copy
import pickle
import subprocess
import sys
from typing import get_args

import pytest

import penstock
from penstock import classic, events


def test_a_star_imports_the_public_names() -> None:
    """`from penstock import *` gives all public names, and nothing else."""
    names: dict[str, object] = {}
    exec("from penstock import *", names)
    del names["__builtins__"]
    assert sorted(names) == penstock.__all__


def test_every_event_is_exported() -> None:
    """The union and each of its events have their own names in the package."""
    assert penstock.Event is events.Event
    for kind in get_args(events.Event):
        assert getattr(penstock, kind.__name__) is kind


def test_every_error_is_exported() -> None:
    """A program can catch each error by a name of the package."""
    from penstock import errors

    kinds = {name for name, kind in vars(errors).items() if isinstance(kind, type) and issubclass(kind, Exception)}
    assert kinds <= set(penstock.__all__)


def test_names_of_older_designs_have_a_module_of_their_own() -> None:
    """`penstock.classic` has the names of the older designs; the package has only those that it uses itself."""
    assert set(classic.__all__) & set(penstock.__all__) == {"StreamChunk", "StreamingAgent"}
    assert [name for name in classic.__all__ if not hasattr(classic, name)] == []


def test_a_name_that_is_not_there() -> None:
    """A wrong name is an AttributeError or ImportError, as in any module."""
    with pytest.raises(AttributeError, match="module 'penstock' has no attribute 'Colors'"):
        _ = penstock.Colors  # type: ignore[attr-defined]
    with pytest.raises(ImportError):
        exec("from penstock import Colors")


def test_an_import_is_lazy() -> None:
    """The package imports nothing by itself; a name imports its module, once."""
    code = """
import sys, penstock
assert not [name for name in sys.modules if name.startswith("penstock.")]
assert "typing" not in sys.modules and "msgspec" not in sys.modules
stream = penstock.Stream
assert "penstock.stream" in sys.modules and "penstock.run.agent" not in sys.modules
assert vars(penstock)["Stream"] is stream
"""
    subprocess.run([sys.executable, "-S", "-c", f"import sys; sys.path[:0] = {sys.path!r}\n{code}"], check=True)


def failed() -> penstock.AgentFailed:
    """An error with a value for each fact."""
    return penstock.AgentFailed(
        "claude",
        "error",
        "the limit is reached",
        cause="usage_limit",
        resets_at=1_700_000_000_000,
        exit_status=1,
        stderr="no\n",
        session_id="s-1",
        reply="I will",
    )


@pytest.mark.parametrize(
    "error",
    [
        failed(),
        penstock.PenstockError("this", expected="that", help="do so"),
        penstock.UsageError("this", expected="that", help="do so"),
        penstock.UnknownAgent("cluade", ["claude"]),
        penstock.UnknownAgent("mine", ["mine"], "it is broken"),
        penstock.AgentNotFound("claude", "claude", "npm install it"),
        penstock.ConfigError("this", help="do so"),
        penstock.TransportError("this"),
    ],
    ids=lambda error: type(error).__name__,
)
def test_errors_can_be_pickled_and_copied(error: penstock.PenstockError) -> None:
    """An error that crosses a process pool is the same afterwards: its class, its message and all of its facts."""
    for again in (pickle.loads(pickle.dumps(error)), copy.deepcopy(error), copy.copy(error)):
        assert type(again) is type(error)
        assert str(again) == str(error)
        assert vars(again) == vars(error)


def test_a_result_can_be_pickled_and_copied() -> None:
    """A result that crosses a process pool is equal afterwards."""
    result = penstock.Result(
        agent="claude",
        outcome="ok",
        reply="hi",
        changes=[events.Change("a.txt", "add")],
        usage=events.Usage(input_tokens=3),
    )
    assert pickle.loads(pickle.dumps(result)) == copy.deepcopy(result) == result


def test_costs_have_the_decimals_of_the_wire() -> None:
    """A sum of costs is exact: the figures of a wire are decimals."""
    one, two = events.Usage(cost_usd=0.1, input_tokens=1), events.Usage(cost_usd=0.2)
    assert one + two == events.Usage(cost_usd=0.3, input_tokens=1)
    assert events.added(1e-7, 0.0098765432109876) == 0.0098766432109876
    assert (events.added(1, 2), events.added(None, 0.5), events.added(None, None)) == (3, 0.5, None)
    assert events.added(float("inf"), 0.1) == float("inf")
