"""What a publisher needs: addresses, licences, pinned versions, a bill of materials, the page of a package index."""

from __future__ import annotations

import importlib.metadata
import importlib.util
import json
import re
import shutil
import subprocess
import tomllib
from pathlib import Path
from types import ModuleType
from typing import Any
from xml.etree import ElementTree

import pytest
from packaging.requirements import Requirement

from penstock._version import DISTRIBUTION, __version__

ROOT = Path(__file__).parents[2]
PYPROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text("utf-8"))
PROJECT = PYPROJECT["project"]
LOCK = json.loads((ROOT / "page" / "package-lock.json").read_text("utf-8"))["packages"]
ADDRESSES = (ROOT / "packaging" / "ADDRESSES.md").read_text("utf-8")
CONSTRAINTS = (ROOT / "constraints.txt").read_text("utf-8")
MARKER = "For the publisher"
GIVEN: dict[str, Any] = {
    "repository": "https://forge.example/org/penstock.git/",
    "contact": "security@forge.example",
    "reviewers": "@org/team",
    "site": "https://docs.forge.example",
    "name": "penstock-streams",
}


def load(path: str) -> ModuleType:
    """A script of the repository as a module."""
    spec = importlib.util.spec_from_file_location(Path(path).stem, ROOT / path)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


addresses, index_page, sbom, vendor = map(
    load, ("packaging/addresses.py", "packaging/index_page.py", "packaging/sbom.py", "page/vendor.py")
)


def tracked() -> list[str]:
    """The text files of the repository, without recordings."""
    done = subprocess.run(["git", "ls-files", "-z"], cwd=ROOT, capture_output=True, text=True, check=False)
    if done.returncode:
        pytest.skip("not a clone")
    names = [name for name in done.stdout.split("\0") if name and not name.startswith("tests/")]
    return [name for name in names if (ROOT / name).suffix not in (".png", ".svg", ".ansi", ".gz")]


# --- addresses ---


