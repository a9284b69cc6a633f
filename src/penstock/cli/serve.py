"""`penstock serve`: its options, sockets, printed links and shutdown."""

from __future__ import annotations

import asyncio
import gc
import logging
import os
import re
import resource
import signal
import sys
import threading
import webbrowser
from collections.abc import Sequence
from html import escape
from pathlib import Path

import uvloop

from penstock.chat.runs.service import Runs
from penstock.chat.service.limits import ServiceLimits
from penstock.chat.service.retention import Retention
from penstock.chat.service.service import Service
from penstock.chat.web.app import make_app
from penstock.chat.web.auth import TOKEN_VARIABLE, Logins, check_token, make_token, read_token
from penstock.chat.web.broadcast import Watches
from penstock.chat.web.handlers import Api
from penstock.chat.web.metrics import Metrics
from penstock.chat.web.security import Security
from penstock.chat.web.server import MAX_CONNECTIONS, Server
from penstock.chat.web.sockets import PORT, Place, listen, listen_at_path
from penstock.chat.web.static import PageFiles
from penstock.cli import serve_cluster
from penstock.cli.console import notify
from penstock.cli.exit_status import INTERRUPTED, OK
from penstock.cli.options import number, string, whole_number
from penstock.cli.parser import Parser
from penstock.cli.read import configured
from penstock.config.data import data_directory
from penstock.config.rules import ABOVE_0, PATH, Rule, whole
from penstock.config.settings import Config
from penstock.errors import UsageError
from penstock.run.history import History

SPARE_FILES = 512
"""Open files for everything except connections: agents, the log, the page."""

TOKEN, BROWSERS, OPENED = "token", "browsers.json", "open.html"
"""Files of the data directory: chats, token, signed-in browsers and, while the server runs, the file of `--open`."""

SHARED_COOKIE = "penstock"
"""Name of the cookie of several machines: one that has a port in it would differ from node to node."""

DAY_MS = 24 * 60 * 60 * 1000
MB = 1_000_000
MOST_RUNS = 1000
"""Largest number of agents at work at once: more is a typing error on any machine."""
VARIABLE_NAME = Rule(
    lambda value: re.fullmatch(r"[A-Za-z_][A-Za-z0-9_]*", value) is not None,
    "the name of a variable, which agents get with the value that it has",
)
MAX_AMOUNT = 1_000_000_000
"""Upper bound of days or megabytes: beyond any real amount, and still countable in milliseconds and bytes."""
AMOUNT = Rule(lambda value: ABOVE_0.fits(value) and value < MAX_AMOUNT, f"a number above 0 and below {MAX_AMOUNT:,}")

EXAMPLES = """\
examples:
  penstock serve                                          this directory, at http://127.0.0.1:8377
  penstock serve --root ~/src --agent claude --open       all directories below ~/src, once each is trusted
  penstock serve --uds /run/penstock.sock --allow-host chat.example.org --token-file TOKEN    behind a proxy
"""


COLLECTION_OBJECTS = 5_000
"""Objects that are made, and not freed, before the youngest are searched for cycles; Python's own number is 700."""

_log = logging.getLogger("penstock.gateway")


class ServeOptions(serve_cluster.NodeOptions):
    """Options of the command line."""

    host: str
    port: int | None
    uds: Path | None
    data: Path | None
    root: list[Path]
    agent: str | None
    max_runs: int
    allow_host: list[str]
    allow_origin: list[str]
    token_file: Path | None
    env: list[str]
    keep_days: float | None
    keep_size: float | None
    open: bool
    log: bool
    has_token: bool = False
    """True if the environment has a token."""


