"""`penstock loop`: the word after it is a command of a loop, or the prompt of a new one."""

from __future__ import annotations

import os
import time
from argparse import Action, Namespace
from copy import copy
from pathlib import Path

import msgspec

from penstock.cli.console import fitted, notify, notify_problem, one_line, pass_on, say, show_warnings
from penstock.cli.directory import current_directory
from penstock.cli.loop import words
from penstock.cli.loop.asking import answer_of_user, check_terminal
from penstock.cli.loop.json_line import json_line
from penstock.cli.loop.landing import clean_loops, land
from penstock.cli.loop.options import (
    COMMANDS,
    LoopConfig,
    budget_flags,
    check_options,
    default_worker,
    settings_flags,
    settings_of,
    with_plan,
)
from penstock.cli.loop.run import run_loop, run_notify
from penstock.cli.loop.show import changes_text, round_number, round_text
from penstock.cli.options import DisplayOptions, display_flags
from penstock.cli.options import number as a_number
from penstock.cli.parser import Parser
from penstock.cli.read import configured
from penstock.cli.telemetry import telemetry_sent
from penstock.config.data import data_directory, data_path
from penstock.config.rules import ABOVE_0
from penstock.config.settings import Config
from penstock.errors import AgentNotFound, UsageError
from penstock.loop import prompts
from penstock.loop.confirming import check_outside, decide
from penstock.loop.fold import apply, begin, fold
from penstock.loop.inbox import LoopInbox
from penstock.loop.journal import Journal, process_of, read_rows
from penstock.loop.loops import (
    LoopFolder,
    begin_loop,
    directory_in,
    find_loop,
    find_running,
    loops,
    loops_here,
    read_prompt,
    repository_of,
    resume,
)
from penstock.loop.reach import check_sandbox
from penstock.loop.rows import VERSION, LoopBegan, Settings
from penstock.loop.state import LoopState
from penstock.repo.repository import Repository, root_of
from penstock.run.children import become_subreaper
from penstock.run.confine import machine_problem
from penstock.run.history import now_ms
from penstock.run.launch import plan
from penstock.run.spec import RunSpec

EXAMPLES = """\
examples:
  penstock loop init                                    write a PROMPT.md to begin with
  penstock loop PROMPT.md --work AGENT --check "make test"
  penstock loop PROMPT.md --work AGENT,OTHER --review THIRD --cost 5 --wait 5h
  penstock loop PROMPT.md --candidates AGENT,OTHER --judge THIRD --check "make test"
  penstock loop PROMPT.md --work AGENT --check "make test" --dry-run
  penstock loop status                                  what the newest loop of this repository does
  penstock loop show 2                                  what round 2 said, checked and changed
  penstock loop tell "use the new API"                  the next round reads it
  penstock loop confirm                                 an edit of PROMPT.md, made while an agent worked, is yours
  penstock loop stop                                    after the step; --now ends the step as well
  penstock loop resume --rounds 5                       go on, with more rounds
  penstock loop land                                    merge the result into the branch that is checked out
  penstock loop clean                                   remove the trees of loops that have landed

exit status:
  0 done, proved by the checks if there are any · 1 not done · 2 wrong usage · 4 needs you · 5 a budget was used up
  6 all agents are at their limits · 124 the time budget · 130 and 143 stopped
"""

STARTER = """\
# What is to be done

Describe the result that you want, and what must not change.

<!-- Open boxes are worked on one after the other; without any, the whole text is the task.
- [ ] first task
- [ ] second task
-->
"""

POLL_SECONDS = 0.25
"""Seconds between two checks whether a stopped loop has ended."""

STOP_SECONDS = 30.0
"""Seconds to wait for the end of a loop that was stopped with --now: its agent gets time to exit."""


def command(args: list[str]) -> int:
    """Run `penstock loop` and return the exit status."""
    if args and args[0] in COMMANDS and not {"-h", "--help"}.isdisjoint(args):
        return say(subcommands()[args[0]].format_help())
    known = parser()
    options = known.parse(with_plan(args))
    check_options(options, known)
    show_warnings()
    try:
        return _command(options)
    except BrokenPipeError:
        raise  # the reader of the output has gone
    except OSError as error:
        what = f"the files of loops cannot be read or written: {error}"
        raise UsageError(what, help="type the same again when that is repaired") from error


