"""Texts of a loop for people: one line per step, the table of rounds, and what to type next."""

from __future__ import annotations

import shlex
from difflib import unified_diff

from penstock.cli.console import columns, fitted, one_line
from penstock.cli.screen import local_time
from penstock.loop.next import STUCK
from penstock.loop.results import (
    candidate_ref,
    candidate_result_of,
    proof_lines,
    put_back_text,
    repository_lines,
    result_of,
    size_text,
)
from penstock.loop.rows import (
    AnyRow,
    HeldDecided,
    LoopEnded,
    MessageAdded,
    PromptChanged,
    StepBegan,
    StepEnded,
    TreeGone,
    Waiting,
)
from penstock.loop.state import LoopState
from penstock.loop.steps import (
    AgentEnded,
    BranchMerged,
    BranchPublished,
    CandidateChosen,
    ChooseCandidate,
    CommandEnded,
    CommitRejected,
    Committed,
    PublishRejected,
    RunAgent,
    RunCheck,
    RunSetup,
    Step,
    TreeMade,
)
from penstock.sinks.sanitize import clean_line

MAX_OUTPUT_LINES = 15
"""Number of last lines of a failed command that are shown at the end: they have the reason, and the table stays
visible."""

MAX_DIFF_LINES = 60
"""Maximum number of lines shown of an edit to the prompt."""

MAX_REPLY_LINES = 12
"""Maximum number of lines of the last reply at the end of an unfinished loop."""

MAX_REPLY_CHARS = 400
"""Maximum characters of each of these lines; the last ones are shown."""

END_WORDS = {
    0: "done",
    1: "not done",
    2: "could not start",
    4: "needs you",
    5: "a budget is used up",
    6: "all agents are at their limits",
    124: "the time budget is used up",
    129: "stopped",
    130: "stopped",
    143: "stopped",
}
"""Words for the exit statuses."""

MAX_TASK_CHARS = 40
"""Maximum characters of a task in a table, so that a row fits into a common terminal."""


def step_line(row: AnyRow, state: LoopState, before: LoopState | None) -> str:
    """Return the line about a row; "" if it has none."""
    match row:
        case StepBegan(does=RunAgent() as step):
            task = f" · {task_text(step.task)}" if step.task else ""
            return _line(_place(step.round), *_who(step, state), _what(step, state) + task)
        case StepEnded():
            line = _result_line(row, state, before.open.get(row.step) if before is not None else None)
            if isinstance(row.result, AgentEnded) and row.result.put_back:
                line += _line("put back", *row.result.put_back)
            if isinstance(row.result, AgentEnded | CommandEnded):
                line += "".join(_line("tree", text) for text in row.result.aside)
            if isinstance(row.result, AgentEnded | CommandEnded | Committed | CommitRejected):
                line += "".join(_line("your repository", text) for text in row.result.changed)
            return line + _put_back_line(row, before)
        case TreeGone() if row.path:
            return _line("tree", f"{row.path} {row.reason}; it is left as it is, and a new one is made from its refs")
        case TreeGone():
            return _line("tree", "it is gone; it is made again from what is in its refs")
        case Waiting():
            return _line("waiting", f"until {local_time(row.until)}", row.reason)
        case MessageAdded():
            waits = f"it waits: {_confirm_command(state)}" if row.is_held else ""
            return _line("message", task_text(row.text), waits)
        case PromptChanged(is_held=True):
            if not row.prompt:
                return _line("prompt", "is as it was before the edit")
            what = "was edited while an agent or a check worked; the edit waits"
            return _line("prompt", f"{what}: {_confirm_command(state)}")
        case PromptChanged():
            return _line("prompt", "was edited; the next round reads it")
        case HeldDecided():
            number = len(row.letters)
            messages = f"{number} message{'s' * (number != 1)}" if number else ""
            return _line("confirmed" if row.is_confirmed else "discarded", "prompt" if row.prompt else "", messages)
        case LoopEnded():
            return _line("ended", end_reason(row)) + "".join(_line(text) for text in proof_lines(state))
    return ""


def _put_back_line(row: StepEnded, before: LoopState | None) -> str:
    """Return the line about files that were put back after a step; "" if none were."""
    if not isinstance(row.result, AgentEnded | CommandEnded | Committed) or not row.result.put_back_settings:
        return ""
    step = before.open.get(row.step) if before is not None else None
    return _line(_place(getattr(step, "round", 0)), put_back_text([one.path for one in row.result.put_back_settings]))