def parser() -> Parser:
    """Return the parser of the command."""
    text = "Chat with agents in a browser: serve the page and its API to this machine."
    made = Parser("serve", text, examples=EXAMPLES)
    add = made.add_argument
    add("--host", default="127.0.0.1", metavar="H", help="address to listen on (default 127.0.0.1)")
    text = f"port (default {PORT}, or the next free one; 0: any)"
    add("--port", type=whole_number(whole(0, 65535)), metavar="N", help=text)
    add("--uds", type=_path, metavar="PATH", help="listen on a Unix socket instead")
    add("--data", type=_path, metavar="DIR", help="directory of the chats (default ~/.local/share/penstock)")
    add("--root", type=_path, action="append", default=[], metavar="DIR",
        help="agents may work in this directory and below; may be repeated (default: the current one)")  # fmt: skip
    serve_cluster.add_options(made)
    add("--agent", metavar="NAME", help="default agent of new chats")
    runs = ServiceLimits().max_runs
    text = f"agents at work at once (default {runs})"
    add("--max-runs", type=whole_number(whole(1, MOST_RUNS)), default=runs, metavar="N", help=text)
    add("--allow-host", action="append", default=[], metavar="H", help="allow requests to this host name")
    add(
        "--allow-origin",
        action="append",
        default=[],
        metavar="O",
        help="allow requests from this origin, with the token",
    )
    add(
        "--token-file",
        type=_path,
        metavar="F",
        help="file with the token for programs; PENSTOCK_TOKEN takes precedence",
    )
    text = "also pass this environment variable to agents"
    add("--env", type=string(VARIABLE_NAME), action="append", default=[], metavar="NAME", help=text)
    add("--keep-days", type=number(AMOUNT), metavar="N", help="delete turns that are older")
    add("--keep-size", type=number(AMOUNT), metavar="MB", help="delete the oldest turns if the chats are larger")
    add("--open", action="store_true", help="open the page in a browser")
    add("--log", action="store_true", help="log each request to stderr")
    return made


def _path(word: str) -> Path:
    return Path(string(PATH)(word))


def command(args: Sequence[str]) -> int:
    """Run `penstock serve` until a signal arrives and return the exit status.

    Raises:
        UsageError: the server cannot run with these options.
        TransportError: the log fails.
    """
    options = ServeOptions(**vars(parser().parse(args)))
    _check_directory()
    config = configured()
    token = _take_token()
    url = serve_cluster.store_url(options)
    options.has_token = token is not None
    files = PageFiles()
    data = data_directory(options.data)
    place = _listen(options)
    try:
        if place.warning:
            notify(f"penstock: warning: {place.warning}\n")
        token = token or _stored_token(options, data)
        _log_to_stderr(options.log)
        _allow_files()
        _collect_seldom()
        with asyncio.Runner(loop_factory=uvloop.new_event_loop) as runner:
            ended_by = runner.run(_serve(options, url, config, data, place, token, files))
    finally:
        place.close()
    return INTERRUPTED if ended_by == signal.SIGINT else OK


def _collect_seldom() -> None:
    """Collect garbage less often: events have no cycles, and what is loaded by now stays until the end."""
    gc.collect()
    gc.freeze()
    gc.set_threshold(COLLECTION_OBJECTS)


def _check_directory() -> None:
    try:
        os.getcwd()
    except OSError as error:
        what = f"this directory cannot be worked in: {error.strerror}"
        raise UsageError(what, expected="one that is there", help="go to another one with cd") from error


def _listen(options: ServeOptions) -> Place:
    if options.uds is not None:
        return listen_at_path(options.uds, allow_hosts=options.allow_host)
    has_token = options.has_token or options.token_file is not None
    return listen(options.host, options.port, allow_hosts=options.allow_host, has_token=has_token)


