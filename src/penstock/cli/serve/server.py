"""Server of `penstock serve`: its store, service, sockets and page, and the link that it prints."""

from __future__ import annotations

import asyncio
import gc
import logging
import os
import resource
import shlex
import signal
import stat
import subprocess
import sys
import threading
from collections.abc import Callable, Coroutine
from html import escape
from pathlib import Path
from typing import Any

import uvloop

from penstock.chat.people.audit import AUDIT, Audit
from penstock.chat.people.persons import PEOPLE, People
from penstock.chat.people.spending import SPENDING, DailySpending
from penstock.chat.runs.service import Runs
from penstock.chat.service.limits import Retention, ServiceLimits
from penstock.chat.service.push import Push
from penstock.chat.service.service import Service
from penstock.chat.store.protocol import clock
from penstock.chat.web.api import Api
from penstock.chat.web.app import make_app
from penstock.chat.web.auth import TOKEN_VARIABLE, Logins, check_token, make_token, read_token
from penstock.chat.web.broadcast import Watches
from penstock.chat.web.metrics import Metrics
from penstock.chat.web.push_api import SignedInSubscribers
from penstock.chat.web.security import Security
from penstock.chat.web.server import MAX_CONNECTIONS, Server
from penstock.chat.web.sockets import Place, listen, listen_at_path
from penstock.chat.web.static import NoPage, PageFiles
from penstock.chat.web.trusted_proxy import TrustedProxy, trusted_proxy
from penstock.cli.console import notify, one_line
from penstock.cli.directory import current_directory
from penstock.cli.exit_status import INTERRUPTED, OK
from penstock.cli.read import configured
from penstock.cli.serve.node_options import store_url
from penstock.cli.serve.options import ServeOptions
from penstock.cli.serve.serving import Serving, noted, taking_over
from penstock.cli.serve.stores import opened
from penstock.cli.telemetry import telemetry_sent
from penstock.config.data import data_directory
from penstock.config.secrets import hide_process, take_variable
from penstock.config.settings import Config
from penstock.errors import UsageError
from penstock.run.children import become_subreaper
from penstock.run.history import History
from penstock.sinks.sanitize import clean

SPARE_FILES = 512
"""Number of open files for everything except connections: agents, the log, the page."""

TOKEN, BROWSERS, OPENED = "token", "browsers.json", "open.html"
"""Files of the data directory: chats, token, signed-in browsers and, while the server runs, the file of `--open`."""

OWN = {
    "acp",
    "chats",
    "token",
    "browsers",
    "open",
    "serving",
    "docs",
    "loops",
    "trees",
    "aside",
    "history",
    "caches",
    "confined",
    "people",
    "audit",
    "spending",
}
"""First parts of the names of Penstock's files in a data directory."""

SHARED_COOKIE = "penstock"
"""Name of the cookie with several machines: a name with the port would differ between nodes."""

DAY_MS = 24 * 60 * 60 * 1000
MB = 1_000_000

COLLECTION_OBJECTS = 5_000
"""Number of objects that are allocated and not freed before a garbage collection of the youngest generation. Python's
default is 700."""

OPENER = """
import os, sys, webbrowser
if not webbrowser.open(sys.argv[1]):
    os.write(2, b"penstock: no browser could be opened\\n")
"""
"""Program that opens an address in a browser. A text browser has the terminal until it ends."""

DETACHED = "import subprocess, sys; subprocess.Popen([sys.executable, '-I', '-c', *sys.argv[1:]])"
"""Program that starts another program, whose parent is then not a process of Penstock."""

_log = logging.getLogger("penstock.gateway")


Keeper = Callable[[Server, Service, Path], Coroutine[Any, Any, None]]
"""Task that runs beside a server and may end it."""


def run(options: ServeOptions, keeper: Keeper | None = None) -> int:
    """Serve until a signal arrives, or the `keeper` ends the server, and return the exit status.

    Raises:
        UsageError: the server cannot run with these options.
        TransportError: the log fails.
    """
    current_directory()  # before anything is created
    config = configured()
    token = _take_token()
    url = store_url(options)
    hide_process()
    options.has_token = token is not None
    files = NoPage() if options.hidden else PageFiles()
    data = data_directory(options.data)
    _close_directory(data)
    if options.hidden:
        with telemetry_sent(config, is_server=True):
            return _run(options, url, config, data, token, files, keeper)
    with taking_over(data, _announce_waiting), telemetry_sent(config, asked=options.otel, is_server=True):
        return _run(options, url, config, data, token, files, keeper)


def _announce_waiting() -> None:
    notify("penstock: an agent works in the server of `penstock acp`; this one starts after it. Ctrl-C ends the wait\n")


