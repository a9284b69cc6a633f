"""Put what the page loads from npm into the package: `python page/vendor.py`, or `make page`.

Fetched by the lock file beside this one, into a folder that is not committed. The wheel has it, so that who installs
Penstock needs no Node. Nothing of what is fetched is run.
"""

from __future__ import annotations

import hashlib
import json
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path

INPUTS = Path(__file__).resolve().parent
VENDOR = INPUTS.parent / "src" / "penstock" / "chat" / "page" / "vendor"

MANIFEST = "manifest.json"
"""Which package each file is from, and its SHA-256; it is written last, so a folder with it is whole."""

NPM_SECONDS = 300
"""A registry that answers at all does so long before."""

LANGUAGES = (
    "bash",
    "cpp",
    "css",
    "diff",
    "dockerfile",
    "go",
    "ini",
    "java",
    "javascript",
    "json",
    "markdown",
    "python",
    "rust",
    "sql",
    "typescript",
    "xml",
    "yaml",
)
"""Those that the page highlights; `highlight.js` beside the page's other modules knows their other names."""

FILES = {
    "htm-preact.js": ("htm", "preact/standalone.module.js"),
    "htm-preact.LICENSE-htm": ("htm", "LICENSE"),
    "htm-preact.LICENSE-preact": ("preact", "LICENSE"),  # the standalone file has Preact in it
    "marked.js": ("marked", "lib/marked.esm.js"),
    "marked.LICENSE": ("marked", "LICENSE"),
    "dompurify.js": ("dompurify", "dist/purify.es.mjs"),
    "dompurify.LICENSE": ("dompurify", "LICENSE"),
    "highlight/core.js": ("@highlightjs/cdn-assets", "es/core.min.js"),
    "highlight/LICENSE": ("@highlightjs/cdn-assets", "LICENSE"),
    **{f"highlight/{name}.js": ("@highlightjs/cdn-assets", f"es/languages/{name}.min.js") for name in LANGUAGES},
}
"""A file of the page → the package it is from, and its path there."""


class Failed(Exception):
    """What happened, and the way out."""


def complete(vendor: Path = VENDOR) -> bool:
    """Whether the folder holds what this version of the page loads, unchanged."""
    try:
        stated = json.loads((vendor / MANIFEST).read_text(encoding="utf-8"))["files"]
        found = {name: _sha256(vendor / name) for name in FILES}
        wanted = {name: (package, _versions()[package]) for name, (package, _) in FILES.items()}
    except (OSError, ValueError, KeyError, TypeError):
        return False
    return found == {name: it.get("sha256") for name, it in stated.items()} and wanted == {
        name: (it.get("package"), it.get("version")) for name, it in stated.items()
    }


def fetch(vendor: Path = VENDOR) -> None:
    """Fill the folder from npm.

    Raises:
        Failed: there is no npm, or it failed.
    """
    versions = _versions()
    with tempfile.TemporaryDirectory() as folder:
        modules = install(Path(folder))
        made = Path(folder) / "vendor"
        for name, (package, path) in FILES.items():
            (made / name).parent.mkdir(parents=True, exist_ok=True)
            try:
                shutil.copyfile(modules / package / path, made / name)
            except OSError as error:
                raise Failed(f"{package} {versions[package]} has no {path}: {error}") from error
        stated = {
            name: {"package": package, "version": versions[package], "sha256": _sha256(made / name)}
            for name, (package, _) in FILES.items()
        }
        (made / MANIFEST).write_text(json.dumps({"files": stated}, indent=1) + "\n", encoding="utf-8")
        shutil.rmtree(vendor, ignore_errors=True)
        shutil.copytree(made, vendor)


def install(folder: Path, *, tools: bool = False) -> Path:
    """Install the packages of the lock file in a folder, with `tools` those that only tests use; gives `node_modules`.

    Raises:
        Failed: there is no npm, or it failed.
    """
    for name in ("package.json", "package-lock.json"):
        shutil.copyfile(INPUTS / name, folder / name)
    npm = shutil.which("npm")
    if npm is None:
        raise Failed("The page is built with npm, which is not on the PATH. Install Node.js with npm, and try again.")
    command = [npm, "ci", "--ignore-scripts", "--no-audit", "--no-fund", *([] if tools else ["--omit=dev"])]
    try:
        run = subprocess.run(command, cwd=folder, capture_output=True, text=True, timeout=NPM_SECONDS, check=False)
    except subprocess.TimeoutExpired as error:
        raise Failed(f"npm did not end within {NPM_SECONDS} seconds. Is its registry reachable?") from error
    if run.returncode:
        raise Failed(f"npm could not install what the page loads:\n{(run.stderr or run.stdout).strip()[-2000:]}")
    return folder / "node_modules"


def _versions() -> dict[str, str]:
    packages = json.loads((INPUTS / "package-lock.json").read_text(encoding="utf-8"))["packages"]
    return {path.removeprefix("node_modules/"): it["version"] for path, it in packages.items() if path}


def _sha256(path: Path) -> str:
    return hashlib.sha256(path.read_bytes()).hexdigest()


if __name__ == "__main__":
    try:
        if not complete():
            fetch()
    except Failed as failed:
        sys.exit(str(failed))
