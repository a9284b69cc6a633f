from __future__ import annotations

import os
import subprocess
from pathlib import Path

import pytest
from git_repository import UserRepository
from hypothesis import given
from hypothesis import strategies as st

from penstock.repo.held import MAX_FILE_BYTES, MAX_NEW_FILES, held_by_name, held_directories, is_allowed
from penstock.repo.staging import changes, stage
from penstock.repo.tree import Tree
from penstock.run.secrets import secrets_in

KEY = "AKIA" + "ABCDEFGHIJKLMNOP"
"""A key as AWS makes them; it is joined here, so that no scanner finds it in this file."""


def shell(tree: Tree, script: str) -> None:
    """Run a script in the tree, as an agent would."""
    subprocess.run(["sh", "-c", script], cwd=tree.path, check=True, capture_output=True)


def staged(tree: Tree) -> list[str]:
    """Return the files that a commit of the tree would have."""
    return tree.git.run("ls-tree", "-r", "-z", "--name-only", tree.git.text("write-tree")).items


def test_everything_that_git_would_add_is_staged(user: UserRepository, home: Path) -> None:
    """New, changed, removed, renamed and executable files, links, and files in place of directories are staged."""
    tree = user.tree(home)
    shell(
        tree,
        "rm src/b.py; mv README src/README; chmod +x src/a.py; ln -s src link; echo 1 > 'né w'; rm -r src/x || true",
    )
    shell(tree, "mkdir pkg && mv src/a.py pkg/ && rm -r src && echo now a file > src")
    assert stage(tree.git) == []
    assert changes(tree.git).paths == []
    assert staged(tree) == ["link", "né w", "pkg/a.py", "src"]
    assert tree.git.text("ls-files", "-s", "pkg/a.py").startswith("100755")
    shell(tree, "rm src; mkdir src; echo 1 > src/again")
    stage(tree.git)
    assert staged(tree) == ["link", "né w", "pkg/a.py", "src/again"]


def test_l9_secrets_and_junk_are_in_no_commit(user: UserRepository, home: Path) -> None:
    """L9: without a .gitignore, keys, dependencies and a large file are held back and named; the rest is staged."""
    tree = user.tree(home)
    (tree.path / ".gitignore").write_text("")
    user.write(
        {
            ".env": f"KEY={KEY}\n",
            "src/settings.py": f"key = '{KEY}'\n",
            "src/new.py": "x = 1\n",
            ".env.example": "KEY=\n",
        },
        tree.path,
    )
    for number in range(MAX_NEW_FILES + 1):
        user.write({f"vendor/p{number % 7}/f{number}.js": ""}, tree.path)
    with open(tree.path / "dump.bin", "wb") as file:
        file.truncate(20 * 1024 * 1024)
    held = {one.path: one.reason for one in stage(tree.git)}
    assert held == {
        ".env": "secret_name",
        "src/settings.py": "secret_content",
        "vendor/": "many",
        "dump.bin": "large",
    }
    assert staged(tree) == [".env.example", ".gitignore", "README", "src/a.py", "src/b.py", "src/new.py"]
    unreachable = user.git("fsck", "--unreachable", "--no-reflogs")
    for line in unreachable.splitlines():
        assert KEY not in user.git("cat-file", "-p", line.split()[2])


def test_what_the_user_allows_is_staged(user: UserRepository, home: Path) -> None:
    """Paths, patterns and directories that the user has allowed are staged, the others stay held back."""
    tree = user.tree(home)
    user.write({".env": "A=1\n", "certs/a.pem": "x", "certs/b.pem": "x", "other/c.pem": "x"}, tree.path)
    assert [one.path for one in stage(tree.git, ["certs/", ".env"])] == ["other/c.pem"]
    assert staged(tree)[:3] == [".env", "README", "certs/a.pem"]


