"""The adapter keeps what Penstock promises of every agent."""

from __future__ import annotations

from pathlib import Path

from penstock_parrot import Parrot

from penstock.testing import check_adapter


def test_parrot() -> None:
    """Whole, in pieces, cut short and with lines gone wrong, every recording keeps the contract."""
    check_adapter(Parrot, [path.read_bytes() for path in Path(__file__).parent.glob("*.ndjson")])