def _command(options: Namespace) -> int:
    given = DisplayOptions(**{name: getattr(options, name) for name in DisplayOptions.__struct_fields__})
    match options.words:
        case ["init"]:
            return _init()
        case ["status", *rest]:
            return _status(_one(rest), options)
        case ["stop", *rest]:
            return _stop(_one(rest), options)
        case ["tell", *rest]:
            return _send_message(rest, options)
        case ["show", *rest]:
            return _show(rest, options)
        case ["log", *rest]:
            return _log(_one(rest))
        case ["land", *rest]:
            return _land(_find_outside(_one(rest)), options, given)
        case ["confirm", *rest]:
            return _confirm(_find_running(_one(rest), "penstock loop confirm LOOP"), confirms=not options.discard)
        case ["clean", *rest]:
            found = [_find(_one(rest))] if rest else _loops_to_clean(options)
            for loop in found:
                check_outside(loop.state.began)
            return clean_loops(found, options)
        case ["resume", *rest]:
            return _resume(_one(rest), options, given)
        case [prompt]:
            return _begin(Path(prompt), options, given)
    raise UsageError(
        "penstock loop needs one prompt, or a command: " + ", ".join(COMMANDS), help="penstock loop --help"
    )


def parser() -> Parser:
    """Return the parser of the command."""
    text = "Work on a repository with agents, in a tree of its own, until checks and reviewers find the work done."
    made = Parser("loop", text, examples=EXAMPLES, arguments="PROMPT.md|COMMAND [LOOP] [options]")
    add = made.add_argument
    help = "prompt of a new loop, or one of " + ", ".join(COMMANDS) + "; ./status is a file. "
    help += "They are about the newest loop of this repository, or the one named after them"
    add("words", nargs="+", metavar="PROMPT.md|COMMAND", help=help)
    settings_flags(made)
    budget_flags(made)
    add("--name", metavar="NAME", help="name of the loop and its branch")
    add("--trust", action="store_true", help="allow the penstock.toml of this project to start commands")
    add("--ask", action="store_true", help="wait at the terminal for your answers to questions and plans")
    add("--dry-run", action="store_true", help="show the commands and the first prompt; start nothing · clean: "
        "remove nothing")  # fmt: skip
    add("--json", action="store_true", help="status: one JSON object a line, of all loops")
    add("--diff", action="store_true", help="show: what the round changed, as a patch")
    add("--now", action="store_true", help="stop: end the step that runs")
    add(
        "--resolve",
        action="store_true",
        help="land: have an agent resolve conflicts, or red checks on the merge, in the tree of the loop",
    )
    add("--discard", action="store_true", help="confirm: discard what waits, instead")
    add("--squash", action="store_true", help="land: make one commit of all")
    add("--all", action="store_true", help="clean: also the loops of other repositories")
    add("--older-than", type=a_number(ABOVE_0), metavar="DAYS", help="clean: also remove files that were moved out of "
        "trees, and trees that were given up, if they are older than that")  # fmt: skip
    add("--refs", action="store_true", help="clean: also remove the refs and branches of loops whose result is in one "
        "of your branches")  # fmt: skip
    display_flags(made)
    return made


def subcommands() -> dict[str, Parser]:
    """Return the parser of each command about a loop that has begun, for completion and the man page."""
    actions = parser()._actions
    return {name: _subcommand(name, summary, options, actions) for name, (summary, options) in COMMANDS.items()}


