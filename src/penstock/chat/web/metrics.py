"""Text of `/metrics`: counters of the server and of the service, formatted at each request."""

from __future__ import annotations

import platform
from collections import Counter
from collections.abc import Iterable, Mapping

from penstock._version import __version__
from penstock.chat.service.counters import SECONDS, AgentTotals, Times
from penstock.chat.service.service import Service
from penstock.chat.web.process_figures import ProcessFigures

CONTENT_TYPE = "text/plain; version=0.0.4; charset=utf-8"

Labels = tuple[tuple[str, str], ...]


class Metrics:
    """Counters of one server."""

    def __init__(self) -> None:
        self.clients = 0
        self.watches = 0
        """Number of chats that are read for clients."""
        self.dropped = 0
        """Number of clients that were dropped because they read nothing for too long."""
        self.frames = 0
        self.bytes = 0
        """Number of bytes sent in streams."""
        self.requests: Counter[Labels] = Counter()


class Exposition:
    """Page in the text format of Prometheus."""

    def __init__(self) -> None:
        self._lines: list[str] = []

    def add(self, kind: str, name: str, help: str, values: float | Mapping[Labels, float]) -> None:
        """Add a metric with one value, or one for each set of labels; `kind` is `counter` or `gauge`."""
        self._head(kind, name, help)
        values = values if isinstance(values, Mapping) else {(): values}
        for labels, value in values.items():
            self._line(name, labels, value)

    def times(self, name: str, help: str, times: Times) -> None:
        """Add a histogram."""
        self._head("histogram", name, help)
        for bound, count in zip(SECONDS, times.buckets, strict=True):
            self._line(f"{name}_bucket", (("le", f"{bound:g}"),), count)
        self._line(f"{name}_bucket", (("le", "+Inf"),), times.count)
        self._line(f"{name}_sum", (), times.sum)
        self._line(f"{name}_count", (), times.count)

    def text(self) -> str:
        """Return the whole page."""
        return "".join(f"{line}\n" for line in self._lines)

    def _head(self, kind: str, name: str, help: str) -> None:
        self._lines += [f"# HELP {name} {help}", f"# TYPE {name} {kind}"]

    def _line(self, name: str, labels: Iterable[tuple[str, str]], value: float) -> None:
        joined = ",".join(f'{key}="{_escaped(text)}"' for key, text in labels)
        self._lines.append(f"{name}{{{joined}}} {value!r}" if joined else f"{name} {value!r}")


def text(metrics: Metrics, service: Service, free: int | None, process: ProcessFigures, audit_lost: int = 0) -> str:
    """Return all metrics in the text format of Prometheus.

    `free`: bytes that are free for the data directory; `audit_lost`: records of what people did that were not written.
    """
    states: dict[Labels, float] = {(("state", it),): 0 for it in ("idle", "queued", "running")}
    for chat in service.chat_list.all():
        states[(("state", chat.state),)] += 1
    counters, works = service.counters, service.store_state.failure is None
    page = Exposition()
    build = (("version", __version__), ("python", platform.python_version()), ("node", service.this_node.home or ""))
    page.add("gauge", "penstock_build_info", "Always 1; the version of Penstock is a label.", {build: 1})
    page.add("gauge", "penstock_chats", "Chats, by what they do.", states)
    most = service.limits.max_chats
    page.add("gauge", "penstock_chats_limit", "Maximum number of chats (--max-chats).", most)
    page.add("gauge", "penstock_turns_waiting", "Turns that wait for the one before, or for a slot.", service.waiting)
    _add_agents(page, counters.agents)
    page.add("counter", "penstock_store_entries_total", "Entries appended to the store.", counters.entries)
    page.add("counter", "penstock_store_failures_total", "Appends that the store failed to make.", counters.failures)
    page.add("gauge", "penstock_store_works", "1 if the store can be written, else 0.", int(works))
    if free is not None:
        page.add("gauge", "penstock_free_bytes", "Bytes that are free on the disk of the data directory.", free)
    help = "Records of what people did that could not be written."
    page.add("counter", "penstock_audit_lost_total", help, audit_lost)
    page.times("penstock_store_append_seconds", "Duration of an append.", counters.appends)
    page.add("gauge", "penstock_clients", "Streams that are open.", metrics.clients)
    page.add("gauge", "penstock_watches", "Chats that are read for clients.", metrics.watches)
    page.add(
        "counter", "penstock_clients_dropped_total", "Streams dropped because the client read nothing.", metrics.dropped
    )
    page.add("counter", "penstock_frames_total", "Frames sent to clients.", metrics.frames)
    page.add("counter", "penstock_stream_bytes_total", "Bytes sent to clients.", metrics.bytes)
    page.add("counter", "penstock_requests_total", "Requests that were answered.", metrics.requests)
    _add_process(page, process)
    return page.text()


def _add_agents(page: Exposition, agents: Mapping[str, AgentTotals]) -> None:
    """Add the outcomes, tokens and costs of each agent's turns.

    A figure that an agent has never reported has no line.
    """
    ended: dict[Labels, float] = {}
    tokens: dict[Labels, float] = {}
    costs: dict[Labels, float] = {}
    for name, totals in agents.items():
        agent = ("agent", name)
        ended |= {(agent, ("outcome", outcome)): count for outcome, count in totals.ended.items()}
        counts = {"input": totals.usage.input_tokens, "output": totals.usage.output_tokens}
        tokens |= {(agent, ("kind", kind)): count for kind, count in counts.items() if count is not None}
        if totals.usage.cost_usd is not None:
            costs[agent,] = totals.usage.cost_usd
    page.add("counter", "penstock_turns_total", "Turns that ended, by agent and outcome.", ended)
    page.add("counter", "penstock_tokens_total", "Tokens of turns that ended, as agents report them.", tokens)
    page.add("counter", "penstock_cost_usd_total", "Cost of turns that ended, as agents report it.", costs)


def _add_process(page: Exposition, process: ProcessFigures) -> None:
    """Add the figures of this process, by the names that all Prometheus clients use."""
    page.add("gauge", "process_start_time_seconds", "Start of the process, since 1970.", process.started_at)
    page.add("counter", "process_cpu_seconds_total", "CPU time, without agents.", process.cpu_seconds)
    page.add("gauge", "process_max_fds", "Maximum number of open files.", process.max_fds)
    if process.open_fds is not None:
        page.add("gauge", "process_open_fds", "Number of open files.", process.open_fds)
    if process.resident_bytes is not None:
        page.add("gauge", "process_resident_memory_bytes", "Resident memory, without agents.", process.resident_bytes)


def _escaped(text: str) -> str:
    return text.replace("\\", r"\\").replace('"', r"\"").replace("\n", r"\n")
