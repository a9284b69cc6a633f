"""Files of a run: they are read and checked before anything starts."""

from __future__ import annotations

import json
import os
from pathlib import Path
from typing import Any

import pytest

from penstock.adapter import MAX_STDIN_BYTES, McpServer, Request
from penstock.errors import UsageError
from penstock.run import inputs
from penstock.run.inputs import request_of
from penstock.run.spec import RULES, spec_of

PNG = b"\x89PNG\r\n\x1a\n" + bytes(8)


def request(**given: Any) -> Request:
    """The request of a run with these options."""
    return request_of(spec_of({"agent": "claude", "prompt": "hi", **given}))


def written(path: Path, content: bytes | object) -> Path:
    """A file with some bytes, or with a value as JSON."""
    path.write_bytes(content if isinstance(content, bytes) else json.dumps(content).encode())
    return path


@pytest.mark.parametrize(
    ("content", "kind"),
    [
        (PNG, "image/png"),
        (b"\xff\xd8\xff\xe0\0\x10JFIF\0", "image/jpeg"),
        (b"GIF89a\x01\0\x01\0", "image/gif"),
        (b"RIFF\x24\0\0\0WEBPVP8 ", "image/webp"),
    ],
)
def test_an_image_is_known_by_its_first_bytes(tmp_path: Path, content: bytes, kind: str) -> None:
    """The name of the file plays no part."""
    (image,) = request(files=[written(tmp_path / "notes.txt", content)]).images
    assert (image.path, image.media_type, image.content) == (str(tmp_path / "notes.txt"), kind, content)
    assert image.data_url.startswith(f"data:{kind};base64,")


def test_a_text_keeps_its_path(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A text is named as the caller named it, and read relative to the directory of Penstock and not of the agent."""
    monkeypatch.chdir(tmp_path)
    written(tmp_path / "a.md", "ünï\n".encode())
    (tmp_path / "elsewhere").mkdir()
    (file,) = request(files=["a.md"], cwd=str(tmp_path / "elsewhere")).files
    assert (file.path, file.text) == ("a.md", "ünï\n")


@pytest.mark.parametrize(
    ("content", "problem"),
    [
        (b"a\0b", "is neither text nor an image"),
        (b"\xff\xfe", "is neither text nor an image"),
        (b"%PDF-1.7\n\xe2\xe3", "is neither text nor an image"),
        (None, "there is no such file"),
    ],
)
def test_other_files_are_rejected(tmp_path: Path, content: bytes | None, problem: str) -> None:
    """A file of another kind, or one that does not exist, is an error before the start."""
    path = tmp_path / "a"
    if content is not None:
        path.write_bytes(content)
    with pytest.raises(UsageError, match=problem):
        request(files=[path])


def test_only_regular_files_are_read(tmp_path: Path) -> None:
    """A pipe, which could block, and a directory are errors."""
    os.mkfifo(tmp_path / "pipe")
    for path in (tmp_path / "pipe", tmp_path):
        with pytest.raises(UsageError, match="it is not a regular file"):
            request(files=[path])


def test_sizes_are_limited(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A text, an image, a schema, and the number of images have limits, which the errors name."""
    with pytest.raises(UsageError, match="more than 10,485,760 bytes"):
        request(files=[written(tmp_path / "text", b"a" * (MAX_STDIN_BYTES + 1))])
    with pytest.raises(UsageError, match="at most 5,242,880"):
        request(files=[written(tmp_path / "image", PNG + bytes(inputs.MAX_IMAGE_BYTES))])
    with pytest.raises(UsageError, match="more than 102,400 bytes"):
        request(schema=written(tmp_path / "schema", {"a": "b" * inputs.MAX_JSON_BYTES}))
    with pytest.raises(UsageError, match="there are 21 images; expected at most 20"):
        request(files=[written(tmp_path / "small", PNG)] * 21)


def test_a_schema_is_an_object(tmp_path: Path) -> None:
    """A schema is one JSON object; other JSON and other text are errors."""
    found = request(schema=written(tmp_path / "s", {"type": "object"})).schema
    assert found is not None
    assert (found.path, found.value, found.text) == (str(tmp_path / "s"), {"type": "object"}, '{"type":"object"}')
    with pytest.raises(UsageError, match="has JSON that is not an object"):
        request(schema=written(tmp_path / "s", [1]))
    for broken in (b"{", b"", b"\xff"):
        with pytest.raises(UsageError, match="is not JSON"):
            request(schema=written(tmp_path / "s", broken))


def test_servers_are_programs_or_addresses(tmp_path: Path) -> None:
    """A server has a command or an address; fields that Penstock does not know are left to the agent."""
    servers = {"a": {"command": "x", "args": ["y"], "env": {"K": "v"}, "timeout": 3}, "b": {"url": "https://z"}}
    found = request(mcp_config=written(tmp_path / "m", {"mcpServers": servers})).mcp_config
    assert found is not None
    program = McpServer("a", command="x", args=("y",), env={"K": "v"})
    assert found.servers == (program, McpServer("b", "http", url="https://z"))


@pytest.mark.parametrize(
    ("content", "problem"),
    [
        ({}, "has no MCP servers"),
        ({"mcpServers": {}}, "has no MCP servers"),
        ({"mcpServers": {"a": {}}}, "the MCP server 'a' of .* has no command"),
        ({"mcpServers": {"a": {"type": "http"}}}, "the MCP server 'a' of .* has no url"),
        ({"mcpServers": {"a": {"command": 3}}}, "the MCP server 'a' of .* cannot be used: "),
        ({"mcpServers": {"a": {"type": "sse", "url": "x"}}}, "the MCP server 'a' of .* cannot be used: "),
        ({"mcpServers": {"a": "x"}}, "the MCP server 'a' of .* cannot be used: "),
    ],
)
def test_other_servers_are_rejected(tmp_path: Path, content: object, problem: str) -> None:
    """A file of another form is an error that names the server."""
    with pytest.raises(UsageError, match=problem):
        request(mcp_config=written(tmp_path / "m", content))


@pytest.mark.parametrize(
    ("option", "good", "bad"),
    [
        ("effort", ["low", "x-high", "10"], ["", "--high", "very high", "HIGH", "a" * 33]),
        ("system_prompt", ["Be brief.", "-x"], ["", " \n", "a\0", "\udcff", "a" * 102_401]),
        ("allow_tools", [["Bash(git *)"], ()], ["Bash", ["-x"], [""], ["a\n"], [" a"]]),
        ("files", [["a", Path("b")], ()], ["a", [""], ["a\0"]]),
    ],
)
def test_rules(option: str, good: list[object], bad: list[object]) -> None:
    """Values that a program could misread are rejected."""
    assert [value for value in good if not RULES[option].fits(value)] == []
    assert [value for value in bad if RULES[option].fits(value)] == []