def test_old_secrets_do_not_block_a_change(user: UserRepository, home: Path) -> None:
    """A file that has held a key, or was large, before may be changed; a second key in it is held back."""
    other = KEY[:-1] + "Z"
    user.commit("Fixtures", {"fixture.py": f"key = '{KEY}'\n", "old.pem": "x\n", "big.txt": "x" * (MAX_FILE_BYTES + 1)})
    tree = user.tree(home)
    user.write(
        {"fixture.py": f"key = '{KEY}'  # old\n", "old.pem": "y\n", "big.txt": "y" * (MAX_FILE_BYTES + 9)}, tree.path
    )
    assert stage(tree.git) == []
    user.write({"fixture.py": f"key = '{KEY}'\nkey2 = '{other}'\n"}, tree.path)
    assert [(one.path, one.reason) for one in stage(tree.git)] == [("fixture.py", "secret_content")]


def test_a_file_that_grows_is_held_back(user: UserRepository, home: Path) -> None:
    """A small file of the repository that becomes a large one is held back."""
    tree = user.tree(home)
    user.write({"README": "x" * (MAX_FILE_BYTES + 1)}, tree.path)
    assert [(one.path, one.reason) for one in stage(tree.git)] == [("README", "large")]


def test_repositories_in_the_tree_are_held_back(user: UserRepository, home: Path) -> None:
    """Nested repositories are held back, with commits or without; one among tracked files changes nothing."""
    tree = user.tree(home)
    shell(tree, "git init -q empty; git init -q full; cd full; echo 1 > x; git add x; git commit -qm x")
    shell(tree, "git init -q src; echo 2 > src/a.py; mkdir odd; mkdir odd/.GIT; echo x > odd/.GIT/config")
    held = {one.path: one.reason for one in stage(tree.git)}
    assert held == {"empty/": "nested", "full/": "nested", "odd/.GIT/config": "nested"}
    assert tree.git.text("show", ":src/a.py") == "2"
    assert staged(tree) == ["README", "src/a.py", "src/b.py"]


def test_a_pipe_in_place_of_a_file_is_held_back(user: UserRepository, home: Path) -> None:
    """A file that became a pipe is neither read, which would wait for ever, nor staged."""
    tree = user.tree(home)
    (tree.path / "README").unlink()
    os.mkfifo(tree.path / "README")
    assert [(one.path, one.reason) for one in stage(tree.git)] == [("README", "special")]


def test_l19_filters_excludes_and_line_ends_are_those_of_the_user(user: UserRepository, home: Path) -> None:
    """L19: a clean filter, info/exclude, info/attributes and autocrlf that only the local configuration has count."""
    user.git("config", "filter.rot.clean", "tr a-z b-za")
    user.git("config", "filter.rot.smudge", "tr b-za a-z")
    user.git("config", "core.autocrlf", "input")
    (user.root / ".git/info").mkdir(exist_ok=True)
    (user.root / ".git/info/exclude").write_text("notes\n")
    (user.root / ".git/info/attributes").write_text("*.secret filter=rot\n")
    user.commit("Filtered", {"x.secret": "abc\n"})
    tree = user.tree(home)
    assert (tree.path / "x.secret").read_text() == "abc\n"
    user.write({"y.secret": "hello\n", "notes": "x", "text": "a\r\nb\r\n"}, tree.path)
    (tree.path / "text").write_bytes(b"a\r\nb\r\n")
    assert stage(tree.git) == []
    assert staged(tree) == ["README", "src/a.py", "src/b.py", "text", "x.secret", "y.secret"]
    assert tree.git.run("cat-file", "blob", ":y.secret").out == b"ifmmp\n"
    assert tree.git.run("cat-file", "blob", ":text").out == b"a\nb\n"


def test_settings_of_included_files_count(user: UserRepository, home: Path) -> None:
    """A filter that the local configuration includes from a file works in the tree too."""
    (user.root / ".git/more").write_text('[filter "rot"]\n\tclean = tr a-z b-za\n')
    user.git("config", "include.path", "more")
    user.commit("Filtered", {".gitattributes": "*.secret filter=rot\n"})
    tree = user.tree(home)
    user.write({"y.secret": "hello\n"}, tree.path)
    stage(tree.git)
    assert tree.git.run("cat-file", "blob", ":y.secret").out == b"ifmmp\n"