@pytest.fixture
def clone(tmp_path: Path) -> Path:
    """A copy of the files that have no address yet."""
    for name in tracked():
        if not name.startswith(("bench/", "src/")) or name == "src/penstock/_version.py":
            (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
            shutil.copy(ROOT / name, tmp_path / name)
    return tmp_path


def contents(folder: Path) -> dict[str, bytes]:
    """Each file below a folder."""
    return {str(path.relative_to(folder)): path.read_bytes() for path in folder.rglob("*") if path.is_file()}


def test_all_addresses_are_written_by_one_command(clone: Path) -> None:
    """Afterwards the metadata has them, and only the changelog and the list itself have something to fill in."""
    changed = addresses.fill(clone, **GIVEN)
    project = tomllib.loads((clone / "pyproject.toml").read_text("utf-8"))["project"]
    assert project["name"] == "penstock-streams"
    assert project["urls"] == {
        "Source": "https://forge.example/org/penstock",
        "Issues": "https://forge.example/org/penstock/issues",
        "Changelog": "https://forge.example/org/penstock/blob/main/CHANGELOG.md",
        "Documentation": "https://docs.forge.example",
    }
    left = {
        name
        for name, data in contents(clone).items()
        if re.search(rb"For the publisher|OWNER|\xe2\x80\xa6/penstock", data)
    }
    assert left <= {"CHANGELOG.md", "packaging/ADDRESSES.md", "packaging/addresses.py"}
    assert "git clone https://forge.example/org/penstock && cd penstock\n" in (clone / "README.md").read_text("utf-8")
    assert "Write to <mailto:security@forge.example>." in (clone / "SECURITY.md").read_text("utf-8")
    for name in changed:
        assert name in ADDRESSES, f"packaging/ADDRESSES.md does not list {name}"


def test_addresses_are_written_once(clone: Path) -> None:
    """A second time is an error that changes nothing, even if only the last place was filled in before."""
    addresses.fill(clone, **GIVEN)
    before = contents(clone)
    with pytest.raises(addresses.Missing, match=r"pyproject\.toml has no"):
        addresses.fill(clone, **GIVEN)
    assert contents(clone) == before


@pytest.mark.parametrize(
    "wrong",
    [
        {"repository": "http://forge.example/org/penstock"},
        {"repository": "https://forge.example"},
        {"repository": 'https://forge.example/org/penstock"\nx = "1'},
        {"contact": 'me"\nother: "you'},
        {"reviewers": "@a\n* @b"},
        {"site": 'https://a"'},
        {"name": "two words"},
        {"name": "-e"},
    ],
    ids=str,
)
def test_what_is_no_address_changes_nothing(clone: Path, wrong: dict[str, str]) -> None:
    """An address that could add other lines to a file, or is none, is an error."""
    before = contents(clone)
    with pytest.raises(ValueError, match=r"is not the address|cannot be|has a character"):
        addresses.fill(clone, **GIVEN | wrong)
    assert contents(clone) == before


def test_every_place_that_waits_is_listed() -> None:
    """`packaging/ADDRESSES.md` names each file that leaves something to the publisher."""
    for name in tracked():
        if MARKER in (ROOT / name).read_text("utf-8", "replace"):
            assert name in ADDRESSES or name.startswith("packaging/"), name


def test_the_name_is_in_two_places_that_agree() -> None:
    """The package knows by which name it was installed."""
    assert PROJECT["name"] == DISTRIBUTION


# --- the registry of ACP ---


def test_the_entry_of_the_registry(clone: Path) -> None:
    """It has what the schema of the registry asks for, names this version, and starts a command that exists."""
    entry = json.loads((ROOT / "packaging" / "acp" / "agent.json").read_text("utf-8"))
    required = {"id", "name", "version", "description", "license_url", "distribution"}
    assert required <= set(entry) <= required | {"repository", "website", "authors", "license"}
    assert re.fullmatch(r"[a-z][a-z0-9-]*", entry["id"])
    assert re.fullmatch(r"\d+\.\d+\.\d+", entry["version"])
    assert entry["version"] == __version__
    assert entry["distribution"] == {"uvx": {"package": f"{DISTRIBUTION}=={__version__}", "args": ["acp"]}}
    assert [*PROJECT["scripts"]] == [DISTRIBUTION]
    assert entry["license"] == (ROOT / "LICENSE").read_text("utf-8").split()[0]
    addresses.fill(clone, **GIVEN)
    filled = json.loads((clone / "packaging" / "acp" / "agent.json").read_text("utf-8"))
    assert filled["repository"] == "https://forge.example/org/penstock"
    assert filled["license_url"] == "https://forge.example/org/penstock/blob/main/LICENSE"
    assert filled["distribution"]["uvx"] == {
        "package": f"penstock-streams=={__version__}", "cmd": "penstock", "args": ["acp"],
    }  # fmt: skip


def test_the_icon_of_the_registry() -> None:
    """It is a square of 16 pixels, in the one colour of the text around it."""
    icon = ElementTree.parse(ROOT / "packaging" / "acp" / "icon.svg").getroot()
    assert [icon.get(name) for name in ("width", "height", "viewBox")] == ["16", "16", "0 0 16 16"]
    colours = {it.get(name) for it in icon.iter() for name in ("fill", "stroke")} - {None}
    assert colours == {"none", "currentColor"}


# --- the page of an index ---


def test_the_page_of_an_index_has_no_paths() -> None:
    """Without a repository its links are text; with one they lead to the files of that version."""
    readme = (ROOT / "README.md").read_text("utf-8")
    paths = [match[3] for match in index_page.LINK.finditer(readme)]
    assert "docs/terminal.svg" in paths
    assert all((ROOT / path.partition("#")[0]).exists() for path in paths)
    plain = index_page.index_page(readme, None, "1.2")
    assert not re.search(r"\]\((?!https?:|#)", plain)
    assert "![" not in plain
    assert "The quickstart takes two minutes." in plain
    linked = index_page.index_page(readme, "https://forge.example/org/penstock", "1.2")
    assert "](https://forge.example/org/penstock/raw/v1.2/docs/terminal.svg)" in linked
    assert "[The quickstart](https://forge.example/org/penstock/blob/v1.2/docs/quickstart.md)" in linked
    assert not re.search(r"\]\((?!https?:|#)", linked)


# --- licences ---


def test_the_licence_names_what_the_page_loads() -> None:
    """The expression has the licence of each package of npm whose files are in the wheel, and its text is included."""
    packages = {package for package, _ in vendor.FILES.values()}
    parts = set(PROJECT["license"].split(" AND "))
    assert parts == {"MIT"} | {vendor.locked()[package]["license"] for package in packages}
    assert PROJECT["license-files"] == ["LICENSE", "page/licenses/*.txt"]
    texts = {f"{name.split('LICENSE')[0].rstrip('./')}.txt" for name in vendor.FILES if name.endswith("LICENSE")}
    assert texts == {path.name for path in (ROOT / "page" / "licenses").iterdir()}
    assert {vendor.FILES[name][0] for name in vendor.FILES if name.endswith("LICENSE")} == packages
    assert not [line for line in PROJECT["classifiers"] if line.startswith("License")]


def test_a_licence_that_changed_is_read_first(tmp_path: Path) -> None:
    """The page is not built with a package whose licence nobody has read."""
    for name in vendor.FILES:
        if name.endswith("LICENSE"):
            (tmp_path / name).parent.mkdir(exist_ok=True)
            stem = name.split("LICENSE")[0].rstrip("./")
            shutil.copy(ROOT / "page" / "licenses" / f"{stem}.txt", tmp_path / name)
    vendor.check_licenses(tmp_path)
    (tmp_path / "marked.LICENSE").write_text("Pay.")
    with pytest.raises(vendor.Failed, match="licence of marked has changed"):
        vendor.check_licenses(tmp_path)


# --- pinned versions ---


def normal(name: str) -> str:
    """The name of a package as an index compares it."""
    return re.sub(r"[-_.]+", "-", name).lower()


def pins(text: str) -> dict[str, str]:
    """The version of each package of a file; each has a hash."""
    entries = re.split(r"\n(?=\S)", text.strip())
    found = {}
    for entry in entries:
        if not entry.startswith("#"):
            line = re.fullmatch(
                r"([\w.-]+)==([^\s;]+)(?: ; [^\\\n]+)?((?: \\\n    --hash=sha256:[0-9a-f]{64})+)", entry
            )
            assert line is not None, entry
            found[normal(line[1])] = line[2]
    return found


def needs(lines: list[str], known: dict[str, str]) -> None:
    """Check that each package, and what it needs itself as it is installed here, is pinned to an allowed version."""
    todo, seen = list(map(Requirement, lines)), set()
    while todo:
        one = todo.pop()
        name = normal(one.name)
        assert name in known, f"{one} is not pinned: make constraints"
        assert one.specifier.contains(known[name], prereleases=True), (
            f"{one} is pinned to {known[name]}: make constraints"
        )
        if (name, *sorted(one.extras)) in seen:
            continue
        seen.add((name, *sorted(one.extras)))
        try:
            found = importlib.metadata.requires(name) or []
        except importlib.metadata.PackageNotFoundError:
            continue  # of another platform, or a tool that is not installed here
        if importlib.metadata.version(name) == known[name]:
            more = map(Requirement, found)
            todo += [
                need
                for need in more
                if not need.marker or any(need.marker.evaluate({"extra": x}) for x in ("", *one.extras))
            ]


def test_the_pinned_versions_are_in_step() -> None:
    """`constraints.txt` has a version for each package that an installation with all extras needs, and its hashes."""
    extras = [line for extra in PROJECT["optional-dependencies"].values() for line in extra]
    needs([*PROJECT["dependencies"], *extras], pins(CONSTRAINTS))
    needs(PYPROJECT["dependency-groups"]["release"], pins((ROOT / "packaging" / "tools.txt").read_text("utf-8")))


def test_a_version_that_is_not_pinned_is_found() -> None:
    """The check above fails for a new package, and for a range that has moved."""
    known = pins(CONSTRAINTS)
    with pytest.raises(AssertionError, match="is not pinned"):
        needs(["rich>=13"], known)
    with pytest.raises(AssertionError, match="is pinned to"):
        needs(["httpx>=99"], known)


# --- the bill of materials ---


def test_the_bill_of_materials() -> None:
    """It has each pinned package and each package of the page, once, and no tool of the developers."""
    bill = sbom.bill()
    found = {part["purl"] for part in bill["components"]}
    assert len(found) == len(bill["components"])
    assert {f"pkg:pypi/{name}@{version}" for name, version in pins(CONSTRAINTS).items()} <= found
    packages = {package for package, _ in vendor.FILES.values()}
    wanted = {f"pkg:npm/{name.replace('@', '%40')}@{LOCK[f'node_modules/{name}']['version']}" for name in packages}
    assert {one for one in found if one.startswith("pkg:npm/")} == wanted
    assert bill["dependencies"][0]["dependsOn"] == [part["bom-ref"] for part in bill["components"]]
    for part in bill["components"]:
        for digest in part.get("hashes", ()):
            assert (digest["alg"], len(digest["content"])) == ("SHA-512", 128)


# --- workflows ---


def test_actions_are_pinned() -> None:
    """Each action of a workflow is named by the id of a commit, with its tag beside it."""
    for path in (ROOT / ".github" / "workflows").glob("*.yml"):
        text = path.read_text("utf-8")
        used = re.findall(r"^ +(?:- )?uses: (.*)$", text, re.MULTILINE)
        assert used
        assert [line for line in used if not re.fullmatch(r"actions/[\w-]+@[0-9a-f]{40} # v[\d.]+", line)] == [], path


def test_no_input_is_code_of_a_workflow() -> None:
    """No script of a workflow or of the action has an expression of the forge in it: it would be executed."""
    for path in [*(ROOT / ".github" / "workflows").glob("*.yml"), ROOT / "action.yml"]:
        lines = path.read_text("utf-8").splitlines()
        for number, line in enumerate(lines):
            if "${{" in line:
                key = line.strip().removeprefix("- ").partition(":")[0]
                assert re.fullmatch(r"[A-Z_]+|group|name|runs-on|python-version|value", key), f"{path}:{number + 1}"
