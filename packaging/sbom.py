"""Print the bill of materials of a release, in CycloneDX 1.6: `python packaging/sbom.py >penstock.cdx.json`.

It lists what `constraints.txt` pins, which is everything that an installation with all extras can need, and the
packages of npm whose files are in the page. The same inputs give the same bytes.
"""

from __future__ import annotations

import base64
import json
import re
import sys
import tomllib
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parents[1]

PIN = re.compile(r"^([A-Za-z0-9._-]+)==([^\s;\\]+)", re.MULTILINE)
"""Package and version of a line of `constraints.txt`."""


def components() -> list[dict[str, Any]]:
    """Return all packages that Penstock contains or needs."""
    found: list[dict[str, Any]] = []
    for name, version in PIN.findall((ROOT / "constraints.txt").read_text("utf-8")):
        found.append(_component("pypi", name, version))
    lock = json.loads((ROOT / "page" / "package-lock.json").read_text("utf-8"))["packages"]
    for path, entry in sorted(lock.items()):
        if path and not entry.get("dev") and not entry.get("optional"):
            one = _component("npm", path.rpartition("node_modules/")[2], entry["version"])
            algorithm, _, digest = entry["integrity"].partition("-")
            content = base64.b64decode(digest).hex()
            found.append(
                {
                    **one,
                    "licenses": [{"expression": entry["license"].strip("()")}],
                    "hashes": [{"alg": algorithm.upper().replace("SHA", "SHA-"), "content": content}],
                }
            )
    return found


def _component(kind: str, name: str, version: str) -> dict[str, Any]:
    address = f"pkg:{kind}/{name.replace('@', '%40')}@{version}"
    return {"type": "library", "bom-ref": address, "name": name, "version": version, "purl": address}


def bill() -> dict[str, Any]:
    """Return the whole document."""
    project = tomllib.loads((ROOT / "pyproject.toml").read_text("utf-8"))["project"]
    [version] = re.findall(r'__version__ = "(.+)"', (ROOT / "src/penstock/_version.py").read_text("utf-8"))
    parts = components()
    own = _component("pypi", project["name"], version) | {"licenses": [{"expression": project["license"]}]}
    return {
        "$schema": "http://cyclonedx.org/schema/bom-1.6.schema.json",
        "bomFormat": "CycloneDX",
        "specVersion": "1.6",
        "version": 1,
        "metadata": {"component": {**own, "type": "application", "description": project["description"]}},
        "components": parts,
        "dependencies": [{"ref": own["bom-ref"], "dependsOn": [part["bom-ref"] for part in parts]}],
    }


if __name__ == "__main__":
    json.dump(bill(), sys.stdout, indent=1)
    print()