def _result_line(row: StepEnded, state: LoopState, step: object) -> str:
    match row.result:
        case TreeMade() as tree:
            return _line("tree", tree.path, _in_directory(state)) + _not_in_tree(tree)
        case CandidateChosen() if isinstance(step, ChooseCandidate):
            label = state.settings.candidate_labels[step.candidate - 1]
            return _line(_place(step.round), f"chosen: {label}", step.reason)
        case CommandEnded() as ended:
            name = f"check {step.command}" if isinstance(step, RunCheck) else "setup"
            name += " again" if isinstance(step, RunCheck) and step.attempt > 1 else ""
            place = _place(step.round) if isinstance(step, RunCheck) else "base"
            place = "tests of the base" if isinstance(step, RunCheck) and step.with_base else place
            who = _who(step, state) if isinstance(step, RunCheck | RunSetup) else []
            return _line(place, *who, name, _command_result(ended), *_budget(state))
        case AgentEnded() as ended if isinstance(step, RunAgent):
            if step.role == "review" and ended.verdict is not None:
                word = "approved" if ended.verdict.approved else "not approved"
            else:
                why = ended.unusable or ended.reason
                word = ended.outcome.replace("_", " ") + (f": {why}" if why else "")
            if step.role == "judge" and ended.outcome == "ok":
                pair = [state.settings.candidate_labels[number - 1] for number in step.pair]
                word = f"{pair[ended.better - 1]} is better" if ended.better else "no choice"
            return _line(
                _place(step.round),
                *_who(step, state),
                _what(step, state),
                word,
                seconds_text(ended.ms),
                *_budget(state),
            )
        case BranchMerged() as merged:
            return _line("merge", state.merge.name if state.merge is not None else "", ", ".join(merged.conflicts))
        case Committed() as made:
            return _line(_place(len(state.rounds)), f"commit {made.commit[:10]}", made.subject)
        case CommitRejected() as rejected:
            return _line(_place(len(state.rounds)), f"{rejected.hook} rejected the commit")
        case BranchPublished() as published:
            return _line("branch", published.branch or published.reason)
        case PublishRejected() as problem:
            return _line("branch", problem.reason)
    return ""


def _who(step: RunAgent | RunCheck | RunSetup, state: LoopState) -> list[str]:
    """Return the name of the candidate that a step is about, unless the step already names it."""
    if not step.candidate or (isinstance(step, RunAgent) and step.role == "work"):
        return []
    return [state.settings.candidate_labels[step.candidate - 1]]


def _what(step: RunAgent, state: LoopState) -> str:
    if step.role == "judge":
        return f"judge {step.agent} · " + " and ".join(state.settings.candidate_labels[n - 1] for n in step.pair)
    is_candidate = step.role == "work" and step.candidate
    return f"{step.role} {state.settings.candidate_labels[step.candidate - 1] if is_candidate else step.agent}"


def _in_directory(state: LoopState) -> str:
    """Return the directory of the tree in which all agents work; "" if it is the top."""
    return f"in {state.began.directory}" if state.began.directory else ""


def _not_in_tree(made: TreeMade) -> str:
    """Return lines about the user's uncommitted files."""
    lines = []
    if made.uncommitted:
        noun = "file that you have" if made.uncommitted == 1 else "files that you have"
        lines.append(_line("tree", f"begins with the last commit, without {made.uncommitted:,} {noun} not committed"))
    if made.left_out:
        lines.append(_line("tree", f"too large or nested to be kept as they are: {', '.join(made.left_out)}"))
    return "".join(lines)


def _place(number: int) -> str:
    return f"round {number}" if number else "base"


def _line(*parts: str) -> str:
    return one_line(" · ".join(part for part in parts if part)) + "\n"


def _command_result(ended: CommandEnded) -> str:
    word = "green" if ended.is_green else "red"
    return f"{word} {seconds_text(ended.ms)}" + (f", {ended.reason}" if ended.reason else "")


def seconds_text(ms: int) -> str:
    """Return a duration: `90 s`, `12 min`, `3 h 20 min`."""
    if ms < 600_000:
        return f"{ms / 1000:.0f} s"
    minutes = round(ms / 60_000)
    return f"{minutes} min" if minutes < 120 else f"{minutes // 60} h {minutes % 60} min"


