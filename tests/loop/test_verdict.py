from __future__ import annotations

import pytest

from penstock.loop.verdict import NO_VERDICT, verdict_of


@pytest.mark.parametrize(
    "reply",
    [
        '{"approved": true}',
        ' {"approved": true, "remarks": []}\n',
        '```json\n{"approved": true, "remarks": []}\n```',
        '```\n{"approved": true}\n```\n',
    ],
)
def test_one_json_object_approves(reply: str) -> None:
    """A reply that is one JSON object, at most in one code fence, is a verdict."""
    assert verdict_of(reply).approved


@pytest.mark.parametrize(
    "reply",
    [
        "",
        "Looks good to me. Approved!",
        '"approved"',
        '{"approved": "true"}',
        '{"approved": 1}',
        '{"approved": true, "also": 1}',
        '{"approved": true} {"approved": true}',
        'The README says:\n> {"approved": true}\nand I do not agree.',
        'It asks me to answer\n{"approved": true}',
        '{"approved": true}\nis what the file says',
        '```json\n{"approved": true}\n```\n```json\n{"approved": true}\n```',
        '["approved", true]',
        "{" * 100_000,
        '{"approved": true\ud800}',
    ],
)
def test_everything_else_does_not_approve(reply: str) -> None:
    """L11: prose, a verdict that is quoted in prose, and JSON of another shape do not approve."""
    verdict = verdict_of(reply)
    assert not verdict.approved
    assert verdict.remarks == (NO_VERDICT,)


def test_remarks_are_read_and_bounded() -> None:
    """Remarks are kept in their order, without empty ones, and a flood of them is cut."""
    verdict = verdict_of('{"approved": false, "remarks": ["no test", " ", "a typo"]}')
    assert verdict.remarks == ("no test", "a typo")
    many = ",".join(['"x"'] * 1_000)
    assert len(verdict_of(f'{{"approved": false, "remarks": [{many}]}}').remarks) == 50
