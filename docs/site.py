"""Hooks of MkDocs: the site has the anchors of a forge, and pages of the repository that are not in `docs`."""

from __future__ import annotations

import posixpath
import re
from pathlib import Path
from typing import Any

from mkdocs.config.defaults import MkDocsConfig
from mkdocs.structure.files import File, Files
from mkdocs.structure.pages import Page

ROOT = Path(__file__).resolve().parents[1]
PAGES = (
    "CONTRIBUTING.md",
    "CODE_OF_CONDUCT.md",
    "CHANGELOG.md",
    "SECURITY.md",
    "tests/recordings/README.md",
    "tests/real/README.md",
)
"""Pages outside of `docs`; on the site they are in `project/`."""

FENCE = re.compile(r"^( *)```.*?^\1```$", re.MULTILINE | re.DOTALL)
LINK = re.compile(r"\[([^\]]*)\]\((?![a-z]+:|#)([^)\s#]+)(#[^)\s]*)?\)")


def slug(heading: str, separator: str) -> str:
    """Return the anchor of a heading as forges make it, so that a link works there and here."""
    return re.sub(r"[^\w\- ]", "", heading.lower()).replace(" ", separator)


def on_config(config: MkDocsConfig) -> None:
    """Set the function that makes anchors."""
    config.mdx_configs.setdefault("toc", {})["slugify"] = slug


def on_files(files: Files, config: MkDocsConfig) -> None:
    """Add the pages outside of `docs`."""
    for name in PAGES:
        text = (ROOT / name).read_text("utf-8")
        files.append(File.generated(config, f"project/{name}", content=text))


def on_page_markdown(markdown: str, page: Page, **_: Any) -> str:
    """Point the links of a page to where their targets are on the site; a link to a file that is not there is text."""
    source = page.file.src_uri
    inside = source.removeprefix("project/")
    home = inside if inside in PAGES else f"docs/{source}"

    def moved(found: re.Match[str]) -> str:
        text, target, anchor = found[1], found[2], found[3] or ""
        path = posixpath.normpath(posixpath.join(posixpath.dirname(home), target))
        if path in PAGES:
            path = f"project/{path}"
        elif path.startswith("docs/"):
            path = path.removeprefix("docs/")
        elif (ROOT / path).exists():
            return text
        return f"[{text}]({posixpath.relpath(path, posixpath.dirname(source) or '.')}{anchor})"

    parts: list[str] = []
    last = 0
    for fence in FENCE.finditer(markdown):
        parts += [LINK.sub(moved, markdown[last : fence.start()]), fence[0]]
        last = fence.end()
    return "".join([*parts, LINK.sub(moved, markdown[last:])])