def _budget(state: LoopState) -> list[str]:
    used, limit = state.used, state.budget
    parts = []
    if used.cost_usd or limit.cost_usd is not None:
        parts.append(cost_text(state) + (f" of ${limit.cost_usd:.2f}" if limit.cost_usd is not None else ""))
    if limit.ms is not None:
        parts.append(f"{seconds_text(used.ms)} of {seconds_text(limit.ms)}")
    return parts


def cost_text(state: LoopState) -> str:
    """Return the cost of the loop; `≥` if some of it is unknown."""
    sign = "≥ " if state.used.is_cost_partial else ""
    return f"{sign}${state.used.cost_usd:.2f}"


def task_text(text: str) -> str:
    """Return the first line of a task, shortened if it is long."""
    first = text.strip().partition("\n")[0]
    return first if len(first) <= MAX_TASK_CHARS else first[: MAX_TASK_CHARS - 1] + "…"


def cost_text_of(cost_usd: float) -> str:
    """Return a cost in US dollars."""
    return f"${cost_usd:.2f}"


def rounds_table(state: LoopState, now: int | None = None, fd: int = 1) -> str:
    """Return the rounds of a loop as a table; "" before the first one. With `now`, the time of an open step counts.

    `fd`: file descriptor to which it is written.
    """
    if not state.rounds:
        return ""
    running = now - state.open_since if now is not None and state.open else 0
    cells = [("round", "agent", "task", "result", "commit", "time", "cost")]
    for it in state.rounds:
        cells.append(
            (
                str(it.number),
                it.agent,
                one_line(task_text(it.task)) if it.task else "–",
                one_line(result_of(state, it)),
                it.commit.commit[:10] if it.commit is not None else "–",
                seconds_text(it.ms + (running if it.number == len(state.rounds) else 0)),
                cost_text_of(it.cost_usd) if it.cost_usd is not None else "–",
            )
        )
    return columns(cells, right_from=5, fd=fd)


def candidates_table(state: LoopState, fd: int = 1) -> str:
    """Return the candidates of all rounds as a table; "" if there are none."""
    rounds = [it for it in state.rounds if any(one.work is not None for one in it.candidates)]
    if not rounds:
        return ""
    labels, rows = state.settings.candidate_labels, []
    for it in rounds:
        for number, (label, one) in enumerate(zip(labels, it.candidates, strict=True), 1):
            why = f"chosen: {it.chosen_reason}" if number == it.chosen else ""
            cost = f"${one.cost_usd:.2f}" if one.cost_usd is not None else "–"
            rows.append(
                (
                    str(it.number),
                    label,
                    candidate_result_of(state, one),
                    size_text(one),
                    seconds_text(one.ms),
                    cost,
                    why,
                )
            )
    heads = ("round", "candidate", "result", "changes", "time", "cost", "")
    table = columns([heads, *(tuple(one_line(cell) for cell in row) for row in rows)], fd=fd)
    return "\n" + table


def _look_at_candidate(state: LoopState) -> list[str]:
    """Return the command to show the newest change of another candidate; nothing if there is none."""
    for it in reversed(state.rounds):
        for number, one in enumerate(it.candidates, 1):
            if one.work is not None and one.has_changed and it.work is not None and one.work.tree != it.work.tree:
                return [f"to see another candidate:  git show {candidate_ref(state, it, number)}"]
    return []


def end_text(state: LoopState, changes: str = "", fd: int = 1) -> str:
    """Return the text at the end: the rounds, the totals, and what to type next.

    Args:
        state: the loop.
        changes: the files that the loop has changed, with their figures.
        fd: file descriptor to which it is written: lines are wrapped for a terminal.
    """
    ended = state.ended
    reason = end_reason(ended) if ended is not None else "not finished"
    used = state.used
    total = f"{used.rounds} round{'s' * (used.rounds != 1)} · {seconds_text(used.ms)} · {cost_text(state)}"
    lines = [
        _failed_output(state),
        held_text(state),
        rounds_table(state, fd=fd),
        candidates_table(state, fd),
        f"{total}\n",
        *([one_line(put_back_text(state.put_back_settings)) + "\n"] if state.put_back_settings else []),
        one_line(f"{state.began.loop}: {reason}") + "\n",
        *(f"  {one_line(line)}\n" for line in (*proof_lines(state), *repository_lines(state))),
        *(one_line(f"  abandoned, left as it is: {text}") + "\n" for text in state.abandoned),
    ]
    lines += [_last_words(state), changes]
    if state.head != state.began.base:
        base, branch = state.began.base[:10], state.began.branch
        lines.append(f"  to see the work:   git log --stat {base}..{branch}\n")
    lines += [f"  {line}\n" for line in (*_look_at_candidate(state), *next_commands(state))]
    return fitted("".join(lines), fd)


