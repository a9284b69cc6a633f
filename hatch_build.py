"""The build puts what the page loads from npm into the wheel and the sdist, and makes the page of a package index."""

from __future__ import annotations

import importlib.util
from pathlib import Path
from types import ModuleType
from typing import Any

from hatchling.builders.hooks.plugin.interface import BuildHookInterface
from hatchling.metadata.plugin.interface import MetadataHookInterface


def load(path: Path) -> ModuleType:
    """Return the module of a file that belongs to no package."""
    spec = importlib.util.spec_from_file_location(f"penstock_{path.stem.strip('_')}", path)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


class PageHook(BuildHookInterface):  # type: ignore[type-arg]
    """Fills the page's `vendor` folder. One that is whole is left as it is: an sdist builds without Node."""

    def initialize(self, version: str, build_data: dict[str, Any]) -> None:
        """Called before each build; `version` is `editable` for an install in place."""
        vendor = load(Path(self.root, "page", "vendor.py"))
        try:
            if not vendor.complete():
                vendor.fetch()
        except vendor.Failed as failed:
            if version != "editable":
                raise
            # The rest of Penstock works without the page, and `penstock serve` says what it lacks.
            self.app.display_warning(f"{failed}\nPenstock is installed without its page; `make page` adds it.")


class ReadmeHook(MetadataHookInterface):
    """Makes the page that a package index shows."""

    def update(self, metadata: dict[str, Any]) -> None:
        """Called with the table `[project]`, before anything else reads it."""
        root = Path(self.root)
        text = (root / "README.md").read_text("utf-8")
        version = load(root / "src" / "penstock" / "_version.py").__version__
        made = load(root / "packaging" / "index_page.py").index_page(
            text, metadata.get("urls", {}).get("Source"), version
        )
        metadata["readme"] = {"content-type": "text/markdown", "text": made}