async def _serve(
    options: ServeOptions, url: str | None, config: Config, data: Path, place: Place, token: str, files: PageFiles
) -> int | None:
    metrics = Metrics()
    roots = options.root or ([Path.cwd()] if url is None else [])
    async with serve_cluster.opened(url, options, data / serve_cluster.CHATS, token, works=bool(roots)) as opened:
        store, dispatch, member, shared = opened
        browsers = data / BROWSERS if shared is None else None
        cookie = place.cookie if shared is None else SHARED_COOKIE
        logins = Logins(token, cookie, browsers=browsers, shared=shared)
        security = Security(logins, hosts=[*place.hosts, *options.allow_host], origins=options.allow_origin)
        service = await Service.open(
            store,
            roots=roots,
            config=config,
            limits=ServiceLimits(max_runs=options.max_runs),
            default_agent=options.agent,
            extra_env=options.env,
            retention=_retention(options),
            history=History(data) if config.keeps_history else None,
            dispatch=dispatch,
        )
        following = asyncio.create_task(logins.follow())
        try:
            if member is not None:
                await member.start(service)
            code = await logins.make_code()
            watches = Watches(service, metrics)
            app = make_app(Api(service, watches, security, Runs(data)), files)
            server = Server(app, service.close, ready=lambda: announce(options, place, code, data))
            await server.serve(sockets=place.sockets)
        finally:
            await service.close()
            following.cancel()
            await logins.browsers.close()
            (data / OPENED).unlink(missing_ok=True)
    return server.ended_by


def _retention(options: ServeOptions) -> Retention | None:
    days, megabytes = options.keep_days, options.keep_size
    if days is None and megabytes is None:
        return None
    return Retention(
        max_age_ms=None if days is None else int(days * DAY_MS),
        max_bytes=None if megabytes is None else int(megabytes * MB),
    )


# --- stored data ---


def _take_token() -> str | None:
    """Remove the token from the environment and return it: no agent may find it there."""
    token = os.environ.pop(TOKEN_VARIABLE, None)
    return check_token(token, TOKEN_VARIABLE) if token is not None else None


def _stored_token(options: ServeOptions, data: Path) -> str:
    return make_token(data / TOKEN) if options.token_file is None else read_token(options.token_file)


def _allow_files() -> None:
    """Raise the limit of open files to what connections need; a usual limit is lower."""
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    wanted = MAX_CONNECTIONS + SPARE_FILES
    if soft != resource.RLIM_INFINITY and soft < wanted:
        most = wanted if hard == resource.RLIM_INFINITY else min(wanted, hard)
        resource.setrlimit(resource.RLIMIT_NOFILE, (most, hard))


# --- messages ---


def announce(options: ServeOptions, place: Place, code: str, data: Path) -> None:
    """Print the link that signs one browser in, and the place of the token for programs."""
    where = f"{place.url}/#code={code}"
    if place.path is not None:
        notify(f"penstock: listening at {place.path}\n")
    if place.url:
        notify("Open this link in a browser; it works once, within 15 minutes:\n")
    os.write(1, f"{where}\n".encode())
    if not options.has_token:
        notify(f"Programs use the token in {options.token_file or data / TOKEN}. Ctrl-C ends Penstock.\n")
    if options.open and place.url:
        _open(where, data)


def _open(url: str, data: Path) -> None:
    """Open the link through a private file: everybody on this machine can see the arguments of a command."""
    path = data / OPENED
    path.unlink(missing_ok=True)
    with open(os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600), "w", encoding="utf-8") as file:
        file.write(f'<!doctype html><meta http-equiv="refresh" content="0; url={escape(url)}">\n')

    def open_browser() -> None:
        if not webbrowser.open(path.as_uri()):
            notify("penstock: no browser could be opened\n")

    threading.Thread(target=open_browser, daemon=True).start()  # a browser in the terminal would block


def _log_to_stderr(requests: bool) -> None:
    """Log warnings to stderr, and each request if `requests` is set. No line has a token, an id or a query."""
    logging.basicConfig(level=logging.WARNING, format="penstock: %(message)s", stream=sys.stderr)
    logging.getLogger("uvicorn").setLevel(logging.ERROR)  # warns of every line that is not HTTP
    for library in ("procrastinate", "psycopg"):  # repeat with tracebacks what Penstock's own warnings say
        logging.getLogger(library).setLevel(logging.CRITICAL)
    logging.getLogger("penstock.gateway").setLevel(logging.INFO if requests else logging.WARNING)
