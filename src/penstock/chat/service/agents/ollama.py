"""State of an Ollama server: whether it answers, and its models. It is asked now and then, with short timeouts."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable
from urllib.parse import urlsplit

import msgspec

from penstock.chat.errors import Invalid
from penstock.chat.service.validation import model_of
from penstock.run import http_bridge

TAGS_URL = "http://127.0.0.1:11434/api/tags"
"""URL of Ollama's list of models; `OLLAMA_HOST` changes it, as it does for a run."""

ASK_SECONDS = 1.0
"""Timeout in seconds for a whole answer: a local server needs milliseconds, one on another machine a few more."""

WAIT_SECONDS = 0.5
"""Seconds that a caller waits for an answer; after them the answer before counts."""

FRESH_SECONDS = 10.0
"""Seconds for which an answer counts: short, for a reload of the page to show a new Ollama or model."""

MAX_ANSWER_BYTES = 1024 * 1024
MAX_MODELS = 100
"""Models of a server. A server that lists more is not Ollama."""


class _Model(msgspec.Struct):
    name: str


class _Tags(msgspec.Struct):
    models: list[_Model]


class OllamaServer:
    """Ollama server at `host`, in the format of `OLLAMA_HOST`; empty for the usual one. Any thread may use it."""

    def __init__(self, host: str, clock: Callable[[], float] = time.monotonic) -> None:
        self._host = host
        self._clock = clock
        self._lock = threading.Lock()
        self._models: list[str] | None = None
        self._fresh_until = 0.0
        self._answered: threading.Event | None = None  # of the request that is under way

    @property
    def place(self) -> str:
        """Address of the server, for people."""
        try:
            return urlsplit(http_bridge.moved(TAGS_URL, self._host)).netloc
        except ValueError:
            return self._host[:100]

    def models(self) -> list[str] | None:
        """Return its models, the one changed last first; None if it did not answer."""
        with self._lock:
            if self._clock() < self._fresh_until:
                return self._models
            answered = self._answered
            if answered is None:
                answered = self._answered = threading.Event()
                # A daemon thread, so that a server that does not answer cannot keep Penstock from ending either.
                threading.Thread(target=self._ask, args=(answered,), name="penstock ollama", daemon=True).start()
        answered.wait(WAIT_SECONDS)
        return self._models

    def _ask(self, answered: threading.Event) -> None:
        try:
            models = _models_at(self._host)
        except Exception:  # whatever it sends and whatever its address is, an error means that there is no server
            models = None
        with self._lock:
            self._models, self._answered = models, None
            self._fresh_until = self._clock() + FRESH_SECONDS
        answered.set()


def _models_at(host: str) -> list[str] | None:
    # Not with httpx, which a run uses: loading it alone takes longer than the answer does.
    from urllib import request

    url, end = http_bridge.moved(TAGS_URL, host), time.monotonic() + ASK_SECONDS
    opener = request.OpenerDirector()
    for handler in (
        request.ProxyHandler({} if http_bridge.is_local(url) else None),
        request.HTTPHandler(),
        request.HTTPSHandler(),
        request.HTTPErrorProcessor(),
        request.HTTPDefaultErrorHandler(),
    ):
        opener.add_handler(handler)
    data = bytearray()
    with opener.open(url, timeout=ASK_SECONDS) as answer:
        while piece := answer.read1():
            data += piece
            if len(data) > MAX_ANSWER_BYTES or time.monotonic() > end:
                return None
    found = msgspec.json.decode(data, type=_Tags).models[:MAX_MODELS]
    return [name for name in dict.fromkeys(model.name for model in found) if _is_model(name)]


def _is_model(name: str) -> bool:
    try:
        return name.isprintable() and model_of(name) == name
    except Invalid:
        return False
