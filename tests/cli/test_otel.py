"""Runs of the command line at a real collector: what it gets, and what happens if there is none."""

from __future__ import annotations

import os
import socket
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

TESTS = Path(__file__).parents[1]
RECORDING = TESTS / "recordings" / "claude" / "tools"
PARENT = "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01"
SECONDS = 120

collector = pytest.importorskip("collector", reason="needs the extra otel")


@pytest.fixture
def collected(request: pytest.FixtureRequest) -> Iterator[Any]:
    """A collector; its options are the parameter."""
    made = collector.Collector(**getattr(request, "param", {}))
    yield made
    made.close()


def run(folder: Path, *more: str, config: str = "", project: str = "", **env: str) -> subprocess.CompletedProcess[str]:
    """Run a scripted agent."""
    player = TESTS / "support" / "scripted.py"
    command = f'[agents.scripted]\ncommand = ["{sys.executable}", "-S", "{player}", "{RECORDING}", "--speed=0"]\n'
    (folder / "config" / "penstock").mkdir(parents=True, exist_ok=True)
    (folder / "config" / "penstock" / "config.toml").write_text(f'{command}adapter = "claude"\n{config}')
    (folder / "work").mkdir(exist_ok=True)
    if project:
        (folder / "work" / "penstock.toml").write_text(project)
    kept = {name: os.environ[name] for name in ("PATH", "PYTHONPATH", "TMPDIR") if name in os.environ}
    env = {"OTEL_EXPORTER_OTLP_TIMEOUT": "60", **env}
    places = {"HOME": str(folder), "XDG_CONFIG_HOME": str(folder / "config"), "PENSTOCK_DATA": str(folder / "data")}
    words = [sys.executable, "-m", "penstock", "run", "scripted", "a secret", "--sandbox", "off", *more]
    return subprocess.run(
        words, capture_output=True, text=True, env={**kept, **places, **env}, cwd=folder / "work", timeout=SECONDS,
        check=False, stdin=subprocess.DEVNULL,
    )  # fmt: skip


@pytest.mark.slow
def test_what_a_collector_gets(collected: Any, tmp_path: Path) -> None:
    """The run and its calls as one trace, below that of the environment, and histograms; no text of the run."""
    plain = run(tmp_path)
    done = run(tmp_path, "--otel", OTEL_EXPORTER_OTLP_ENDPOINT=collected.url, TRACEPARENT=PARENT, TRACESTATE="a=b")
    assert (done.returncode, done.stderr) == (plain.returncode, plain.stderr)
    root = next(span for span in collected.spans if span.name == "invoke_agent scripted")
    calls = [span for span in collected.spans if span is not root]
    assert calls
    assert root.trace_id.hex() == PARENT[3:35]
    assert root.parent_span_id.hex() == PARENT[36:52]
    assert root.trace_state == "a=b"
    assert {(span.trace_id, span.parent_span_id) for span in calls} == {(root.trace_id, root.span_id)}
    assert all(root.start_time_unix_nano <= span.start_time_unix_nano for span in calls)
    assert all(span.end_time_unix_nano <= root.end_time_unix_nano for span in calls)
    found = collector.attributes(root)
    assert (found["gen_ai.operation.name"], found["penstock.outcome"]) == ("invoke_agent", "ok")
    assert {"gen_ai.usage.input_tokens", "gen_ai.usage.output_tokens", "gen_ai.request.model"} <= {*found}
    assert {span.name.split()[0] for span in calls} == {"execute_tool"}
    assert collected.resources[0]["service.name"] == "penstock"
    assert {metric.name for metric in collected.metrics} == {
        "gen_ai.client.token.usage", "gen_ai.invoke_agent.duration", "gen_ai.execute_tool.duration",
    }  # fmt: skip
    assert "a secret" not in str(collected.spans)


@pytest.mark.slow
def test_what_switches_it_on(collected: Any, tmp_path: Path) -> None:
    """The flag, the user's file and the standard variables; never a file of the project, and each can switch it off."""
    table = f'[otel]\nendpoint = "{collected.url}"\n'
    theirs = run(tmp_path, project=f"{table}enabled = true\n")
    assert "otel.endpoint is the user's alone" in theirs.stderr
    off = run(tmp_path, config=f"{table}enabled = false\n", OTEL_EXPORTER_OTLP_ENDPOINT=collected.url)
    disabled = run(tmp_path, config=f"{table}enabled = true\n", OTEL_SDK_DISABLED="true")
    assert (off.returncode, disabled.returncode, collected.asked) == (0, 0, 0)
    (tmp_path / "work" / "penstock.toml").unlink()
    mine = run(tmp_path, config=f"{table}enabled = true\ncontent = true\n", OTEL_SERVICE_NAME="mine")
    assert mine.returncode == 0
    assert "a secret" in str(collected.spans)
    assert collected.resources[0]["service.name"] == "mine"
    before = len(collected.metrics), len(collected.spans)
    only = run(tmp_path, OTEL_EXPORTER_OTLP_TRACES_ENDPOINT=f"{collected.url}/v1/traces")
    assert only.returncode == 0
    assert (len(collected.metrics), len(collected.spans)) == (before[0], 2 * before[1])


@pytest.mark.slow
@pytest.mark.parametrize("collected", [{"status": 400}, {"holds": True}, {"status": 503}], indirect=True, ids=str)
def test_a_collector_that_does_not_take_it(collected: Any, tmp_path: Path) -> None:
    """The run ends as without it, while a request is still held; one line says so."""
    done = run(tmp_path, "--otel", OTEL_EXPORTER_OTLP_ENDPOINT=collected.url, OTEL_EXPORTER_OTLP_TIMEOUT="2")
    assert done.returncode == 0
    assert done.stderr.endswith("warning: the collector of OpenTelemetry has not taken the spans of one run\n")
    assert len(done.stderr.splitlines()) <= 2


@pytest.mark.slow
def test_a_collector_that_is_away(tmp_path: Path) -> None:
    """A port where nothing listens is as harmless."""
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = taken.getsockname()[1]
    done = run(tmp_path, OTEL_EXPORTER_OTLP_ENDPOINT=f"http://127.0.0.1:{port}", OTEL_EXPORTER_OTLP_TIMEOUT="2")
    assert done.returncode == 0
    assert "has not taken the spans of one run" in done.stderr


@pytest.mark.slow
def test_another_protocol(tmp_path: Path) -> None:
    """Variables that are for other programs are left alone; who asks for it is told."""
    env = {"OTEL_EXPORTER_OTLP_ENDPOINT": "http://127.0.0.1:9", "OTEL_EXPORTER_OTLP_PROTOCOL": "grpc"}
    assert run(tmp_path, **env).returncode == 0
    done = run(tmp_path, "--otel", **env)
    assert done.returncode == 2
    assert "expected http/protobuf" in done.stderr
    odd = {"OTEL_EXPORTER_OTLP_ENDPOINT": "http://127.0.0.1:9", "OTEL_EXPORTER_OTLP_TIMEOUT": "soon"}
    assert run(tmp_path, **odd).returncode == 0
    assert run(tmp_path, "--otel", **odd).returncode == 2
