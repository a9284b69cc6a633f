"""A collector of OpenTelemetry: it takes requests of OTLP over HTTP, and reads them with the protocol's own package."""

from __future__ import annotations

import gzip
import threading
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

from opentelemetry.proto.collector.metrics.v1.metrics_service_pb2 import ExportMetricsServiceRequest
from opentelemetry.proto.collector.trace.v1.trace_service_pb2 import ExportTraceServiceRequest


class Collector:
    """The collector. With a `status` it rejects; while it `holds`, no request is answered."""

    def __init__(self, *, status: int = 200, holds: bool = False) -> None:
        self.spans: list[Any] = []
        self.resources: list[dict[str, Any]] = []
        self.metrics: list[Any] = []
        self.asked = 0
        self.released = threading.Event()
        if not holds:
            self.released.set()
        outer = self

        class Handler(BaseHTTPRequestHandler):
            def do_POST(self) -> None:
                outer.asked += 1
                data = self.rfile.read(int(self.headers["Content-Length"]))
                outer.released.wait()
                if status == 200:
                    data = gzip.decompress(data) if self.headers.get("Content-Encoding") == "gzip" else data
                    outer._take(self.path, data)
                try:
                    self.send_response(status)
                    self.send_header("Content-Length", "0")
                    self.end_headers()
                except OSError:
                    pass  # the sender has gone

            def log_message(self, *_: object) -> None:
                pass

        self._server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self._server.daemon_threads = True
        self.url = f"http://127.0.0.1:{self._server.server_address[1]}"
        self._thread = threading.Thread(target=self._server.serve_forever)
        self._thread.start()

    def _take(self, path: str, data: bytes) -> None:
        if path == "/v1/traces":
            for resource in ExportTraceServiceRequest.FromString(data).resource_spans:
                self.resources.append(attributes(resource.resource))
                self.spans += [span for scope in resource.scope_spans for span in scope.spans]
        elif path == "/v1/metrics":
            for resource in ExportMetricsServiceRequest.FromString(data).resource_metrics:
                self.metrics += [metric for scope in resource.scope_metrics for metric in scope.metrics]

    def close(self) -> None:
        """Answer what waits, and end."""
        self.released.set()
        self._server.shutdown()
        self._thread.join()
        self._server.server_close()


def attributes(owner: Any) -> dict[str, Any]:
    """The attributes of a span, a point or a resource."""
    return {it.key: getattr(it.value, it.value.WhichOneof("value")) for it in owner.attributes}