def _run(
    options: ServeOptions,
    url: str | None,
    config: Config,
    data: Path,
    token: str | None,
    files: PageFiles,
    keeper: Keeper | None,
) -> int:
    proxy = _proxy(options, config)
    place = _listen(options)
    try:
        if place.warning:
            notify(f"penstock: warning: {place.warning}\n")
        token = token or _stored_token(options, data)
        _log_to_stderr(options.log)
        _allow_files()
        _collect_seldom()
        with asyncio.Runner(loop_factory=uvloop.new_event_loop) as runner:
            ended_by = runner.run(_serve(options, url, config, data, place, token, files, keeper, proxy))
    finally:
        place.close()
    return INTERRUPTED if ended_by == signal.SIGINT else OK


def _collect_seldom() -> None:
    """Collect garbage less often: events have no cycles, and everything loaded by now stays until the end."""
    gc.collect()
    gc.freeze()
    gc.set_threshold(COLLECTION_OBJECTS)


def _close_directory(data: Path) -> None:
    """Make the data directory private if this user owns it: it has the token and the names of chats.

    Raises:
        UsageError: others can read it, and it has files that are not Penstock's. Others may need them: a user who names
            `/` or a home directory does not mean to make it private.
    """
    found = data.stat()
    mode = stat.S_IMODE(found.st_mode)
    if not mode & 0o077:
        return
    if found.st_uid != os.geteuid():
        notify(f"penstock: warning: {data} belongs to another user, who can read the chats\n")
        return
    foreign = sorted(name for name in os.listdir(data) if name.partition(".")[0] not in OWN)
    if foreign:
        first = clean(foreign[0])
        raise UsageError(
            f"others can read the data directory {data}, and it has files that are not Penstock's, such as {first}",
            expected="a directory of its own",
            help=f"--data {shlex.quote(str(data / 'penstock'))}",
        )
    data.chmod(0o700)
    notify(f"penstock: {data} could be read by others (mode {mode:04o}); now it cannot (0700)\n")


def _proxy(options: ServeOptions, config: Config) -> TrustedProxy | None:
    """Return the proxy that signs people in; the options take precedence over `[serve]`.

    Raises:
        UsageError: an agent could be this proxy, or it cannot be used.
    """
    if options.hidden:
        return None
    header, proxy = options.person_header or config.serve("person_header"), options.proxy or config.serve("proxy")
    named = config.serve("proxy_secret_file")
    if options.proxy_secret_file is None and named is not None and options.uds is None:
        options.proxy_secret_file = Path(named).expanduser()
    return trusted_proxy(header, proxy, options.proxy_secret_file, at_socket=options.uds is not None)


def _listen(options: ServeOptions) -> Place:
    if options.uds is not None:
        return listen_at_path(options.uds, allow_hosts=options.allow_host)
    has_token = options.has_token or options.token_file is not None
    return listen(options.host, options.port, allow_hosts=options.allow_host, has_token=has_token)


async def _serve(
    options: ServeOptions,
    url: str | None,
    config: Config,
    data: Path,
    place: Place,
    token: str,
    files: PageFiles,
    keeper: Keeper | None,
    proxy: TrustedProxy | None,
) -> int | None:
    metrics = Metrics()
    roots = options.root or ([current_directory()] if url is None else [])
    async with opened(url, options, data, token, works=bool(roots)) as found:
        store, this_node, member, shared = found
        browsers = data / BROWSERS if shared is None else None
        cookie = place.cookie if shared is None else SHARED_COOKIE
        people = People(data / PEOPLE)
        logins = Logins(token, cookie, browsers=browsers, shared=shared, people=people)
        hosts = [*place.hosts, *options.allow_host]
        security = Security(logins, hosts=hosts, origins=options.allow_origin, proxy=proxy)
        service = await Service.open(
            store,
            roots=roots,
            config=config,
            limits=_limits(options, config),
            default_agent=options.agent,
            extra_env=options.env,
            retention=_retention(options),
            history=History(data) if config.keeps_history else None,
            this_node=this_node,
            hidden=_hidden_from_agents(options, data),
            url=place.url,
            people=people,
            spending=DailySpending(data / SPENDING, people),
            data=data,
            push=Push(SignedInSubscribers(logins), hosts=config.serve("push_hosts") or (), now=clock),
        )
        following = [asyncio.create_task(it) for it in (logins.follow(), service.read_marks.follow(people.listed))]
        try:
            await logins.read_again()
            if member is not None:
                await member.start(service)
            code = await logins.make_code() if options.open or _prints_link(options) else None
            watches = Watches(service, metrics)
            audit = Audit(data / AUDIT, is_durable=shared is not None)
            app = make_app(Api(service, watches, security, Runs(data), audit=audit), files)
            server = Server(app, service.close, ready=lambda: announce(options, place, code, data))
            with noted(data, _note(options, place, data)):
                keeping = None if keeper is None else asyncio.create_task(keeper(server, service, data))
                await server.serve(sockets=place.sockets)
                if keeping is not None:
                    keeping.cancel()
        finally:
            await service.close()
            for task in following:
                task.cancel()
            await logins.browsers.close()
            (data / OPENED).unlink(missing_ok=True)
    return server.ended_by


