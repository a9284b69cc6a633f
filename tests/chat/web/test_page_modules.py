"""The modules of the page that need no browser, by their own tests, and what the page is built with."""

from __future__ import annotations

import hashlib
import importlib.util
import json
import os
import re
import shutil
import subprocess
from pathlib import Path
from types import ModuleType

import pytest
from effort import SOAK

from penstock.sinks.text.styles import exit_words

ROOT = Path(__file__).parents[3]
PAGE = ROOT / "src" / "penstock" / "chat" / "page"
VENDOR = PAGE / "vendor"
UNITS = ROOT / "tests" / "page" / "unit"
NODE = shutil.which("node")
SLOW = {"lists in a line"}
"""Replies that are parsed in a soak alone: this one takes longer than all others, and one of numbers nests as deep."""
NEED_PACKAGES = {"export.test.js", "markdown.test.js", "parser.test.js", "state.test.js", "tables.test.js"}


def module(name: str, path: Path) -> ModuleType:
    """A module that is in no package."""
    spec = importlib.util.spec_from_file_location(name, path)
    assert spec is not None
    assert spec.loader is not None
    loaded = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(loaded)
    return loaded


@pytest.fixture(scope="module")
def copied(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A copy of the page and of its tests: an older Node reads a file as a module only if a package.json says so."""
    folder = tmp_path_factory.mktemp("node")
    shutil.copytree(PAGE, folder / "src/penstock/chat/page")
    shutil.copytree(UNITS, folder / "tests/page/unit")
    (folder / "package.json").write_text('{"type": "module"}', "utf-8")
    fuzz = module("page_fuzz", ROOT / "tests/support/chatpage/fuzz.py")
    chosen = {name: text for name, text in fuzz.replies().items() if SOAK or name not in SLOW}
    replies = {name: {"text": text, "words": fuzz.words(name)} for name, text in chosen.items()}
    (folder / "fuzz.json").write_text(json.dumps(replies), "utf-8")
    return folder


@pytest.mark.sample(9)
@pytest.mark.skipif(NODE is None, reason="there is no node")
@pytest.mark.parametrize("unit", sorted(path.name for path in UNITS.glob("*.test.js")))
@pytest.mark.slow
def test_modules_in_node(unit: str, copied: Path) -> None:
    """Each test of a module passes in Node, without any package but those that the page loads."""
    if unit in NEED_PACKAGES and not (VENDOR / "marked.js").is_file():
        pytest.skip("what the page loads is not there; `make page` fetches it")
    command = [str(NODE), "--import", "./tests/page/unit/imports.mjs", "--test", f"tests/page/unit/{unit}"]
    env = {**os.environ, "PENSTOCK_FUZZ": str(copied / "fuzz.json")}
    run = subprocess.run(command, cwd=copied, env=env, capture_output=True, text=True, timeout=120, check=False)
    assert run.returncode == 0, run.stdout[-4000:]
    assert re.search(r"^# pass [1-9]", run.stdout, re.MULTILINE)


@pytest.mark.skipif(NODE is None, reason="there is no node")
def test_a_failed_command_has_the_same_words_in_the_terminal(copied: Path) -> None:
    """The page says of an exit status what the terminal says of it."""
    statuses = [1, 2, 127, 130, 255, -9]
    code = f"""import {{ exitWords }} from "./src/penstock/chat/page/text/format.js";
    console.log(JSON.stringify({statuses}.map(exitWords)));"""
    command = [str(NODE), "--input-type=module", "--eval", code]
    run = subprocess.run(command, cwd=copied, capture_output=True, text=True, timeout=120, check=True)
    assert json.loads(run.stdout) == [exit_words(status) for status in statuses]


@pytest.fixture
def vendor() -> ModuleType:
    """The script that fetches what the page loads."""
    return module("page_vendor", ROOT / "page" / "vendor.py")


def fill(vendor: ModuleType, folder: Path) -> dict[str, dict[str, str]]:
    """Make a folder with a file for each that the page loads, and its manifest; gives what the manifest says."""
    for name in vendor.FILES:
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        (folder / name).write_text(name, "utf-8")
    stated: dict[str, dict[str, str]] = vendor._manifest(folder)
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
    for fact, other in (("version", "1.0.0"), ("integrity", "sha512-other"), ("package", "htm"), ("path", "a.js")):
        fill(vendor, tmp_path)
        changed = {**stated, "marked.js": {**stated["marked.js"], fact: other}}
        (tmp_path / vendor.MANIFEST).write_text(json.dumps({"files": changed}), "utf-8")
        assert not vendor.complete(tmp_path)


def test_the_types_of_the_api_are_those_of_its_document() -> None:
    """The page is checked against the API as it is: `make page-types` writes its types anew."""
    types = module("page_api_types", ROOT / "page" / "api_types.py")
    assert types.TYPES.read_text("utf-8") == types.generate()


def test_types_are_made_of_each_form_of_a_schema() -> None:
    """References, values, choices, lists and fields that may be absent have their types."""
    types = module("page_api_types", ROOT / "page" / "api_types.py")
    fields = {
        "a": {"$ref": "#/components/schemas/Other"},
        "b": {"anyOf": [{"type": "integer"}, {"type": "null"}], "default": None},
        "c": {"type": "array", "items": {"enum": ["x", "y"]}},
    }
    lines = types._interface("Some", {"properties": fields, "required": ["a", "c"]})
    assert "\n".join(lines).split("\n") == [
        "  interface Some {",
        "    a: Other;",
        "    b?: number | null;",
        '    c: Array<"x" | "y">;',
        "  }",
    ]


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


def import_map() -> dict[str, str]:
    """The page's import map: the name of a module, or the beginning of names, and its address."""
    [text] = re.findall(r'<script type="importmap">(.*?)</script>', (PAGE / "index.html").read_text("utf-8"), re.DOTALL)
    imports: dict[str, str] = json.loads(text)["imports"]
    return imports


def test_the_page_loads_only_files_that_are_there(vendor: ModuleType) -> None:
    """Each module that a module imports is a file of the page, or a name of the import map."""
    names = import_map()
    for path in PAGE.rglob("*.js"):
        if path.is_relative_to(vendor.VENDOR):
            continue
        for target in re.findall(r'(?:from |import )"([^"]+)"', path.read_text("utf-8")):
            is_file = target.startswith(".") and (path.parent / target).is_file()
            assert is_file or target in names, f"{path.name}: {target}"


def test_the_import_map_leads_to_vendored_files(vendor: ModuleType) -> None:
    """Each address of the import map is a vendored module, or the folder of some; preact is three of them."""
    names = import_map()
    assert {"preact", "preact/hooks", "htm"} <= names.keys()
    for address in names.values():
        file = address.removeprefix("/vendor/")
        assert file in vendor.FILES or any(name.startswith(file) for name in vendor.FILES if file.endswith("/"))
    for name in [name for name in vendor.FILES if name.endswith(".js")]:
        assert any(f"/vendor/{name}".startswith(address) for address in names.values()), f"{name} is never loaded"


def test_the_import_map_stands_before_any_module() -> None:
    """A browser ignores an import map, or refuses it, once a module is being loaded."""
    html = (PAGE / "index.html").read_text("utf-8")
    first = html.index('<script type="importmap">')
    assert all(found.start() > first for found in re.finditer(r'modulepreload|type="module"', html))


@pytest.mark.skipif(not (VENDOR / "manifest.json").is_file(), reason="`make page` fetches what the page loads")
def test_vendored_files_are_those_of_the_lock_file(vendor: ModuleType) -> None:
    """Each vendored file has the bytes that were copied from the package whose integrity the lock file names."""
    stated = json.loads((VENDOR / vendor.MANIFEST).read_text("utf-8"))["files"]
    locked = json.loads((ROOT / "page/package-lock.json").read_text("utf-8"))["packages"]
    assert stated.keys() == vendor.FILES.keys()
    assert {path.relative_to(VENDOR).as_posix() for path in VENDOR.rglob("*") if path.is_file()} == {
        *stated,
        vendor.MANIFEST,
    }
    for name, facts in stated.items():
        assert facts["sha256"] == hashlib.sha256((VENDOR / name).read_bytes()).hexdigest(), name
        assert facts["integrity"] == locked[f"node_modules/{facts['package']}"]["integrity"], name


def test_languages_that_the_page_names_are_fetched(vendor: ModuleType) -> None:
    """The page highlights the languages that the build fetches: no more, and no fewer."""
    source = (PAGE / "markdown/languages.js").read_text("utf-8")
    table = source[source.index("const LANGUAGES") : source.index("const OWN_NAMES")]
    assert tuple(re.findall(r"^  (\w+): \[", table, re.MULTILINE)) == vendor.LANGUAGES


def test_the_page_of_a_share_imports_what_the_page_does() -> None:
    """Both pages name the same files, as browsers load no import map from a file."""

    def imports(name: str) -> dict[str, str]:
        (text,) = re.findall(r'<script type="importmap">(.*?)</script>', (PAGE / name).read_text("utf-8"), re.DOTALL)
        found: dict[str, str] = json.loads(text)["imports"]
        return found

    assert imports("shared.html") == imports("index.html")
