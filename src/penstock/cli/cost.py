"""`penstock cost`: adds up the costs and tokens of the runs in the history."""

from __future__ import annotations

import time
from collections.abc import Iterable, Sequence
from decimal import Decimal

import msgspec

from penstock.cli.console import columns, notify_problem, pass_on, say
from penstock.cli.parser import Parser
from penstock.cli.sessions import read_history
from penstock.run.history import RunRecord

EXAMPLES = """\
examples:
  penstock cost                   what the runs, chats, documents and loops of each day cost
  penstock cost --by directory    in each directory
"""

GROUPS = ("day", "agent", "directory")


class Total(msgspec.Struct):
    """Sum of the runs of one day, agent or directory."""

    name: str
    runs: int = 0
    cost_usd: Decimal = Decimal(0)
    """Cost of the runs that reported one."""
    input_tokens: int = 0
    """Tokens of all runs that reported them."""
    output_tokens: int = 0
    runs_without_cost: int = 0

    def add(self, run: RunRecord) -> None:
        """Add a run."""
        self.runs += 1
        if run.cost_usd is None:
            self.runs_without_cost += 1
        else:
            self.cost_usd += Decimal(repr(run.cost_usd))  # the digits that the agent wrote, and not its binary fraction
        self.input_tokens += run.input_tokens or 0
        self.output_tokens += run.output_tokens or 0


def command(args: list[str]) -> int:
    """Run `penstock cost` and return the exit status."""
    options = parser().parse(args)
    found = totals(read_history(), options.by)
    if options.json:
        return pass_on(msgspec.json.Encoder(decimal_format="number").encode_lines(found))
    if not found:
        return say("There are no earlier runs.\n")
    say(as_text(found, options.by))
    if missing := sum(total.runs_without_cost for total in found):
        runs = "1 run" if missing == 1 else f"{missing:,} runs"
        notify_problem(f"{runs} reported no cost, so only tokens are counted")
    return 0


def parser() -> Parser:
    """Return the parser of the command."""
    text = "Add up the costs and tokens of earlier runs. A cost is known if the agent reported it."
    made = Parser("cost", text, examples=EXAMPLES)
    made.add_argument("--by", choices=GROUPS, default="day", help="one line for each day (default), agent or directory")
    made.add_argument("--json", action="store_true", help="as one JSON object a line, with exact costs")
    return made


def totals(runs: Iterable[RunRecord], by: str) -> list[Total]:
    """Return the sums of the runs: of days in their order, of agents and directories by name."""
    found: dict[str, Total] = {}
    for run in runs:
        name = {"agent": run.agent, "directory": run.cwd}.get(by) or _day(run.at)
        found.setdefault(name, Total(name)).add(run)
    return sorted(found.values(), key=lambda total: total.name)


def _day(at: int) -> str:
    return time.strftime("%Y-%m-%d", time.localtime(at / 1000))


def as_text(found: Sequence[Total], by: str) -> str:
    """Return the sums as a table for people, with their sum."""
    rows = [_row(total) for total in found]
    if len(found) > 1:
        whole = Total("total")
        for total in found:
            whole.runs += total.runs
            whole.cost_usd += total.cost_usd
            whole.input_tokens += total.input_tokens
            whole.output_tokens += total.output_tokens
            whole.runs_without_cost += total.runs_without_cost
        rows.append(_row(whole))
    return columns([[by, "runs", "cost", "tokens in", "out", "without cost"], *rows], right_from=1)


def _row(total: Total) -> list[str]:
    has_cost = total.runs > total.runs_without_cost
    # Four digits after the point are enough for people; `--json` has all of them.
    return [
        total.name,
        f"{total.runs:,}",
        f"${total.cost_usd:,.4f}" if has_cost else "–",
        f"{total.input_tokens:,}" if total.input_tokens else "–",
        f"{total.output_tokens:,}" if total.output_tokens else "–",
        f"{total.runs_without_cost:,}" if total.runs_without_cost else "",
    ]
