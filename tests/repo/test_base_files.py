"""Protected files are put back byte by byte, whatever an agent left in the tree."""

from __future__ import annotations

import os
import shlex
import subprocess
import sys
from pathlib import Path

import pytest
from git_repository import UserRepository, files_of
from hypothesis import example, given
from hypothesis import strategies as st

from penstock.errors import UsageError
from penstock.repo.base_files import MAX_DEPTH, BaseFiles
from penstock.repo.path_patterns import PathPatterns
from penstock.repo.staging import stage
from penstock.repo.tree import Tree

CHECK = "check.sh"
TEXT = "! grep -n x notes\n"


def agent(tree: Tree, script: str) -> str:
    """Run a shell script in the tree, as an agent would."""
    done = subprocess.run(["sh", "-c", script], cwd=tree.path, capture_output=True, text=True)
    return done.stdout + done.stderr


def put_back(tree: Tree, *patterns: str) -> list[str]:
    """Put files back as those of the base, stage all changes, and return the paths that differed."""
    base = BaseFiles(tree, tree.record.base, patterns)
    changed = base.put_back()
    stage(tree.git)
    base.stage()
    return changed


def committed(tree: Tree, path: str) -> str:
    """Return the blob that a commit of the tree would have at a path, as its id."""
    return tree.git.text("ls-files", "--stage", "--", path).split()[1]


@pytest.fixture
def tree(user: UserRepository, home: Path) -> Tree:
    """Make a tree of a repository with a check and its neighbours."""
    user.commit("Check", {CHECK: TEXT, "src/check.sh": TEXT, "notes": "y\n"})
    user.git("update-index", "--chmod=+x", CHECK)
    (user.root / CHECK).chmod(0o755)
    user.git("commit", "-qm", "Run it")
    return user.tree(home)


ATTRIBUTES = {
    "line endings": ("*.sh text", "printf '! grep -n x notes\\r\\n'"),
    "line endings of a level below": ("*.sh text", "printf '! grep -n x notes\\r\\n'"),
    "UTF-16": ("*.sh working-tree-encoding=UTF-16LE", "printf '! grep -n x notes\\n' | iconv -t UTF-16LE"),
    "eol": ("*.sh text eol=crlf", "printf '! grep -n x notes\\r\\n'"),
    "nothing but the attributes": ("*.sh text eol=crlf", "cat"),
    "ident": ("*.sh ident", "printf '! grep -n x notes\\n#$Id: 12 $\\n'"),
    "unset": ("*.sh -text -diff", "printf '! grep -n x notes\\r\\n'"),
    "a macro": ("[attr]mine text eol=crlf\n*.sh mine", "printf '! grep -n x notes\\r\\n'"),
    "an encoding that there is none of": ("*.sh working-tree-encoding=bogus", "echo x"),
}


@pytest.mark.slow
@pytest.mark.parametrize(("attributes", "write"), ATTRIBUTES.values(), ids=ATTRIBUTES.keys())
@pytest.mark.parametrize("path", [CHECK, "src/check.sh"])
def test_attributes_of_an_agent_do_not_count(tree: Tree, attributes: str, write: str, path: str) -> None:
    """A file that attributes make equal to the base gets its bytes back, and is committed as the blob of the base."""
    (tree.path / ".gitattributes").write_text(attributes + "\n")
    (tree.path / "src" / ".gitattributes").write_text(attributes + "\n")
    agent(tree, f"{write} < {path} > new; cat new > {path}; rm new; rm src/a.py")
    base = BaseFiles(tree, tree.record.base, [CHECK, "src/*.sh"])
    base.put_back()
    assert (tree.path / path).read_bytes() == TEXT.encode()
    assert BaseFiles(tree, tree.record.base, [CHECK, "src/*.sh"]).put_back() == []
    base.stage()
    assert committed(tree, path) == tree.git.text("rev-parse", f"{tree.record.base}:{path}")


CHECKOUTS = {
    "eol=crlf of the base": ("*.sh text eol=crlf\n", {}, TEXT.replace("\n", "\r\n").encode()),
    "autocrlf of the user": ("", {"core.autocrlf": "true"}, TEXT.replace("\n", "\r\n").encode()),
    "an encoding of the base": ("*.sh working-tree-encoding=UTF-16LE\n", {}, TEXT.encode("utf-16-le")),
    "a filter of the user": (
        "*.sh filter=rot\n",
        {"filter.rot.smudge": "tr x z", "filter.rot.clean": "tr z x"},
        TEXT.replace("x", "z").encode(),
    ),
    "export-subst": ("*.sh export-subst\n", {}, TEXT.encode()),
}