def _limits(options: ServeOptions, config: Config) -> ServiceLimits:
    """Return the limits of the service; the options take precedence over `[serve]`."""
    seconds, cost = options.turn_timeout, options.turn_max_cost
    return ServiceLimits(
        max_runs=options.max_runs,
        max_chats=options.max_chats,
        max_turn_seconds=config.serve("turn_timeout") if seconds is None else seconds,
        max_turn_cost=config.serve("turn_max_cost") if cost is None else cost,
    )


def _hidden_from_agents(options: ServeOptions, data: Path) -> list[str]:
    """Return the paths of the data directory, the token, the proxy's secret and the database's password."""
    of_database = os.environ.get("PGPASSFILE") or os.path.expanduser("~/.pgpass")
    named = (data, options.token_file, options.store_file, options.proxy_secret_file, Path(of_database))
    return [str(path.absolute()) for path in named if path is not None]


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
    """Remove the token from the environment, so that no agent finds it there, and return it."""
    token = take_variable(TOKEN_VARIABLE)
    return check_token(token, TOKEN_VARIABLE) if token is not None else None


def _stored_token(options: ServeOptions, data: Path) -> str:
    return make_token(data / TOKEN) if options.token_file is None else read_token(options.token_file)


def _allow_files() -> None:
    """Raise the limit of open files to what connections need; the usual limit is lower."""
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    wanted = MAX_CONNECTIONS + SPARE_FILES
    if soft != resource.RLIM_INFINITY and soft < wanted:
        most = wanted if hard == resource.RLIM_INFINITY else min(wanted, hard)
        resource.setrlimit(resource.RLIMIT_NOFILE, (most, hard))


# --- messages ---


def _prints_link(options: ServeOptions) -> bool:
    """Return whether the link is printed. Others can read a log, and each start would write a new login into it."""
    return options.link or os.isatty(1) or os.isatty(2)


def _note(options: ServeOptions, place: Place, data: Path) -> Serving:
    file = None if options.has_token else (options.token_file or data / TOKEN).absolute()
    token_file = None if file is None else str(file)
    if place.path is not None:
        return Serving(place.url, path=str(place.path), token_file=token_file, hidden=options.hidden)
    host, port, *_ = place.sockets[0].getsockname()
    return Serving(place.url, host, port, token_file=token_file, hidden=options.hidden)


def announce(options: ServeOptions, place: Place, code: str | None, data: Path) -> None:
    """Print the link that signs one browser in, or how to get one, and the place of the token for programs."""
    where = f"{place.url}/#code={code}"
    if place.path is not None:
        notify(f"penstock: listening at {place.path}\n")
    if _prints_link(options):
        if place.url:
            notify("Open this link in a browser; it works once, within 15 minutes:\n")
        os.write(1, f"{where}\n".encode())
    else:
        at = f" at {place.url}" if place.url else ""
        notify(f"Penstock serves{at}. A link to sign in: penstock link --data {shlex.quote(str(data))}\n")
    if not options.has_token:
        notify(f"Programs use the token in {options.token_file or data / TOKEN}. Ctrl-C ends Penstock.\n")
    if options.open and place.url:
        _open(where, data)
    else:
        become_subreaper()


def _open(url: str, data: Path) -> None:
    """Open the link through a private file, because everybody on this machine can see the arguments of a command.

    The system adopts the browser before this process becomes a subreaper. So the browser does not count as a process of
    an agent, and outlives the server.
    """
    path = data / OPENED
    path.unlink(missing_ok=True)
    with open(os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600), "w", encoding="utf-8") as file:
        file.write(f'<!doctype html><meta http-equiv="refresh" content="0; url={escape(url)}">\n')

    def open_browser() -> None:
        try:
            subprocess.run([sys.executable, "-I", "-c", DETACHED, OPENER, path.as_uri()], check=False)
        except OSError as error:
            notify(f"penstock: no browser could be opened: {error}\n")
        become_subreaper()

    threading.Thread(target=open_browser, daemon=True).start()  # this takes as long as starting Python twice


class _HarmlessFormatter(logging.Formatter):
    """Formatter that writes one line per message, safe for a terminal; a traceback follows on its own lines."""

    def formatMessage(self, record: logging.LogRecord) -> str:  # noqa: N802  # the name in `logging`
        return one_line(super().formatMessage(record))

    def format(self, record: logging.LogRecord) -> str:
        return clean(super().format(record))


def _log_to_stderr(requests: bool) -> None:
    """Log warnings to stderr, and each request if `requests` is set. No line contains a token or a query."""
    handler = logging.StreamHandler(sys.stderr)
    handler.setFormatter(_HarmlessFormatter("penstock: %(message)s"))
    logging.basicConfig(level=logging.WARNING, handlers=[handler])
    logging.getLogger("uvicorn").setLevel(logging.ERROR)  # it warns of every line that is not HTTP
    for library in ("procrastinate", "psycopg"):  # they repeat Penstock's own warnings, with tracebacks
        logging.getLogger(library).setLevel(logging.CRITICAL)
    logging.getLogger("penstock.gateway").setLevel(logging.INFO if requests else logging.WARNING)
