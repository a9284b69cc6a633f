"""Files of the page, as they were in its folder when the server started."""

from __future__ import annotations

import base64
import gzip
import hashlib
import re
from pathlib import Path
from typing import NamedTuple

from starlette.requests import Request
from starlette.responses import Response

from penstock.chat.web.compression import MIN_BYTES, accepts_gzip
from penstock.errors import UsageError

FOLDER = Path(__file__).parents[1] / "page"

TYPES = {
    ".html": "text/html; charset=utf-8",
    ".js": "text/javascript; charset=utf-8",
    ".mjs": "text/javascript; charset=utf-8",
    ".css": "text/css; charset=utf-8",
    ".svg": "image/svg+xml",
    ".png": "image/png",
    ".ico": "image/x-icon",
    ".woff2": "font/woff2",
    ".webmanifest": "application/manifest+json",
    ".json": "application/json",
    ".txt": "text/plain; charset=utf-8",
}
"""Media types of files by suffix. Files with other suffixes are not served."""

INDEX, SHARED_INDEX = "index.html", "shared.html"
"""Files of the page, and of the page of a share."""

PAGE_FILES = {f"/{INDEX}", f"/{SHARED_INDEX}"}
"""Paths of the files that name others."""

PARTS = (".js", ".css")
"""Suffixes of the files that only a page loads, as a script or a style."""

WORKERS = {"/net/stream-worker.js", "/sw.js"}
"""Paths of scripts that run without a page: the policy that they are served with is theirs."""

MAX_FILE_BYTES = 8 * 1024 * 1024
"""Bytes of the largest file that is served, more than any file of the page: they are held in memory."""


INLINE_SCRIPT = re.compile(rb"<script(?![^>]*\ssrc=)[^>]*>(.*?)</script>", re.DOTALL)
"""Script whose text is in the page itself. The only one is the import map: browsers do not load one from a file."""


LINK = re.compile(rb'(?<=")/(?=[\w/-]+(?:\.(?:js|css|svg)|/)")')
"""Beginning of the path of a file or folder, in the page itself. Modules name each other by relative paths."""

COMMENT = re.compile(rb"^[ \t]*(?://[^\n]*|/\*\*(?:(?!\*/).)*\*/[ \t]*)$", re.DOTALL | re.MULTILINE)
"""Comment in a script that has its lines to itself: a quarter of what a first visit would load."""

VERSIONED = re.compile(r"/v/([0-9a-f]{16})(?=/)")
"""Prefix of a path with the version of all files."""

KEPT_SECONDS = 365 * 24 * 3600
"""Seconds for which browsers keep a file that never changes: a year, which HTTP caches take for ever."""


class File(NamedTuple):
    """File as it is sent."""

    data: bytes
    type: str
    etag: str
    packed: bytes | None
    """Data by gzip; None if that is not smaller."""

    @property
    def packed_etag(self) -> str:
        """Return the tag of the compressed form: each form has its own."""
        return f'{self.etag[:-1]}-gz"'


class PageFiles:
    """Files of the page, in memory."""

    def __init__(self, folder: Path | None = None) -> None:
        """Read the files of a folder; None: the folder that is part of Penstock.

        Raises:
            UsageError: the folder does not hold the page.
        """
        folder = folder or FOLDER
        self.files: dict[str, File] = {}
        """Files by path, such as `/app.js`."""
        for path in sorted(folder.rglob("*")) if folder.is_dir() else ():
            kind = TYPES.get(path.suffix)
            if kind and path.is_file() and path.stat().st_size <= MAX_FILE_BYTES:
                name = f"/{path.relative_to(folder).as_posix()}"
                is_own_script = path.suffix == ".js" and not name.startswith("/vendor/")
                data = path.read_bytes()
                self.files[name] = _made(without_comments(data) if is_own_script else data, kind)
        if f"/{INDEX}" not in self.files or not any(name.startswith("/vendor/") for name in self.files):
            raise UsageError(
                "the page was not built into this copy of Penstock",
                expected=f"{INDEX} and the folder vendor in {folder}",
                help="install a released wheel, or run make page",
            )
        tags = "".join(f"{name} {file.etag}\n" for name, file in self.files.items())
        self.version: str = hashlib.sha256(tags.encode()).hexdigest()[:16]
        """Hash of all files. The page names them below it, so that a browser keeps them and asks for none again."""
        for name in PAGE_FILES & self.files.keys():
            self.files[name] = _made(LINK.sub(f"/v/{self.version}/".encode(), self.files[name].data))

    @property
    def inline_scripts(self) -> list[str]:
        """Sources that a content security policy must name for the page's inline scripts: their hashes."""
        pages = [self.files[name].data for name in sorted(PAGE_FILES & self.files.keys())]
        scripts = [*dict.fromkeys(script for page in pages for script in INLINE_SCRIPT.findall(page))]
        return [f"'sha256-{base64.b64encode(hashlib.sha256(script).digest()).decode()}'" for script in scripts]

    def is_part(self, name: str) -> bool:
        """Return whether the file of this path is a script or a style of a page, neither a page nor a worker."""
        path = _without_version(name)
        return path.endswith(PARTS) and path not in WORKERS

    def answer(self, request: Request, name: str) -> Response | None:
        """Return the response with the file of this path; None if there is no such file."""
        versioned = VERSIONED.match(name)
        file = self.files.get(_without_version(name))
        if file is None:
            return None
        # `no-cache`: browsers revalidate the file, so that a new version is used at once. A page that was loaded before
        # an upgrade asks for the files of its version; it gets those of today.
        is_kept = versioned is not None and versioned[1] == self.version
        cached = f"public, max-age={KEPT_SECONDS}, immutable" if is_kept else "no-cache"
        data, etag = file.data, file.etag
        headers = {"Cache-Control": cached}
        if file.packed is not None:
            headers["Vary"] = "Accept-Encoding"
            if accepts_gzip(request):
                data, etag = file.packed, file.packed_etag
                headers["Content-Encoding"] = "gzip"
        if not is_kept:  # nobody asks again for a file that never changes: the tags of a first visit would be 4 KB
            headers["ETag"] = etag
        asked = request.headers.get("if-none-match", "")
        if asked == "*" or etag in (tag.strip().removeprefix("W/") for tag in asked.split(",")):
            headers.pop("Content-Encoding", None)
            return Response(status_code=304, headers=headers)
        return Response(data, headers=headers, media_type=file.type)


class NoPage(PageFiles):
    """Files of a server for programs alone: none."""

    def __init__(self) -> None:
        self.files: dict[str, File] = {}
        self.version: str = ""

    @property
    def inline_scripts(self) -> list[str]:
        """Sources of scripts: none."""
        return []


def _without_version(name: str) -> str:
    versioned = VERSIONED.match(name)
    return name[versioned.end() :] if versioned else name


def without_comments(script: bytes) -> bytes:
    """Return a script without the comments that have lines to themselves; the other lines keep their numbers.

    No line in a text of the script may look like one. A test compares all scripts of the page.
    """
    return COMMENT.sub(lambda found: b"\n" * found[0].count(b"\n"), script)


def _made(data: bytes, kind: str = TYPES[".html"]) -> File:
    packed = gzip.compress(data, mtime=0) if len(data) >= MIN_BYTES else data
    etag = f'"{hashlib.sha256(data).hexdigest()[:32]}"'
    return File(data, kind, etag, packed if len(packed) < len(data) else None)