segments = st.text(
    st.characters(codec="utf-8", exclude_characters="/\0", exclude_categories=["Cs"]), min_size=1, max_size=5
)
paths = st.lists(segments, min_size=1, max_size=4).map("/".join)


@given(st.lists(paths, max_size=30), st.lists(paths, max_size=10))
def test_directories_with_tracked_files_are_never_held_back(added: list[str], tracked: list[str]) -> None:
    """A directory that is held back is new, is the highest new one, and holds exactly the files counted."""
    many = [f"{path}/{number}" for path in added for number in range(MAX_NEW_FILES + 1)]
    for one in held_directories(many, tracked):
        assert not any(path.startswith(one.path) for path in tracked)
        above = one.path.rstrip("/").rpartition("/")[0]
        assert not above or any(path.startswith(above + "/") for path in tracked)


@pytest.mark.parametrize(
    ("name", "held"),
    [(".env", True), ("a/.ENV.local", True), (".env.sample", False), ("id_ed25519", True), ("id_ed25519.pub", False),
     ("server.key", True), ("keys.py", False), ("credentials.json", True), ("environment", False)],
)  # fmt: skip
def test_names_of_secrets(name: str, held: bool) -> None:
    """Files are held back by the names that secrets have, not by names that are like them."""
    assert (held_by_name(name) is not None) is held


@pytest.mark.parametrize(
    "secret",
    ["-----BEGIN OPENSSH PRIVATE KEY" + "-----", "-----BEGIN PRIVATE KEY" + "-----", "ghp_" + "a" * 36,
     "sk-ant-" + "a" * 40, "glpat-" + "a" * 20, "xoxb-" + "1" * 24, "AIza" + "b" * 35,
     "sk_live_" + "1" * 24, "hf_" + "a" * 34],
)  # fmt: skip
def test_contents_of_secrets(secret: str) -> None:
    """Keys and tokens are found inside of other text."""
    assert list(secrets_in(f'x = "{secret}"\n'.encode())) == [secret.encode()]


def test_ordinary_text_is_no_secret() -> None:
    """Words that begin like a key, and hashes, are ordinary text."""
    assert (
        secrets_in(b"sk-learn AKIA ghp_ risk-averse-people npm_config da39a3ee5e6b4b0d3255bfef95601890afd80709") == {}
    )


def test_patterns_that_allow() -> None:
    """A pattern allows what it matches, and a directory all below it, but not its neighbours."""
    assert is_allowed("certs/a.pem", ["*.pem"])
    assert is_allowed("certs/a/b", ["certs/"])
    assert not is_allowed("certs2/a", ["certs/"])
    assert not is_allowed("certs2/a", ["certs"])
    assert not is_allowed("certs/a", ["certs"])


def test_a_filtered_file_is_as_large_as_its_commit_stores_it(user: UserRepository, home: Path) -> None:
    """A large file that a filter such as git-lfs commits as a few bytes is not held back, new or changed."""
    user.git("config", "filter.small.clean", "wc -c")
    user.commit("Filter", {".gitattributes": "*.bin filter=small\n*.iso filter=missing\n"})
    tree = user.tree(home)
    for name in ("big.bin", "big.iso"):
        with open(tree.path / name, "wb") as file:
            file.truncate(MAX_FILE_BYTES + 1)
    assert [held.path for held in stage(tree.git)] == ["big.iso"]
    with open(tree.path / "big.bin", "ab") as file:
        file.write(b"more")
    assert [held.path for held in stage(tree.git)] == ["big.iso"]
    assert tree.git.text("show", ":big.bin").strip() == str(MAX_FILE_BYTES + 5)