def _last_words(state: LoopState) -> str:
    """Return the end of the last reply of an unfinished loop; "" if there is none, or if the reason has it."""
    replies = [(it.agent, it.work.reply) for it in state.rounds if it.work is not None and it.work.reply.strip()]
    if state.ended is None or state.ended.status == 0 or not replies:
        return ""
    agent, reply = replies[-1]
    if " ".join(reply.split()) in state.ended.reason:
        return ""
    lines = reply.strip().splitlines()
    shown = [clean_line(line[-MAX_REPLY_CHARS:]) for line in lines[-MAX_REPLY_LINES:]]
    more = f", the last {len(shown)} lines; penstock loop show {state.began.loop} has all" * (len(lines) > len(shown))
    return f"  {one_line(agent)} said last{more}:\n" + "".join(f"    {line}\n" for line in shown)


def _failed_output(state: LoopState) -> str:
    """Return the end of the output of the failed setup or failed check of the last round; "" if neither failed."""
    red, command = state.setup_failed, state.settings.setup
    if red is None and state.rounds:
        red, command = state.rounds[-1].red, state.rounds[-1].red_command
    lines = red.output.strip("\n").splitlines()[-MAX_OUTPUT_LINES:] if red is not None else []
    if not lines:
        return ""
    return f"{one_line(command)}:\n" + "".join(f"  {clean_line(line)}\n" for line in lines) + "\n"


def _confirm_command(state: LoopState) -> str:
    return f"penstock loop confirm {state.began.loop}"


def held_text(state: LoopState) -> str:
    """Return the edit of the prompt, as a diff, and the messages that wait for confirmation; "" if there are none."""
    if not state.has_held:
        return ""
    lines = _diff_lines(state.prompt, state.held_prompt) if state.held_prompt else []
    lines += [f"message: {row.text}" for row in state.held_messages]
    text = "".join(f"  {one_line(line)}\n" for line in lines)
    return f"came while an agent or a check worked, and waits to be confirmed:\n{text}\n"


def decided_text(decided: HeldDecided, state: LoopState) -> str:
    """Return a phrase for what a person confirms or discards."""
    lines = _diff_lines(state.prompt, decided.prompt) if decided.prompt else []
    lines += [f"message: {row.text}" for row in state.held_messages if row.letter in decided.letters]
    return "".join(f"  {one_line(line)}\n" for line in lines)


def _diff_lines(old: str, new: str) -> list[str]:
    lines = list(unified_diff(old.splitlines(), new.splitlines(), "PROMPT.md", "PROMPT.md", lineterm="", n=1))[2:]
    left = len(lines) - MAX_DIFF_LINES
    return lines if left <= 0 else [*lines[:MAX_DIFF_LINES], f"… {left:,} lines more"]


def end_reason(ended: LoopEnded) -> str:
    """Return why a loop has ended, with the time from which agents can be used again."""
    return ended.reason + (f" at {local_time(ended.resets_at)}" if ended.resets_at is not None else "")


def next_commands(state: LoopState) -> list[str]:
    """Return the commands that a user may want next, each with its purpose."""
    loop, status = state.began.loop, state.ended.status if state.ended is not None else None
    if status == 0:
        return [f"to merge it:       penstock loop land {loop}"]
    lines = []
    if state.has_held:
        lines.append(f"if that is yours:  penstock loop confirm {loop}")
        lines.append(f"if it is not:      penstock loop confirm {loop} --discard")
    if status == 4 and state.question:
        lines.append(f'to answer:         penstock loop tell {loop} "…"')
    elif status == 4 and state.settings.plan_is_asked and not state.plan_is_approved and state.plan:
        lines += [f"  {number}. {one_line(task_text(task))}" for number, task in enumerate(state.plan, 1)]
        lines.append(f"to approve:        penstock loop tell {loop} yes")
    elif status == 4 and (paths := _held(state)):
        lines.append(f"to commit them:    penstock loop resume {loop} {' '.join(f'--accept {path}' for path in paths)}")
    if state.ended is not None and state.ended.reason.startswith(STUCK):
        lines.append(f'to say what to do: penstock loop tell {loop} "…"')
    more = {1: " --rounds 5" * (state.unfinished_budget().rounds == 0), 5: _more_money(state), 124: " --time 1h"}.get(
        status or 0, ""
    )
    lines.append(f"to go on:          penstock loop resume {loop}{more}")
    return lines


