"""Order of the candidates of a round: checks, then approval, then a judge between equal ones, then size. Pure."""

from __future__ import annotations

from penstock.loop.state import LoopState, Round, Stage

MAX_LOSSES = 3
"""Times that a candidate begins again after Penstock was killed; then its last result counts."""

WORKING = ("work", "check", "review")
"""Stages of a candidate that cannot be compared yet."""

CLASSES: tuple[tuple[Stage, ...], ...] = (
    ("commit", "approved"),
    ("not_approved",),
    ("held",),
    ("unchanged",),
    ("red", "conflict"),
    ("refused",),
    ("failed",),
)
"""Stages of candidates that have ended, the best first. An unchanged candidate ranks below those without a red
check, unless it confirms finished work."""

REASONS = (
    "the only green one",
    "its checks are green",
    "its checks are green",
    "its checks are green",
    "more of its checks are green",
    "the others failed",
    "the others failed",
)
"""Why a candidate is the best that is alone in its class."""


def needs_work(it: Round) -> bool:
    """Return whether a candidate has to work, or to continue after Penstock was killed."""
    return it.work is None or (it.work.outcome == "lost" and it.losses < MAX_LOSSES)


def unfinished(state: LoopState, it: Round) -> int | None:
    """Return the number of the first candidate whose checks or reviews are not complete."""
    for number, candidate in enumerate(it.candidates, 1):
        if not needs_work(candidate) and state.stage(candidate) in WORKING:
            return number
    return None


def pair_to_compare(state: LoopState, it: Round) -> tuple[int, int] | None:
    """Return the two candidates that the judge compares next; None if no comparison is needed.

    The best one so far is compared to each other one, in both orders, as judges prefer what they see first or last.
    """
    if state.settings.judge is None:
        return None
    return _tournament(it, _equals(state, it))[2] if _class_of(state, _best(state, it)) == 0 else None


def winner(state: LoopState, it: Round) -> tuple[int, str]:
    """Return the number of the best candidate, and why it is the best."""
    equals = _equals(state, it)
    rank = _class_of(state, _best(state, it))
    if len(equals) == 1:
        others = [one for one in it.candidates if one.work is not None and one is not it.candidates[equals[0] - 1]]
        if not others:
            return equals[0], "the only one that could work"
        if all(_tree(one) == _tree(it.candidates[equals[0] - 1]) for one in others):
            return equals[0], "all have the same result"
        return equals[0], "the only approved one" if rank == 0 and state.settings.reviews else REASONS[rank]
    if rank == 0 and state.settings.judge is not None:
        number, is_decided, _ = _tournament(it, equals)
        if is_decided:
            return number, "the judge prefers it"
        return number, "the smaller change, as the judge preferred none"
    return min(equals, key=lambda number: _size(it, number)), "the smaller change"


def _class_of(state: LoopState, it: Round) -> int:
    stage = state.stage(it)
    if stage == "unchanged" and it.task is None and state.head_differs_from_base(it):
        return 0  # it confirms that the work is done
    return next(number for number, stages in enumerate(CLASSES) if stage in stages)


def _key(state: LoopState, it: Round) -> tuple[int, int]:
    return _class_of(state, it), -it.passed


def _best(state: LoopState, it: Round) -> Round:
    return min((one for one in it.candidates if one.work is not None), key=lambda one: _key(state, one))


def _equals(state: LoopState, it: Round) -> list[int]:
    """Return the numbers of the best candidates by checks and approval, one of those with the same tree."""
    best = _key(state, _best(state, it))
    found: dict[str, int] = {}
    for number, one in enumerate(it.candidates, 1):
        if one.work is not None and _key(state, one) == best:
            found.setdefault(_tree(one), number)
    return list(found.values())


def _tree(it: Round) -> str:
    return it.work.tree if it.work is not None else ""


def _size(it: Round, number: int) -> tuple[int, int, int]:
    work = it.candidates[number - 1].work
    assert work is not None
    return work.size.added + work.size.removed, work.size.files, number


def _tournament(it: Round, numbers: list[int]) -> tuple[int, bool, tuple[int, int] | None]:
    """Return the best one, whether the judge decided its last comparison, and the comparison that is missing."""
    made = {(one.first, one.second): one.better for one in it.comparisons}
    best, is_decided = numbers[0], False
    for other in numbers[1:]:
        choices = []
        for pair in ((best, other), (other, best)):
            if pair not in made:
                return best, is_decided, pair
            choices.append(made[pair])
        is_decided = choices[0] == choices[1] != 0
        best = choices[0] if is_decided else min(best, other, key=lambda number: _size(it, number))
    return best, is_decided, None
