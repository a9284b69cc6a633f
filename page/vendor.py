"""Copy the files that the page loads from npm packages into the package: `python page/vendor.py`, or `make page`.

npm installs the packages of the lock file beside this module and checks their integrity. The files are copied byte by
byte, none is built or run here, into a folder that is not committed. The wheel contains it, so installing Penstock
needs no Node.
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

LICENSES = INPUTS / "licenses"
"""Folder with the licences of the packages, which the metadata of the wheel names: unlike the rest, it is committed."""

MANIFEST = "manifest.json"
"""Names the package of each file, its path there, that package's version and integrity, and the file's own SHA-256.

It is written last, so a folder that contains it is complete.
"""

NPM_SECONDS = 300
"""Time limit of one npm call, in seconds: a registry that responds at all is done long before."""

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
"""Names of the languages that the page highlights; the page's `highlight.js` maps their other names to these."""

FILES = {
    "preact.js": ("preact", "dist/preact.module.js"),
    "preact-hooks.js": ("preact", "hooks/dist/hooks.module.js"),
    "preact.LICENSE": ("preact", "LICENSE"),
    "htm.js": ("htm", "dist/htm.module.js"),
    "htm.LICENSE": ("htm", "LICENSE"),
    "marked.js": ("marked", "lib/marked.esm.js"),
    "marked.LICENSE": ("marked", "LICENSE"),
    "dompurify.js": ("dompurify", "dist/purify.min.js"),
    "dompurify.LICENSE": ("dompurify", "LICENSE"),
    "temml.js": ("temml", "dist/temml.mjs"),
    "temml.LICENSE": ("temml", "LICENSE"),
    "uqr.js": ("uqr", "dist/index.mjs"),
    "uqr.LICENSE": ("uqr", "LICENSE"),
    "highlight/core.js": ("@highlightjs/cdn-assets", "es/core.min.js"),
    "highlight/LICENSE": ("@highlightjs/cdn-assets", "LICENSE"),
    **{f"highlight/{name}.js": ("@highlightjs/cdn-assets", f"es/languages/{name}.min.js") for name in LANGUAGES},
}
"""File name in the folder → the package it comes from, and its path in that package."""


class Failed(Exception):
    """The files cannot be fetched; the message says why, and what helps."""


def complete(vendor: Path = VENDOR) -> bool:
    """Return whether the folder contains the files of the locked packages, unchanged."""
    try:
        stated = json.loads((vendor / MANIFEST).read_text(encoding="utf-8"))["files"]
        return bool(stated == _manifest(vendor))
    except (OSError, ValueError, KeyError, TypeError):
        return False


def fetch(vendor: Path = VENDOR) -> None:
    """Fill the folder from npm.

    Raises:
        Failed: npm is missing, or it failed.
    """
    with tempfile.TemporaryDirectory() as folder:
        modules = install(Path(folder))
        made = Path(folder) / "vendor"
        for name, (package, path) in FILES.items():
            (made / name).parent.mkdir(parents=True, exist_ok=True)
            try:
                shutil.copyfile(modules / package / path, made / name)
            except OSError as error:
                raise Failed(f"{package} {locked()[package]['version']} has no {path}: {error}") from error
        check_licenses(made)
        (made / MANIFEST).write_text(json.dumps({"files": _manifest(made)}, indent=1) + "\n", encoding="utf-8")
        shutil.rmtree(vendor, ignore_errors=True)
        shutil.copytree(made, vendor)


def check_licenses(vendor: Path) -> None:
    """Compare the licences of the packages with the committed ones.

    Raises:
        Failed: one has changed, and somebody has to read it.
    """
    for name, (package, _) in FILES.items():
        if name.endswith("LICENSE"):
            committed = LICENSES / f"{name.split('LICENSE')[0].rstrip('./')}.txt"
            if not committed.exists() or committed.read_bytes() != (vendor / name).read_bytes():
                raise Failed(f"The licence of {package} has changed: read it, then copy it to page/licenses.")


def install(folder: Path, *, tools: bool = False) -> Path:
    """Install the packages of the lock file in a folder and return its `node_modules`.

    `tools` adds the packages that only checks and tests use.

    Raises:
        Failed: npm is missing, or it failed.
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


def locked() -> dict[str, dict[str, str]]:
    """Return the lock file's entry of each package, by its name."""
    packages = json.loads((INPUTS / "package-lock.json").read_text(encoding="utf-8"))["packages"]
    return {path.removeprefix("node_modules/"): entry for path, entry in packages.items() if path}


def _manifest(folder: Path) -> dict[str, dict[str, str]]:
    packages = locked()
    return {
        name: {
            "package": package,
            "path": path,
            "version": packages[package]["version"],
            "integrity": packages[package]["integrity"],
            "sha256": _sha256(folder / name),
        }
        for name, (package, path) in FILES.items()
    }


def _sha256(path: Path) -> str:
    return hashlib.sha256(path.read_bytes()).hexdigest()


if __name__ == "__main__":
    try:
        if not complete():
            fetch()
    except Failed as failed:
        sys.exit(str(failed))