@pytest.mark.slow
@pytest.mark.parametrize(("attributes", "settings", "expected"), CHECKOUTS.values(), ids=CHECKOUTS.keys())
def test_files_are_as_in_the_checkout_of_the_user(
    user: UserRepository, home: Path, attributes: str, settings: dict[str, str], expected: bytes
) -> None:
    """What the base and the user say about a file holds, also when the agent has removed the attributes."""
    for key, value in settings.items():
        user.git("config", key, value)
    user.write({".gitattributes": attributes} if attributes else {})
    (user.root / CHECK).write_bytes(expected)
    user.git("add", ".")
    user.git("commit", "-qm", "Check")
    tree = user.tree(home)
    assert (tree.path / CHECK).read_bytes() == expected
    assert put_back(tree, CHECK) == []
    agent(tree, f"rm -f .gitattributes; echo true > {CHECK}")
    assert put_back(tree, CHECK) == [CHECK]
    assert (tree.path / CHECK).read_bytes() == expected
    assert committed(tree, CHECK) == tree.git.text("rev-parse", f"{tree.record.base}:{CHECK}")


@pytest.mark.slow
def test_an_ident_of_the_base_is_expanded(user: UserRepository, home: Path) -> None:
    """A keyword that git expands in the user's checkout is expanded in the file that is put back."""
    user.commit("Check", {".gitattributes": "*.sh ident\n", CHECK: "# $Id$\n"})
    tree = user.tree(home)
    expected = (tree.path / CHECK).read_bytes()
    assert b"$Id: " in expected
    agent(tree, f"rm .gitattributes; echo '# $Id$' > {CHECK}")
    assert put_back(tree, CHECK) == [CHECK]
    assert (tree.path / CHECK).read_bytes() == expected


REPLACED = {
    "changed": "echo true > src/check.sh",
    "changed with the same size and time": "touch -r src/check.sh t; printf '! true ---- xnotes' > src/check.sh; "
    "echo >> src/check.sh; touch -r t src/check.sh; rm t",
    "removed": "rm src/check.sh",
    "executable": "chmod +x src/check.sh",
    "unreadable": "chmod 0 src/check.sh",
    "a link": "echo true > other; rm src/check.sh; ln -s ../other src/check.sh",
    "a link out of the tree": "rm src/check.sh; ln -s $OUTSIDE/file src/check.sh",
    "a broken link": "rm src/check.sh; ln -s nothing src/check.sh",
    "a pipe": "rm src/check.sh; mkfifo src/check.sh",
    "a directory": "rm src/check.sh; mkdir -p src/check.sh/a/b; touch src/check.sh/a/b/c; chmod 0 src/check.sh/a",
    "an empty directory": "rm src/check.sh; mkdir src/check.sh; chmod 0 src/check.sh",
    "a repository": "rm src/check.sh; git init -q src/check.sh",
    "its directory removed": "rm -r src",
    "its directory a link": "rm -r src; ln -s $OUTSIDE src",
    "its directory a link to a moved one": "mv src source; ln -s source src; echo true > src/check.sh",
    "its directory a file": "rm -r src; echo x > src",
    "its directory a pipe": "rm -r src; mkfifo src",
    "its directory a repository": "git init -q src; git -C src add .; echo true > src/check.sh",
    "its directory unreadable": "echo true > src/check.sh; chmod 0 src",
    "a hard link to a file outside": "rm src/check.sh; ln $OUTSIDE/file src/check.sh",
    "ignored": "echo '*' > .gitignore; echo true > src/check.sh",
    "assumed to be unchanged": "git update-index --assume-unchanged src/check.sh; echo true > src/check.sh",
}


