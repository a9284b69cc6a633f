"""The modules of the page that need no browser, by their own tests, and what the page is built with."""

from __future__ import annotations

import importlib.util
import json
import os
import re
import shutil
import subprocess
from pathlib import Path
from types import ModuleType

import pytest

ROOT = Path(__file__).parents[2]
PAGE = ROOT / "src" / "penstock" / "chat" / "page"
UNITS = ROOT / "tests" / "page" / "unit"
NODE = shutil.which("node")


def module(name: str, path: Path) -> ModuleType:
    """A module that is in no package."""
    spec = importlib.util.spec_from_file_location(name, path)
    assert spec is not None
    assert spec.loader is not None
    loaded = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(loaded)
    return loaded


@pytest.mark.skipif(NODE is None, reason="there is no node")
@pytest.mark.parametrize("unit", sorted(path.name for path in UNITS.glob("*.test.js")))
def test_modules_in_node(unit: str, tmp_path: Path) -> None:
    """Each test of a module passes in Node, without any package but those that the page loads."""
    if unit == "parser.test.js" and not (PAGE / "vendor" / "marked.js").is_file():
        pytest.skip("what the page loads is not there; `make page` fetches it")
    # Copies: an older Node reads a file as a module only where a package.json says so.
    shutil.copytree(PAGE, tmp_path / "src/penstock/chat/page")
    shutil.copytree(UNITS, tmp_path / "tests/page/unit")
    (tmp_path / "package.json").write_text('{"type": "module"}', "utf-8")
    fuzz = module("page_fuzz", ROOT / "tests/page/chatpage/fuzz.py")
    replies = {name: {"text": text, "words": fuzz.words(name)} for name, text in fuzz.replies().items()}
    (tmp_path / "fuzz.json").write_text(json.dumps(replies), "utf-8")
    command = [str(NODE), "--test", f"tests/page/unit/{unit}"]
    env = {**os.environ, "PENSTOCK_FUZZ": str(tmp_path / "fuzz.json")}
    run = subprocess.run(command, cwd=tmp_path, env=env, capture_output=True, text=True, timeout=120, check=False)
    assert run.returncode == 0, run.stdout[-4000:]
    assert re.search(r"^# pass [1-9]", run.stdout, re.MULTILINE)


@pytest.fixture
def vendor() -> ModuleType:
    """The script that fetches what the page loads."""
    return module("page_vendor", ROOT / "page" / "vendor.py")


def fill(vendor: ModuleType, folder: Path) -> dict[str, dict[str, str]]:
    """Make a folder with a file for each that the page loads, and its manifest; gives what the manifest says."""
    versions = vendor._versions()
    stated = {}
    for name, (package, _) in vendor.FILES.items():
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        (folder / name).write_text(name, "utf-8")
        stated[name] = {
            "package": package,
            "version": versions[package],
            "sha256": vendor._sha256(folder / name),
        }
    (folder / vendor.MANIFEST).write_text(json.dumps({"files": stated}), "utf-8")
    return stated


def test_a_folder_is_whole_or_not(vendor: ModuleType, tmp_path: Path) -> None:
    """A build takes a folder as it is only if no file is missing, changed, or of another version."""
    assert not vendor.complete(tmp_path)
    stated = fill(vendor, tmp_path)
    assert vendor.complete(tmp_path)
    (tmp_path / "marked.js").write_text("changed", "utf-8")
    assert not vendor.complete(tmp_path)
    fill(vendor, tmp_path)
    (tmp_path / "highlight/core.js").unlink()
    assert not vendor.complete(tmp_path)
    fill(vendor, tmp_path)
    stated["marked.js"]["version"] = "1.0.0"
    (tmp_path / vendor.MANIFEST).write_text(json.dumps({"files": stated}), "utf-8")
    assert not vendor.complete(tmp_path)


def test_without_npm_the_way_out_is_told(vendor: ModuleType, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Where npm is needed and missing, the message says what to install."""
    monkeypatch.setenv("PATH", str(tmp_path))
    with pytest.raises(vendor.Failed, match=r"Install Node\.js with npm"):
        vendor.fetch(tmp_path / "vendor")
    assert not (tmp_path / "vendor").exists()


def test_the_lock_file_names_exact_versions_and_no_registry() -> None:
    """What is fetched is what was locked, by its checksum, from whatever registry npm is set up with."""
    wanted = json.loads((ROOT / "page/package.json").read_text("utf-8"))
    locked = json.loads((ROOT / "page/package-lock.json").read_text("utf-8"))["packages"]
    for name, version in {**wanted["dependencies"], **wanted["devDependencies"]}.items():
        assert locked[f"node_modules/{name}"]["version"] == version
    packages = [it for path, it in locked.items() if path]
    assert all("integrity" in it and "resolved" not in it for it in packages)


def test_the_page_loads_only_files_that_are_there(vendor: ModuleType) -> None:
    """Each module that a module imports is a file of the page, or one that the build puts there."""
    for path in [*PAGE.glob("*.js"), *PAGE.glob("views/*.js")]:
        for target in re.findall(r'from "(\.[^"]+)"', path.read_text("utf-8")):
            file = (path.parent / target).resolve()
            is_vendored = file.is_relative_to(vendor.VENDOR) and str(file.relative_to(vendor.VENDOR)) in vendor.FILES
            assert is_vendored or file.is_file(), f"{path.name}: {target}"


def test_languages_that_the_page_names_are_fetched(vendor: ModuleType) -> None:
    """The page highlights the languages that the build fetches: no more, and no fewer."""
    source = (PAGE / "highlight.js").read_text("utf-8")
    table = source[source.index("const LANGUAGES") : source.index("const OWN_NAMES")]
    assert tuple(re.findall(r"^  (\w+): \[", table, re.MULTILINE)) == vendor.LANGUAGES