def _subcommand(name: str, summary: str, options: tuple[str, ...], actions: list[Action]) -> Parser:
    arguments = {"init": "", "tell": '[LOOP] "MESSAGE"', "show": "[LOOP] [ROUND] [options]"}
    usual = "[LOOP] [options]" if options else "[LOOP]"
    made = Parser(f"loop {name}", summary, arguments=arguments.get(name, usual))
    if name != "init":
        default = "the one that runs" if name in ("tell", "stop") else "the newest one of this repository"
        made.add_argument("loop", nargs="?", metavar="LOOP", help=f"name of a loop (default: {default})")
    if name == "show":
        made.add_argument("round", nargs="?", metavar="ROUND", help="number of a round (default: the last one)")
    if name == "tell":
        made.add_argument("message", metavar="MESSAGE", help="message to the agents")
    for action in actions:
        if action.dest in options:
            own = copy(action)
            own.help = (action.help or "").rpartition(f"{name}: ")[2]
            made._add_action(own)
    return made


def _one(rest: list[str]) -> str | None:
    if len(rest) > 1:
        raise UsageError(f"one loop is expected, not {len(rest)}")
    return rest[0] if rest else None


def _loops_to_clean(options: Namespace) -> list[LoopFolder]:
    """Return the loops of this repository, or all. The trees of other repositories are not read."""
    root = None if options.all else root_of(current_directory())
    found = loops(data_path())
    return [it for it in found if root is None or root in (it.state.began.repository, it.state.path)]


def _find(name: str | None) -> LoopFolder:
    """Return the loop with this name, or the newest loop of the repository; print its name if there are others."""
    if name is not None:
        return find_loop(data_path(), name, current_directory())
    here = loops_here(data_path(), current_directory())
    if len(here) > 1:
        notify(fitted(f"loop {here[-1].id}, the newest of {len(here):,} of this repository\n", 2))
    return here[-1]


def _find_running(name: str | None, example: str) -> LoopFolder:
    """Return the loop that a command changes: the running one, or the one with this name."""
    found = find_running(data_path(), name, current_directory(), example=example)
    check_outside(found.state.began)
    return found


def _find_outside(name: str | None) -> LoopFolder:
    """Return the loop that a command changes. Agents and checks may not change loops."""
    found = _find(name)
    check_outside(found.state.began)
    return found


# --- begin and resume --------------------------------------------------------------------------------


def _begin(prompt: Path, options: Namespace, display: DisplayOptions) -> int:
    check_terminal(options)
    config = configured()
    settings = settings_of(options, LoopConfig(config, trust=options.trust))
    if read_prompt(prompt) == STARTER:
        raise UsageError(f"{prompt} does not say what is to be done yet", expected="your own words in it")
    _check_agents(settings, config, trust=options.trust)
    LoopConfig(config, trust=options.trust).value("notify")  # may need --trust, which is reported before the work
    if options.dry_run:
        return _dry_run(prompt, settings_state(prompt, options, config))
    check_sandbox(settings)
    journal = begin_loop(data_directory(), prompt, settings, options.name, current_directory())
    if settings.sandbox == "auto" and (problem := machine_problem()):
        notify_problem(f"agents and checks are not confined: {problem}")
    state = fold(journal.rows)
    notify(fitted(f"loop {state.began.loop}, branch {state.began.branch}\n", 2))
    if worker := default_worker(options, LoopConfig(config, trust=options.trust)):
        notify(fitted(f"work · {worker}, the first agent that is installed; --work AGENT names another\n", 2))
    return _run(journal, config, options, display)


def _check_agents(settings: Settings, config: Config, *, trust: bool) -> None:
    """Check that all agents can be run as requested. Only the first agent of a chain has to be installed.

    Raises:
        UsageError: one of them cannot be run.
    """
    for role in filter(None, (settings.work, *settings.reviews, settings.plan, settings.judge)):
        for number, agent in enumerate(role.agents):
            spec = RunSpec(agent=agent, prompt="x", model=role.model, allow=role.allow, route=role.route, trust=trust)
            try:
                plan(spec, config)
            except AgentNotFound:
                if number == 0 or agent in settings.candidates:
                    raise


