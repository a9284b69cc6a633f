"""Writes what follows from the public names of the package: the stub that type checkers read.

The names come from the table in `src/penstock/__init__.py`. Run by `make reference`.
"""

from __future__ import annotations

from pathlib import Path

import penstock

FOLDER = Path(__file__).parent
STUB = FOLDER.parent / "src" / "penstock" / "__init__.pyi"


def stub() -> str:
    """Return the stub of the package: an import of each public name from the module that defines it."""
    lines = ['"""Public names of the package, for type checkers. Made by `make reference`: do not edit."""', ""]
    for module, names in sorted(penstock._EXPORTS.items()):
        # Classes before functions, as ruff sorts them.
        lines += [f"from {module} import {name} as {name}" for name in sorted(names)]
    return "\n".join([*lines, ""])


if __name__ == "__main__":
    STUB.write_text(stub(), "utf-8")
