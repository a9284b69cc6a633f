"""Check a store against everything that `ChatStore` promises, in one line of a test.

async def test_my_store() -> None:
    await check_store(lambda: MyStore.open("somewhere"))

The checks are in modules by subject. What a single store promises besides belongs to its own tests.
"""

from __future__ import annotations

import asyncio
import os
from collections.abc import Sequence

from penstock.chat.store.conformance import promises
from penstock.chat.store.conformance.attachments import attachments_are_kept, attachments_go_with_their_turns
from penstock.chat.store.conformance.claims import claims_are_released, older_epochs_are_fenced
from penstock.chat.store.conformance.concurrency import (
    cancelled_appends_are_whole,
    subscribers_are_notified_of_rows,
    subscribers_miss_nothing,
    writers_race,
)
from penstock.chat.store.conformance.costs import costs_are_added_up
from penstock.chat.store.conformance.entries import (
    a_key_is_one_entry,
    appends_are_whole,
    chats_are_apart,
    entries_are_kept,
    nonsense_is_an_error,
    numbers_ahead_are_errors,
    pages_follow,
    stale_writers_conflict,
    summaries_go_with_their_entries,
)
from penstock.chat.store.conformance.opening import a_check_changes_nothing, a_new_store_has_all
from penstock.chat.store.conformance.permits import changes_need_their_right, reads_need_their_right
from penstock.chat.store.conformance.promises import Check as Check
from penstock.chat.store.conformance.promises import Open as Open
from penstock.chat.store.conformance.reads import read_marks_move_forward, read_marks_need_their_right
from penstock.chat.store.conformance.retention import old_turns_expire, trimmed_entries_are_gone
from penstock.chat.store.conformance.rows import (
    changes_leave_other_fields,
    chats_are_rows,
    chats_begin_with_their_first_turn,
    directories_are_rows,
    rules_are_compared_and_set,
    shares_are_rows,
)
from penstock.chat.store.conformance.search import (
    any_search_is_answered,
    searches_keep_to_rights,
    the_index_follows_changes,
    words_are_found,
)


async def check_store(make: Open, checks: Sequence[Check] | None = None) -> None:
    """Check all promises, or some of `CHECKS`.

    `make` opens the same store at each call; the checks use chats of random ids.

    Raises:
        AssertionError: a promise is broken; the message says which.
    """
    for check in CHECKS if checks is None else checks:
        try:
            async with asyncio.timeout(promises.PATIENCE * 2):
                await check(make, f"check-{os.urandom(6).hex()}")
        except TimeoutError:
            raise AssertionError(f"{check.__name__}: it never came to an end") from None
        except AssertionError as broken:
            raise AssertionError(f"{check.__name__}: {broken}") from broken
        except Exception as error:
            raise AssertionError(f"{check.__name__}: the store raised {error!r}") from error


CHECKS: tuple[Check, ...] = (
    entries_are_kept,
    stale_writers_conflict,
    older_epochs_are_fenced,
    claims_are_released,
    appends_are_whole,
    summaries_go_with_their_entries,
    a_key_is_one_entry,
    pages_follow,
    chats_are_apart,
    trimmed_entries_are_gone,
    numbers_ahead_are_errors,
    nonsense_is_an_error,
    chats_are_rows,
    chats_begin_with_their_first_turn,
    changes_leave_other_fields,
    rules_are_compared_and_set,
    directories_are_rows,
    shares_are_rows,
    attachments_are_kept,
    attachments_go_with_their_turns,
    changes_need_their_right,
    reads_need_their_right,
    read_marks_move_forward,
    read_marks_need_their_right,
    words_are_found,
    the_index_follows_changes,
    searches_keep_to_rights,
    costs_are_added_up,
    any_search_is_answered,
    old_turns_expire,
    writers_race,
    subscribers_miss_nothing,
    subscribers_are_notified_of_rows,
    cancelled_appends_are_whole,
    a_check_changes_nothing,
    a_new_store_has_all,
)
"""Checks, one for each promise. Each gets a store and the id of a chat that does not exist yet."""
