"""The build puts what the page loads from npm into the wheel and the sdist."""

from __future__ import annotations

import importlib.util
from pathlib import Path
from typing import Any

from hatchling.builders.hooks.plugin.interface import BuildHookInterface


class PageHook(BuildHookInterface):  # type: ignore[type-arg]
    """Fills the page's `vendor` folder. One that is whole is left as it is: an sdist builds without Node."""

    def initialize(self, version: str, build_data: dict[str, Any]) -> None:
        """Called before each build; `version` is `editable` for an install in place."""
        script = Path(self.root, "page", "vendor.py")
        spec = importlib.util.spec_from_file_location("penstock_page_vendor", script)
        assert spec is not None
        assert spec.loader is not None
        vendor = importlib.util.module_from_spec(spec)
        spec.loader.exec_module(vendor)
        try:
            if not vendor.complete():
                vendor.fetch()
        except vendor.Failed as failed:
            if version != "editable":
                raise
            # The rest of Penstock works without the page, and `penstock serve` says what it lacks.
            self.app.display_warning(f"{failed}\nPenstock is installed without its page; `make page` adds it.")