def _run(journal: Journal, config: Config, options: Namespace, display: DisplayOptions) -> int:
    try:
        command = LoopConfig(config, trust=options.trust).value("notify")
        with telemetry_sent(config):
            status = run_loop(journal, config, display, data_path(), trust=options.trust)
            state = fold(journal.rows)
            while options.ask and (answer := answer_of_user(state)):
                LoopInbox(journal.folder).put("message", answer, is_of_person=True)
                resume(journal)
                status = run_loop(journal, config, display, data_path(), trust=options.trust)
                state = fold(journal.rows)
    finally:
        journal.close()
    if command:
        run_notify(command, state)
    return status


def _resume(name: str | None, options: Namespace, display: DisplayOptions) -> int:
    check_terminal(options)
    found = _find_outside(name)
    _check_landed(found.state)
    config = configured()
    _check_agents(found.state.settings, config, trust=options.trust)
    LoopConfig(config, trust=options.trust).value("notify")
    journal = Journal.open(found.path)
    try:
        resume(
            journal,
            rounds=options.rounds or 0,
            ms=int((options.time or 0) * 1000),
            cost_usd=options.cost or 0.0,
            tokens=options.tokens or 0,
            accepts=options.accept,
        )
    except BaseException:
        journal.close()
        raise
    return _run(journal, config, options, display)


def _land(found: LoopFolder, options: Namespace, display: DisplayOptions) -> int:
    """Land a result. With --resolve, conflicts or failed checks on the merge start another round instead."""
    become_subreaper()
    landed = land(found, squash=options.squash, unchecked=options.unchecked, resolves=options.resolve)
    if isinstance(landed, int):
        return landed
    _check_landed(found.state)
    repository = Repository.at(Path(found.state.began.repository))
    head, branch = repository.head(), repository.branch()
    config = configured()
    _check_agents(found.state.settings, config, trust=options.trust)
    journal = Journal.open(found.path)
    try:
        resume(journal, rounds=options.rounds or 1, merges=head or "", merges_name=branch or "")
    except BaseException:
        journal.close()
        raise
    return _run(journal, config, options, display)


def _check_landed(state: LoopState) -> None:
    if state.landed is not None:
        raise UsageError(f"the loop {state.began.loop} has landed", help="penstock loop PROMPT.md begins another")


def settings_state(prompt: Path, options: Namespace, config: Config) -> LoopState:
    """Return the state of a loop that has just begun. Nothing is created."""
    settings = settings_of(options, LoopConfig(config, trust=options.trust))
    repository = repository_of(prompt)
    base = repository.head() or ""
    return begin(
        LoopBegan(
            n=1,
            at=now_ms(),
            version=VERSION,
            loop=options.name or "NAME",
            repository=str(repository.root),
            base=base,
            base_tree=base,
            branch=f"penstock/{options.name or 'NAME'}",
            prompt_path=str(prompt.absolute()),
            prompt=read_prompt(prompt),
            settings=settings,
            directory=directory_in(repository, current_directory()),
        )
    )


def _dry_run(prompt: Path, state: LoopState) -> int:
    settings, began = state.settings, state.began
    lines = [f"repository  {began.repository} at {began.base[:10]}", f"branch      {began.branch}"]
    lines += [f"directory   {began.directory}"] if began.directory else []
    lines += [f"setup       {settings.setup}"] if settings.setup else []
    lines += [f"check       {command}" for command in settings.checks] or ["check       none"]
    work = f"{', '.join(settings.candidates or settings.work.agents)} (allow {settings.work.allow})"
    lines.append(f"{'candidates' if settings.candidates else 'work      '}  {work}")
    lines += [f"network     {settings.network}"] if settings.network != "all" else []
    lines += [f"judge       {', '.join(settings.judge.agents)}"] if settings.judge is not None else []
    lines += [f"review      {', '.join(role.agents)}" for role in settings.reviews]
    lines += [f"task        {task.partition(chr(10))[0]}" for task in state.tasks]
    lines.append(f"rounds      {state.budget.rounds}")
    text = "".join(one_line(line) + "\n" for line in lines)
    return say(f"{text}\nPrompt of the first round:\n\n{prompts.work_prompt(state, state.task)}")