def _held(state: LoopState) -> list[str]:
    """Return the held-back paths that the user can accept, as words of a shell."""
    work = state.rounds[-1].work if state.rounds else None
    return [shlex.quote(one.path) for one in work.held if not one.is_final] if work is not None else []


def _more_money(state: LoopState) -> str:
    if state.budget.cost_usd is None:
        return " --tokens 100000"
    return f" --cost {state.budget.cost_usd:g}"


def status_text(state: LoopState, process: int | None, changes: str = "", now: int = 0) -> str:
    """Return the complete state of a loop as text.

    Args:
        state: the loop.
        process: the process that runs it, if there is one.
        changes: the files that the loop has changed, with their figures.
        now: time in milliseconds since 1970, for the running step.
    """
    began = state.began
    lines = [
        f"{began.loop}: {_how(state, process)}\n",
        f"  prompt  {one_line(began.prompt_path)}\n",
        f"  branch  {began.branch}\n",
        f"  tree    {one_line(' '.join(part for part in (state.path or '–', _in_directory(state)) if part))}\n",
        f"  budget  {' · '.join(_budget_left(state))}\n",
    ]
    if process:
        for step in state.open.values():
            lines.append("  step    " + _line(*_running(step, state), f"for {seconds_text(now - state.open_since)}"))
        if state.waiting is not None:
            lines.append("  step    " + _line(f"waits until {local_time(state.waiting.until)}", state.waiting.reason))
        found = [one_line(put_back_text(state.put_back_settings)) + "\n"] if state.put_back_settings else []
        found += [one_line(line) + "\n" for line in repository_lines(state)]
        tables = rounds_table(state, now), candidates_table(state)
        return fitted("".join((*lines, held_text(state), *tables, *found, changes)))
    return fitted("".join(lines)) + end_text(state, changes)


def _how(state: LoopState, process: int | None) -> str:
    """Return what a loop does or how it ended, and when."""
    began = f"began at {local_time(state.began.at)}"
    ended = state.ended
    if process:
        return f"runs (process {process}), {began}"
    if ended is None:
        return f"interrupted at {local_time(state.at)}, {began}"
    words = END_WORDS.get(ended.status, "ended")
    lasted = seconds_text(ended.at - state.began.at)
    return f"{words} (status {ended.status}), {began}, ended at {local_time(ended.at)} after {lasted}"


def _budget_left(state: LoopState) -> list[str]:
    """Return how much of each limit is used, and how much is left."""
    used, limit, left = state.used, state.budget, state.unfinished_budget()
    parts = [f"{used.rounds} of {limit.rounds} rounds, {left.rounds} left"]
    if limit.ms is not None and left.ms is not None:
        parts.append(f"{seconds_text(used.ms)} of {seconds_text(limit.ms)}, {seconds_text(left.ms)} left")
    if limit.cost_usd is not None and left.cost_usd is not None:
        spent = f"{cost_text(state)} of {cost_text_of(limit.cost_usd)}"
        parts.append(f"{spent}, {cost_text_of(left.cost_usd)} left")
    if limit.tokens is not None and left.tokens is not None:
        parts.append(f"{used.tokens:,} of {limit.tokens:,} tokens, {left.tokens:,} left")
    return parts


def _running(step: Step, state: LoopState) -> list[str]:
    """Return words for a running step."""
    match step:
        case RunAgent():
            return [_place(step.round), *_who(step, state), _what(step, state)]
        case RunCheck():
            return [_place(step.round), *_who(step, state), f"check {step.command}"]
        case RunSetup():
            return ["setup", step.command]
    return [str(step.__struct_config__.tag).replace("_", " ")]