@pytest.mark.sample(6)
@pytest.mark.parametrize("script", REPLACED.values(), ids=REPLACED.keys())
def test_a_file_comes_back_whatever_is_in_its_place(
    tree: Tree, script: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Content and mode come back, no link is followed, and what the check does not need is left to the agent."""
    outside = tmp_path / "outside"
    outside.mkdir()
    (outside / "file").write_text("theirs\n")
    (outside / "check.sh").write_text("theirs\n")
    before = files_of(outside)
    monkeypatch.setenv("OUTSIDE", str(outside))
    agent(tree, f"{script}; echo 1 >> notes")
    assert "src/check.sh" in put_back(tree, "src/check.sh")
    place = tree.path / "src" / "check.sh"
    assert not (tree.path / "src").is_symlink()
    assert place.read_text() == TEXT
    assert not place.is_symlink()
    assert place.stat().st_mode & 0o777 == 0o644
    assert place.stat().st_nlink == 1
    assert (tree.path / "notes").read_text() == "y\n1\n"
    assert files_of(outside) == before
    assert put_back(tree, "src/check.sh") == []


def test_the_executable_bit_comes_back(tree: Tree) -> None:
    """A script that was executable is so again, with a mode that has nothing else."""
    for mode in (0o644, 0o4755, 0o000):
        (tree.path / CHECK).chmod(mode)
        assert put_back(tree, CHECK) == [CHECK]
        assert (tree.path / CHECK).stat().st_mode & 0o7777 == 0o755


def test_a_link_of_the_base_comes_back(user: UserRepository, home: Path) -> None:
    """A link of the base is a link again, with its old target."""
    (user.root / CHECK).symlink_to("README")
    user.git("add", CHECK)
    user.git("commit", "-qm", "Link")
    tree = user.tree(home)
    for script in (f"ln -sf src/a.py {CHECK}", f"rm {CHECK}; echo true > {CHECK}"):
        agent(tree, script)
        assert put_back(tree, CHECK) == [CHECK]
        assert os.readlink(tree.path / CHECK) == "README"


NEW = {
    "a file": "echo x > new/conf.py",
    "an ignored file": "echo conf.py > .gitignore; echo x > new/conf.py",
    "a link": "ln -s ../README new/conf.py",
    "a pipe": "mkfifo new/conf.py",
    "in a nested repository": "git init -q new; echo x > new/conf.py",
    "in a directory without permissions": "echo x > new/conf.py; chmod 0 new",
}


@pytest.mark.sample(5)
@pytest.mark.parametrize("script", NEW.values(), ids=NEW.keys())
def test_new_files_that_match_go(tree: Tree, script: str) -> None:
    """What matches and is not in the base is removed, and its neighbours stay."""
    agent(tree, f"mkdir new; echo y > new/neighbour; {script}")
    assert put_back(tree, "**/conf.py") == ["new/conf.py"]
    (tree.path / "new").chmod(0o755)
    assert not os.path.lexists(tree.path / "new" / "conf.py")
    assert (tree.path / "new" / "neighbour").read_text() == "y\n"


def test_a_directory_that_only_had_new_files_goes(tree: Tree) -> None:
    """No empty directory is left, as a tool may look for one; a very deep one is no obstacle."""
    agent(tree, "mkdir -p a/.agent/hooks; echo x > a/.agent/hooks/start; echo y > .agent; echo z > b")
    assert put_back(tree, "**/.agent") == [".agent", "a/.agent/hooks/start"]
    assert not (tree.path / "a").exists()
    deep = "/".join(["d"] * (MAX_DEPTH + 20))
    agent(tree, f"mkdir -p {deep}; echo x > {deep}/.agent; rm {CHECK}; mkdir -p {CHECK}/{deep}")
    assert put_back(tree, "**/.agent", CHECK)[-1] == CHECK
    assert (tree.path / CHECK).is_file()


def test_copied_files_stay(user: UserRepository, home: Path) -> None:
    """An ignored file that was copied from the user's checkout is not removed as a new one."""
    user.commit("Ignore", {".gitignore": "*.local\n", ".worktreeinclude": "*.local\n"})
    user.write({"src/mine.local": "x"})
    tree = user.tree(home)
    tree.copy_ignored()
    agent(tree, "echo conftest.py >> .gitignore; echo skip > src/conftest.py; echo 2 > src/a.py; echo 1 > README")
    assert put_back(tree, "src/**") == ["src/a.py", "src/conftest.py"]
    assert sorted(os.listdir(tree.path / "src")) == ["a.py", "b.py", "mine.local"]
    assert tree.git.text("ls-files", "--", "src").split() == ["src/a.py", "src/b.py"]
    assert (tree.path / "README").read_text() == "1\n"
    assert put_back(tree) == []


@pytest.mark.slow
def test_files_of_a_submodule_are_left_alone(user: UserRepository, home: Path) -> None:
    """A path in a submodule is not a file of the base, so what the setup has fetched there stays."""
    user.git("update-index", "--add", "--cacheinfo", f"160000,{user.git('rev-parse', 'HEAD')},sub")
    user.git("commit", "-qm", "Submodule")
    tree = user.tree(home)
    agent(tree, "mkdir -p sub; echo x > sub/check.sh")
    assert put_back(tree, "sub/check.sh", "sub", "**/check.sh") == []
    assert (tree.path / "sub" / "check.sh").exists()
    assert "160000" in tree.git.text("ls-files", "--stage", "--", "sub")


@pytest.mark.slow
def test_names_that_differ_by_case_count_where_they_mean_the_same(user: UserRepository, home: Path) -> None:
    """On a file system that ignores case, a file under another spelling is the same; elsewhere it is another one."""
    tree = user.tree(home)
    agent(tree, "rm README; echo x > readme")
    assert put_back(tree, "README") == ["README"]
    assert (tree.path / "readme").exists()
    tree.git.run("config", "core.ignoreCase", "true")
    assert put_back(tree, "README") == ["readme"]
    assert (tree.path / "README").read_text() == "hello\n"


PLANT = """
import py_compile
from importlib.util import cache_from_source
never = py_compile.PycInvalidationMode.UNCHECKED_HASH
py_compile.compile("planted.py", cache_from_source("tests/test_a.py"), invalidation_mode=never)
"""
"""Program that makes a compiled form that Python never compares with its source."""


@pytest.mark.slow
def test_nothing_is_imported_in_place_of_a_python_file(user: UserRepository, home: Path) -> None:
    """Compiled forms that are never out of date, packages and extensions of the same name go with the change."""
    user.commit("Test", {"tests/test_a.py": "print('base')\n", "tests/data/x": "1"})
    tree = user.tree(home)
    run = f"PYTHONPATH=tests {sys.executable} -B -c 'import test_a'"
    agent(tree, f"echo 'print(1)' > planted.py; {sys.executable} -c {shlex.quote(PLANT)}")
    assert agent(tree, run) == "1\n"
    assert put_back(tree, "tests/test_*.py") == []
    assert agent(tree, run) == "base\n"
    agent(tree, "mkdir tests/test_a; echo 'print(2)' > tests/test_a/__init__.py; touch tests/test_a.so")
    assert put_back(tree, "tests/test_*.py") == ["tests/test_a", "tests/test_a.so"]
    assert agent(tree, run) == "base\n"
    agent(tree, "rm -rf tests/__pycache__; mkdir c; ln -s ../c tests/__pycache__; ln -s data tests/test_a")
    assert put_back(tree, "tests/test_*.py") == ["tests/test_a"]
    assert not os.path.lexists(tree.path / "tests" / "__pycache__")


def test_only_what_python_imports_in_place_of_a_file_goes(user: UserRepository, home: Path) -> None:
    """Its neighbours stay, as does a package of the same name that the base has itself."""
    user.commit("Test", {"t/a.py": "1\n", "t/b.py": "2\n", "t/b/__init__.py": "3\n", "t/data/x": "4\n"})
    tree = user.tree(home)
    mine = ["t/__pycache__/c.x.pyc", "t/a.txt", "t/ab.so", "t/data/__init__.py", "t/data/y"]
    theirs = ["t/__pycache__/a.x.pyc", "t/a.x.so", "t/a/__init__.py", "t/a/more"]
    user.write(dict.fromkeys([*mine, *theirs], "x\n"), tree.path)
    assert put_back(tree, "t/*.py") == ["t/a", "t/a.x.so"]
    assert [path for path in (*mine, *theirs) if (tree.path / path).exists()] == mine
    assert (tree.path / "t/b/__init__.py").read_text() == "3\n"


def test_modes_differ_only_where_the_file_system_has_them(user: UserRepository, home: Path) -> None:
    """Where git was told that modes mean nothing, a file with another mode is as in the base."""
    tree = user.tree(home)
    tree.git.run("config", "--replace-all", "core.fileMode", "false")
    (tree.path / "README").chmod(0o755)
    assert put_back(tree, "README") == []
    tree.git.run("config", "--replace-all", "core.fileMode", "true")
    assert put_back(tree, "README") == ["README"]


def test_directories_that_their_owner_cannot_use_are_no_obstacle(user: UserRepository, home: Path) -> None:
    """They get the permissions that a search and a removal need; the others keep theirs."""
    tree = user.tree(home)
    top = tree.path
    for name in ("new", "new/deep", "empty", "kept"):
        (top / name).mkdir()
    user.write({"new/conf.py": "x", "new/deep/conf.py": "x", "kept/text": "mine", "src/a.py": "changed"}, top)
    base = BaseFiles(tree, tree.record.base, ["**/conf.py", "src/a.py"])
    for name, mode in (("new/deep", 0), ("new", 0o500), ("empty", 0), ("src", 0o050), ("kept", 0o750)):
        (top / name).chmod(mode)
    assert base.put_back() == ["new/conf.py", "new/deep/conf.py", "src/a.py"]
    modes = {path.name: path.stat().st_mode & 0o777 for path in top.iterdir()}
    assert {"empty": 0o700, "src": 0o750, "kept": 0o750}.items() <= modes.items()
    assert "new" not in modes


@pytest.mark.slow
def test_a_tree_that_was_replaced_is_not_written(tree: Tree, tmp_path: Path) -> None:
    """A link, or another directory, in the place of the tree is an error, and nothing behind it changes."""
    outside = tmp_path / "outside"
    outside.mkdir()
    place = tree.path
    base = BaseFiles(tree, tree.record.base, [CHECK])
    place.rename(place.with_name("moved"))
    place.symlink_to(outside)
    with pytest.raises(UsageError, match="was replaced"):
        base.put_back()
    place.unlink()
    place.mkdir()
    with pytest.raises(UsageError, match="was replaced"):
        base.put_back()
    assert os.listdir(outside) == os.listdir(place) == []


MATCHES = {
    "README": (["README", "README/x"], ["src/README", "readme", "README2"]),
    "/src/": (["src", "src/a.py", "src/x/y"], ["lib/src"]),
    "src/**": (["src/a.py", "src/x/y"], ["src", "srcs/a"]),
    "*.py": (["a.py"], ["src/a.py", "a.pyc"]),
    "**/*.py": (["a.py", "src/a.py", "src/x/a.py"], ["a.py/x"]),
    "**/.claude": ([".claude", ".claude/x", "a/b/.claude/c/d"], ["a.claude"]),
    "src/**/test/*.py": (["src/test/a.py", "src/x/y/test/a.py"], ["src/test/x/a.py", "test/a.py"]),
    "pages/[id].ts": (["pages/[id].ts", "pages/i.ts"], ["pages/x.ts"]),
    "[^a].py": (["b.py"], ["a.py"]),
    r"\*.py": (["*.py", r"\*.py"], ["a.py"]),
    "**": (["a", "a/b"], []),
    ".": ([], ["a"]),
}


@pytest.mark.parametrize("pattern", MATCHES)
def test_what_a_pattern_matches(pattern: str) -> None:
    """Signs stay within a part of a path, `**` crosses them, and a plain name means everything below it."""
    patterns = PathPatterns([pattern])
    matching, others = MATCHES[pattern]
    assert [path for path in (*matching, *others) if patterns.matches(path)] == matching


def test_patterns_without_case() -> None:
    """Spellings that one file system takes as the same name match: case, and composed characters."""
    patterns = PathPatterns(["Makefile", "é/x"], ignores_case=True)
    assert all(patterns.matches(path) for path in ("MAKEFILE", "makefile", "e\u0301/X"))
    assert not PathPatterns(["Makefile"]).matches("makefile")
    assert not PathPatterns([])


parts = st.text("ab*?.[]!", min_size=1, max_size=4)


@example(["?", "."], ["a"])
@given(st.lists(parts | st.just("**"), min_size=1, max_size=4), st.lists(st.text("ab.", min_size=1), max_size=4))
def test_a_pattern_always_ends(pattern: list[str], path: list[str]) -> None:
    """Any pattern can be matched against any path; the plain text of a pattern always matches itself."""
    text = "/".join(pattern)
    patterns = PathPatterns([text])
    patterns.matches("/".join(path))
    assert patterns.matches(text) or not patterns
