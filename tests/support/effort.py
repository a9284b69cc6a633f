"""How much the tests of random inputs try: a part in `make test`, the full counts with `PENSTOCK_SOAK=1`."""

from __future__ import annotations

import os

from hypothesis import HealthCheck, settings

SOAK = bool(os.environ.get("PENSTOCK_SOAK"))
"""Whether the tests run at their full counts, as `make soak` runs them."""


def at_most(fast: int, full: int) -> int:
    """The count of a test: `fast` in `make test`, `full` in a soak."""
    return full if SOAK else fast


def examples(fast: int, full: int) -> settings:
    """Settings for a property with this many examples, the same ones in each run."""
    return settings(
        max_examples=at_most(fast, full),
        deadline=None,  # a slow machine is not a failure
        suppress_health_check=[HealthCheck.too_slow],
        derandomize=True,
    )
