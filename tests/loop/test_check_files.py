"""Files on which checks depend: what is protected, what is read, and which changes have to be looked at."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from penstock.loop.check_files import changes_to_look_at, files_of_checks, is_test
from penstock.repo.path_patterns import PathPatterns

BASE = {
    "Makefile": "include mk/*.mk\n-include local.mk\ntest:\n\tsh scripts/test.sh && tools/lint\n",
    "mk/rules.mk": "lint:\n\truff check\n",
    "local.mk": "",
    "scripts/test.sh": "exec python3.12 -m pytest\n",
    "tools/lint": "#!/bin/sh\n",
    "package.json": '{"scripts": {"test": "node run.js"}}',
    "run.js": "",
    "src/app.py": "",
    "sub/check.sh": "",
    "check": "sub/check.sh",
    "tests/test_a.py": "",
    "pages/[id].test.ts": "",
    "tests/mock/x.py": "",
    "py/__init__.py": "",
}
MODES = {path: "100755" if path == "tools/lint" else "120000" if path == "check" else "100644" for path in BASE}


def found(*checks: str) -> tuple[set[str], set[str]]:
    """Return the files of the base that are protected, and those that are read."""
    files = files_of_checks(checks, MODES, BASE.__getitem__)
    protects, reads = PathPatterns(files.protects), PathPatterns(files.reads)
    return {path for path in BASE if protects.matches(path)}, {path for path in BASE if reads.matches(path)}


MAKE = {"Makefile", "mk/rules.mk", "local.mk", "scripts/test.sh", "tools/lint"}

COMMANDS = {
    "make test": (set(), MAKE),
    "cd . && CI=1 timeout 60 /usr/bin/make -j2 test": (set(), MAKE),
    'sh -c "make test"': (set(), MAKE),
    "npm test": (set(), {"package.json", "run.js"}),
    "sh scripts/test.sh": ({"scripts/test.sh"}, set()),
    "cd sub; sh check.sh": ({"sub/check.sh"}, set()),
    "make -C sub && ./check": ({"check", "sub/check.sh"}, MAKE),
    "pytest 'tests/test_a.py::test_x'": ({"tests/test_a.py"}, set()),
    "npx jest 'pages/[id].test.ts'": ({"pages/[id].test.ts"}, {"package.json", "run.js"}),
    "true": (set(), set()),
    "echo 'unclosed": (set(), set()),
    "": (set(), set()),
}


@pytest.mark.parametrize("command", COMMANDS)
def test_files_of_a_command(command: str) -> None:
    """What a command names is protected; what its programs read, and what these files start, is read."""
    assert found(command) == COMMANDS[command]


def test_what_a_program_of_a_build_file_reads_counts_too() -> None:
    """A Makefile that starts a script that starts pytest depends on the settings of pytest, and of the linter."""
    patterns = PathPatterns(files_of_checks(["make"], MODES, BASE.__getitem__).reads)
    assert all(map(patterns.matches, ("pytest.ini", "a/conftest.py", "ruff.toml", "GNUmakefile", "a/.gitattributes")))
    assert not any(map(patterns.matches, ("package.json", "src/app.py")))


def test_names_of_the_test_programs_are_protected_but_for_those_of_the_base() -> None:
    """Nothing new is imported in place of the program that tests; a package that the base has may be worked on."""
    patterns = PathPatterns(files_of_checks(["python3 -m unittest"], MODES, BASE.__getitem__).protects)
    planted = "unittest.py", "unittest/__init__.py", "src/sitecustomize.py", "tests/pytest.cpython-311-x.so"
    assert all(map(patterns.matches, planted))
    assert not any(map(patterns.matches, ("py/new.py", "app/unittest.py", "src/unit.py", "calendar.py")))


def test_files_of_a_command_in_a_directory_below() -> None:
    """A check that runs in a directory of the repository names files from there, also with a space in its name."""
    modes = dict.fromkeys(("my app/check.sh", "my app/Makefile", "my app/scripts/a.sh"), "100644")
    texts = {"my app/Makefile": "test:\n\tsh scripts/a.sh && pytest\n"}
    files = files_of_checks(["sh check.sh", "make"], modes, lambda path: texts.get(path, ""), "my app")
    assert PathPatterns(files.protects).matches("my app/check.sh")
    assert PathPatterns(files.protects).matches("my app/pytest.py")
    assert "my app/scripts/a.sh" in files.reads


def look_at(
    old: dict[str, str], new: dict[str, str], check: str = "pytest; npm test; cargo test; go test"
) -> list[str]:
    """Return the paths to look at, in their order, with a star if a check reads them."""
    changes = [
        (path, "A" if path not in old else "D" if path not in new else "M")
        for path in sorted(old.keys() | new.keys())
        if old.get(path) != new.get(path)
    ]
    reads = files_of_checks([check], dict.fromkeys(old, "100644"), old.__getitem__).reads

    def read(path: str, of_result: bool) -> bytes:
        return (new if of_result else old)[path].encode()

    return [one.path + "*" * one.is_read for one in changes_to_look_at(changes, reads, read)]


PARTS = {
    "package.json": ('{"scripts": {"test": "jest"}}', '{"scripts": {"test": "true"}}', '{"version": "2", "scripts": '
        '{"test": "jest"}, "dependencies": {"a": "1"}}'),
    "a/package.json": ('{"scripts": {"target": "jest"}}', '{"scripts": {"target": "true"}}', '{"scripts": {"target": '
        '"jest"}, "name": "b"}'),
    "pyproject.toml": ("[tool.pytest]\na = 1", "[tool.pytest]\na = 2", "[project]\nname = 'x'\n[tool.pytest]\na = 1\n"
        "[tool.poetry.dependencies]\nb = '1'"),
    "setup.cfg": ("[tool:pytest]\na = 1", "[tool:pytest]\na = 2", "[metadata]\nname = x\n[tool:pytest]\na = 1"),
    "Cargo.toml": ("[lib]\nname = 'x'", "[lib]\ntest = false", "[lib]\nname = 'x'\n[dependencies]\nserde = '1'"),
    "go.mod": ("module x", "module x\nreplace a => ./b", "module x\nrequire a v1"),
}  # fmt: skip


@pytest.mark.parametrize("path", PARTS)
def test_what_a_project_needs_is_no_change_of_its_checks(path: str) -> None:
    """A new dependency or version is not named; another script, setting or target is."""
    old, cheat, packaging = PARTS[path]
    assert look_at({path: old}, {path: cheat}) == [f"{path}*"]
    assert look_at({path: old}, {path: packaging}) == []
    assert look_at({path: old}, {path: "{ broken [ toolchain"}) == [f"{path}*"]
    assert look_at({}, {path: packaging}) == [f"{path}*"]
    assert look_at({path: old}, {}) == [f"{path}*"]


def test_the_order_of_what_is_named() -> None:
    """What the checks read comes first, then changed and removed tests, then new ones; other files are not named."""
    old = {"Makefile": "a", "tests/a.py": "a", "tests/b.py": "b", "src/app.py": "a"}
    new = {
        "Makefile": "b",
        "tests/a.py": "c",
        "conftest.py": "",
        "src/app.py": "b",
        "src/x_test.go": "",
        "random.py": "",
    }
    expected = ["Makefile*", "conftest.py*", "random.py*", "tests/a.py", "tests/b.py", "src/x_test.go"]
    assert look_at(old, new, "make; pytest") == expected


def test_paths_of_tests() -> None:
    """The usual names of tests in many languages are known, and words that only contain them are not."""
    tests = ["test_a.py", "a/tests/b.c", "a_test.go", "a.test.tsx", "a.spec.ts", "spec/a_spec.rb", "conftest.py",
        "FooTest.java", "TestFoo.kt", "FooTests.cs", "FooIT.java", "__tests__/a.js", "a/__snapshots__/b.snap",
        "tests.py", "x.bats", "test-a.js"]  # fmt: skip
    others = ["latest.py", "contest.go", "src/testing.py", "Testament.java", "attest/a.py", "protest.ts", "spec.md"]
    assert [path for path in (*tests, *others) if is_test(path)] == tests


@given(st.text(max_size=40), st.dictionaries(st.text("ab/.", min_size=1, max_size=5), st.text(max_size=20), max_size=4))
def test_any_command_and_any_files_are_read(command: str, files: dict[str, str]) -> None:
    """Whatever the commands and the files are, what they depend on is found, and links in a circle end."""
    modes = dict.fromkeys(files, "120000")
    files_of_checks([command, "make", *files], modes, files.__getitem__)
