"""`penstock loop --ask`: asks the user at the terminal if a loop has ended with a question or a plan."""

from __future__ import annotations

import os
from argparse import Namespace

from penstock.cli.console import notify
from penstock.cli.editor.plain_line import read_line
from penstock.errors import UsageError
from penstock.loop.effects import NEEDS_PERSON
from penstock.loop.state import LoopState


def check_terminal(options: Namespace) -> None:
    """Check that there is a user to ask, if asking is wanted.

    Raises:
        UsageError: there is no terminal.
    """
    if options.ask and not (os.isatty(0) and os.isatty(2)):
        raise UsageError("--ask needs a terminal", help="without it, penstock loop tell answers a question")


def answer_of_user(state: LoopState) -> str:
    """Return the user's answer to a loop that waits for one; "" if it does not wait, or nothing is typed."""
    if state.ended is None or state.ended.status != NEEDS_PERSON:
        return ""
    if state.question:
        prompt = "Answer: "
    elif state.settings.plan_is_asked and state.plan and not state.plan_is_approved:
        prompt = "yes, or what to change in the plan: "
    else:
        return ""
    try:
        return read_line(prompt).strip()
    except EOFError:
        notify("\n")
        return ""
