"""Options of `penstock serve`."""

from __future__ import annotations

import re
from pathlib import Path

from penstock.chat.service.limits import ServiceLimits
from penstock.chat.web import PORT
from penstock.cli.options import number, string, whole_number
from penstock.cli.parser import Parser
from penstock.cli.serve.node_options import NodeOptions, add_node_options
from penstock.config.rules import ABOVE_0, PATH, SECONDS, Rule, whole

MOST_RUNS = 1000
"""Maximum number of agents that work at once: more is a typing error on any machine."""
MOST_CHATS = 1_000_000
"""Maximum number of chats: for more, the process would need several gigabytes, and a browser could not show them."""
VARIABLE_NAME = Rule(
    lambda value: re.fullmatch(r"[A-Za-z_][A-Za-z0-9_]*", value) is not None,
    "the name of a variable, which agents get with the value that it has",
)
MAX_AMOUNT = 1_000_000_000
"""Maximum number of days or megabytes: more than any real amount, and still countable in milliseconds and bytes."""
AMOUNT = Rule(lambda value: ABOVE_0.fits(value) and value < MAX_AMOUNT, f"a number above 0 and below {MAX_AMOUNT:,}")

EXAMPLES = """\
examples:
  penstock serve                                          this directory, at http://127.0.0.1:8377
  penstock serve --root ~/src --agent claude --open       all directories below ~/src, once each is trusted
  penstock serve --uds /run/penstock.sock --allow-host chat.example.org --token-file TOKEN    behind a proxy
"""


class ServeOptions(NodeOptions):
    """Options of the command line."""

    host: str
    port: int | None
    uds: Path | None
    data: Path | None
    root: list[Path]
    agent: str | None
    max_runs: int
    max_chats: int
    otel: bool
    """Send the runs to a collector of OpenTelemetry."""
    turn_timeout: float | None
    turn_max_cost: float | None
    allow_host: list[str]
    allow_origin: list[str]
    person_header: str | None
    proxy: str | None
    proxy_secret_file: Path | None
    token_file: Path | None
    env: list[str]
    keep_days: float | None
    keep_size: float | None
    open: bool
    link: bool
    log: bool
    has_token: bool = False
    """True if the environment has a token."""
    hidden: bool = False
    """True for a server that `penstock acp` has started."""


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
    add_node_options(made)
    add("--agent", metavar="NAME", help="default agent of new chats")
    runs, chats = ServiceLimits().max_runs, ServiceLimits().max_chats
    text = f"agents at work at once (default {runs})"
    add("--max-runs", type=whole_number(whole(1, MOST_RUNS)), default=runs, metavar="N", help=text)
    text = f"chats that there may be, of all machines (default {chats})"
    add("--max-chats", type=whole_number(whole(1, MOST_CHATS)), default=chats, metavar="N", help=text)
    text = "send spans and metrics of turns to a collector of OpenTelemetry; needs the extra otel"
    add("--otel", action="store_true", help=text)
    text = "seconds after which a turn is stopped, without the time in which it waits for a person"
    add("--turn-timeout", type=number(SECONDS), metavar="S", help=text)
    text = "US dollars at which a turn is stopped, as far as its agent reports them"
    add("--turn-max-cost", type=number(ABOVE_0), metavar="USD", help=text)
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
    text = "header in which a reverse proxy names the person whom it has signed in; needs --proxy"
    add("--person-header", metavar="NAME", help=text)
    text = "the proxy that may do so: its address or network; with --uds the user of its processes"
    add("--proxy", metavar="WHO", help=text)
    text = "file with the secret that the proxy sends as X-Penstock-Proxy; needed without --uds"
    add("--proxy-secret-file", type=_path, metavar="F", help=text)
    text = "also pass this environment variable to agents"
    add("--env", type=string(VARIABLE_NAME), action="append", default=[], metavar="NAME", help=text)
    add("--keep-days", type=number(AMOUNT), metavar="N", help="delete turns that are older")
    add("--keep-size", type=number(AMOUNT), metavar="MB", help="delete the oldest turns if the chats are larger")
    add("--link", action="store_true", help="print a link to sign in even if nothing is a terminal, as in a log")
    add("--open", action="store_true", help="open the page in a browser")
    add("--log", action="store_true", help="log each request to stderr")
    return made


def _path(word: str) -> Path:
    return Path(string(PATH)(word))
