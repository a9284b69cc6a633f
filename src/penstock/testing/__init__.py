"""Tools for authors of adapters and readers of Penstock's events: the judge, the feeds and the conformance check."""

from __future__ import annotations

from penstock.testing import feeds as feeds
from penstock.testing.conformance import check_adapter as check_adapter
from penstock.testing.verify import Violation as Violation
from penstock.testing.verify import verify as verify

__all__ = ["Violation", "check_adapter", "feeds", "verify"]
