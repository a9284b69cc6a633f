"""The health report: what is counted, and what is a reason for a warning."""

from __future__ import annotations

from penstock.core.bounded import BoundedDict
from penstock.core.health import MAX_UNKNOWN_KINDS, OTHER_KINDS, Health


def test_a_healthy_stream_has_no_warning() -> None:
    """Unknown kinds, repaired snapshots and superseded attempts are reported, and are no warning."""
    health = Health(delta_events=1234, complete_events=1, repaired_snapshots=1, superseded_attempts=2)
    health.count_unknown("new")
    health.count_unknown("new")
    assert health.warnings == []
    assert health.summary("claude") == (
        "claude: 1,234 delta events (streaming content) and 1 complete event; "
        "2 unknown events of 1 kind (valid JSON that is not handled); "
        "1 snapshot among the deltas repaired; 2 attempts given up by the agent."
    )
    assert Health().summary("x") == "x: 0 delta events (streaming content) and 0 complete events."


def test_every_reason_for_a_warning() -> None:
    """Malformed lines (with the first of them), changed texts and a failing adapter are warnings, each a sentence."""
    health = Health(discontinuities=1, adapter_errors=3)
    health.count_parse_error(4)
    health.count_parse_error(9)
    assert health.warnings == [
        "2 lines could not be parsed (first: line 4)",
        "1 text changed after being streamed and had to be revised",
        "3 events broke the adapter: please report it",
    ]
    assert health.summary("x").endswith("; ".join(health.warnings) + ".")
    report = health.report()
    assert report["warnings"] == health.warnings
    assert (report["parse_errors"], report["first_parse_error"]) == (2, 4)


def test_unknown_kinds_are_bounded() -> None:
    """Beyond so many names, further kinds are counted together; those that have a name keep it."""
    health = Health()
    for number in range(MAX_UNKNOWN_KINDS + 5):
        health.count_unknown(f"kind {number}")
    health.count_unknown("kind 0")
    assert len(health.unknown_kinds) == MAX_UNKNOWN_KINDS + 1
    assert health.unknown_kinds[OTHER_KINDS] == 5
    assert health.unknown_kinds["kind 0"] == 2
    assert health.unknown_events == MAX_UNKNOWN_KINDS + 6


def test_a_bounded_dict_replaces_its_oldest_entry() -> None:
    """A new key beyond the limit replaces the oldest; a key that is there is changed in place."""
    found: BoundedDict[str, int] = BoundedDict(2)
    for key, value in (("a", 1), ("b", 2), ("a", 3), ("c", 4)):
        found[key] = value
    assert found == {"b": 2, "c": 4}


def test_causes_are_in_the_summary() -> None:
    """The summary has how often each cause came."""
    health = Health()
    for cause in ("overloaded", "overloaded", "auth"):
        health.count_cause(cause)
    assert "causes of trouble: overloaded 2, auth 1" in health.summary("claude")