def _init() -> int:
    path = Path("PROMPT.md")
    try:
        with path.open("x", encoding="utf-8") as file:
            file.write(STARTER)
    except FileExistsError as error:
        raise UsageError(
            "PROMPT.md exists already", help="penstock loop PROMPT.md --check COMMAND works on it"
        ) from error
    return say(
        "PROMPT.md is written. Say in it what is to be done, and name a command that succeeds when it is done:\n"
        f'{_before_begin()}  penstock loop PROMPT.md --check "make test"\n'
    )


def _before_begin() -> str:
    """Return the line about what is missing before a loop can begin here; "" if it can begin."""
    try:
        Repository.at(current_directory()).author()
    except UsageError as error:
        return f"  first: {error}\n"
    return ""


# --- look and steer ----------------------------------------------------------------------------------


def _status(name: str | None, options: Namespace) -> int:
    if options.json:
        found = [_find(name)] if name else loops(data_path())
        lines = [json_line(loop.state, process_of(loop.path)) for loop in found]
        return pass_on(msgspec.json.Encoder().encode_lines(lines))
    found_one = _find(name)
    state = found_one.state
    return say(words.status_text(state, process_of(found_one.path), changes_text(state), now_ms()))


def _show(rest: list[str], options: Namespace) -> int:
    match rest:
        case [] | [_]:
            is_number = bool(rest) and rest[0].isdecimal()
            found, number = _find(None if is_number else _one(rest)), rest[0] if is_number else None
        case [name, number]:
            found = _find(name)
        case _:
            raise UsageError("one loop and one round are expected", help="penstock loop show LOOP 2")
    text = round_text(found, read_rows(found.path), round_number(found.state, number), with_diff=options.diff)
    return say(text if options.diff else fitted(text))


def _log(name: str | None) -> int:
    found = _find(name)
    rows = read_rows(found.path)
    before: LoopState | None = None
    for row in rows:
        state = fold([row]) if before is None else apply(before, row)
        line = words.step_line(row, state, before)
        if line:
            at = time.strftime("%Y-%m-%d %H:%M:%S", time.localtime(row.at / 1000))
            say(fitted(f"{at}  {line}"))
        before = state
    return 0


def _confirm(found: LoopFolder, *, confirms: bool) -> int:
    runs = process_of(found.path) is not None
    decided = decide(found, confirms=confirms)
    text = words.decided_text(decided, found.state)
    if not confirms:
        return say(fitted(f"{text}Discarded.\n"))
    how = f"The next round of {found.id} reads it." if runs else f"penstock loop resume {found.id} goes on with it."
    return say(fitted(f"{text}Confirmed. {how}\n"))


def _stop(name: str | None, options: Namespace) -> int:
    found = _find_running(name, "penstock loop stop LOOP")
    if process_of(found.path) is None:
        return say(fitted(f"The loop {found.id} is not running.\n"))
    LoopInbox(found.path).put("stop_now" if options.now else "stop")
    if not options.now:
        return say(fitted(f"The loop {found.id} ends after this step.\n"))
    end = time.monotonic() + STOP_SECONDS
    while process_of(found.path) is not None and time.monotonic() < end:
        time.sleep(POLL_SECONDS)
    if process_of(found.path) is None:
        return say(fitted(f"The loop {found.id} has ended.\n"))
    notify_problem(f"the loop {found.id} has not ended after {STOP_SECONDS:.0f} s")
    return 1


def _send_message(rest: list[str], options: Namespace) -> int:
    match rest:
        case [text]:
            found = _find_running(None, 'penstock loop tell LOOP "…"')
        case [name, text]:
            found = _find_outside(name)
        case _:
            raise UsageError("one message is expected", help='penstock loop tell "use the new API"')
    if not text.strip():
        raise UsageError("the message is empty")
    _check_landed(found.state)
    is_of_person = os.isatty(0)
    LoopInbox(found.path).put("message", text, is_of_person=is_of_person)
    runs = process_of(found.path) is not None
    how = f"The next round of {found.id} reads it." if runs else f"penstock loop resume {found.id} goes on with it."
    if runs and not is_of_person:
        how += f" If an agent or a check works now, it waits for penstock loop confirm {found.id}."
    return say(fitted(f"{how}\n"))
