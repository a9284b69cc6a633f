"""Secrets are recognised in names, contents, links and messages, and ordinary text is not taken for them.

The secrets of this file are joined of pieces, so that no scanner finds one in it.
"""

from __future__ import annotations

import os
import subprocess
from pathlib import Path

import pytest
from git_repository import UserRepository

from penstock.repo.commit import MAX_SUBJECT_CHARS, Stamp, commit_tree, run_hooks, subject_of
from penstock.repo.held import MAX_FILE_BYTES, MAX_NEW_FILES
from penstock.repo.repository import Author
from penstock.repo.result import save_result
from penstock.repo.staging import stage
from penstock.repo.trees import status_of
from penstock.run.secrets import is_secret_name, redacted, secrets_in

TOKEN = "ghp_" + "0123456789abcdefghijABCDEFGHIJ456789"
STAMP = Stamp(Author("Uma User", "uma@example.org"), 1_700_000_000)

SECRETS = (
    "-----BEGIN OPENSSH PRIVATE KEY" + "-----",
    "-----BEGIN PRIVATE KEY" + "-----",
    "-----BEGIN PGP PRIVATE KEY BLOCK" + "-----",
    "AKIA" + "ABCDEFGHIJKLMNOP",
    TOKEN,
    "github_pat_" + "1" * 22 + "_" + "a" * 59,
    "glpat-" + "a" * 20,
    "glrt-" + "a" * 20,
    "xoxb-" + "1" * 24,
    "xapp-" + "1-A01-1234567890-" + "a" * 20,
    "hooks.slack.com/services" + "/T00000000/B00000000/" + "X" * 24,
    "/api/webhooks" + "/123456789012345678/" + "a" * 68,
    "sk-ant-" + "api03-" + "a" * 40,
    "sk-proj-" + "a" * 60,
    "sk-" + "a1" * 24,
    "AIza" + "b" * 35,
    "GOCSPX-" + "a" * 28,
    "sk_live_" + "1" * 24,
    "rk_live_" + "1" * 24,
    "hf_" + "a" * 34,
    "npm_" + "a" * 36,
    "pypi-AgE" + "a" * 60,
    "SG." + "a" * 22 + "." + "b" * 43,
    "dckr_pat_" + "a" * 27,
    "hvs." + "a" * 24,
    "12345678:AA" + "a" * 33,
    "shpat_" + "a" * 32,
    "AGE-SECRET-KEY-1" + "A" * 58,
    "://app:" + "hunter2!@",
    "://:" + "8f3c9a1d@",
    "AccountKey=" + "a" * 86 + "==",
)


@pytest.mark.parametrize("secret", SECRETS)
@pytest.mark.parametrize("before", ["", " ", '"', "=", "\\n", "é"])
def test_a_secret_is_found_in_other_text(secret: str, before: str) -> None:
    """Keys, tokens and passwords are found after any text that is not part of them, also an escaped line end."""
    text = f"x{before}{'https' if secret.startswith('://') else ''}{secret}db.internal/x\n"
    if secret[-1].isalnum():
        text = f"x{before}{secret}\n" if before else f"{secret}\n"
    assert secret in [found.decode() for found in secrets_in(text.encode())]


@pytest.mark.parametrize("encoding", ["utf-8-sig", "utf-16", "utf-16-le", "utf-16-be", "utf-32", "utf-32-le"])
def test_a_secret_is_found_in_any_unicode_encoding(encoding: str) -> None:
    """A token is found in the encodings of editors, with a byte order mark and without."""
    assert TOKEN.encode() in secrets_in(f"token = {TOKEN}\r\n".encode(encoding))
    assert TOKEN.encode() in secrets_in(f"märk 漢字 {TOKEN} 漢\n".encode(encoding))


@pytest.mark.parametrize(
    "text",
    [
        "sk-learn AKIA ghp_ risk-averse-people npm_config da39a3ee5e6b4b0d3255bfef95601890afd80709",
        "https://user:password@example.com https://user:pass@host https://USER:YOUR_PASSWORD@host",
        "postgres://postgres:postgres@localhost/db redis://:${REDIS_PASSWORD}@cache http://u:{password}@h",
        "http://%s:%s@host http://$USER:$PASS@host http://<user>:<password>@host http://user:****@host",
        "http://[::1]:8080/@scope/package https://host:8080/a@b git@github.com:me/app.git ssh://git@host:22/x",
        "npm:react@18.0.0 data:image/png;base64,aaaa@ mailto:me@example.com http://a/b:c@d",
        "//registry.example.org/:_authToken=${NPM_TOKEN}",
        "hooks.slack.com/services/T/B/X",
        "task-" + "a" * 20 + " disk-usage mask_sk_live_ AIza",
    ],
)
def test_ordinary_text_is_no_secret(text: str) -> None:
    """Words that begin like a key, hashes, placeholders and variables are ordinary text."""
    assert secrets_in(text.encode()) == {}


NAMES = (
    *(".env", "a/.ENV.local", "config/prod.env", ".envrc", "id_ed25519", "server.key", "a.pem", "app.jks"),
    *("app.keystore", "credentials.json", "google-credentials.json", ".docker/config.json", "a/.docker/config.json"),
    *(".htpasswd", "terraform.tfstate", "terraform.tfstate.backup", "prod.tfvars", ".kube/config", "kubeconfig"),
    *(".netrc", ".pypirc", ".git-credentials", ".pgpass", "vault.kdbx", ".aws/credentials", "auth.json"),
    *("service-account.json", "service_account_prod.json", ".bash_history", "home/.ssh/deploy"),
)
OTHERS = (
    *(".env.example", ".env.sample", "example.env", "id_ed25519.pub", "keys.py", "environment", "env.py"),
    *("docker/config.json", "config.json", "credentials.py", "credentials.ts", "src/auth.py", "terraform.tf"),
    *(".npmrc", "kube/config", "known_hosts", ".ssh/known_hosts", "history.py", "secrets.py", "prod.tfvars.example"),
)


@pytest.mark.parametrize("name", NAMES)
def test_names_of_secrets(name: str) -> None:
    """A file is held back by the name that secrets have."""
    assert is_secret_name(name)


@pytest.mark.parametrize("name", OTHERS)
def test_other_names(name: str) -> None:
    """Templates, public keys, sources, and names that are only like those of secrets are not held back."""
    assert not is_secret_name(name)


LEAKS: dict[str, bytes] = {
    ".env": b"A=1\n",
    "config/prod.env": b"A=1\n",
    ".envrc": b"export DATABASE_URL=x\n",
    ".docker/config.json": b"{}\n",
    "app.jks": b"\xfe\xed\xfe\xed",
    ".htpasswd": b"me:$apr1$x\n",
    "terraform.tfstate": b"{}\n",
    "deploy/id_rsa": b"x\n",
    "a.pem": b"x\n",
    "credentials.json": b"{}\n",
    ".netrc": b"machine x\n",
    ".npmrc": b"//registry.example.org/:_authToken" + b"=0123456789abcdef\n",
    "src/aws.py": b"key = 'AKIA" + b"ABCDEFGHIJKLMNOP'\n",
    "src/key.txt": b"-----BEGIN RSA PRIVATE KEY" + b"-----\n",
    "notify.py": b"URL = 'https://hooks.slack.com/services" + b"/T00000000/B00000000/" + b"X" * 24 + b"'\n",
    "utf16.txt": f"token {TOKEN}\n".encode("utf-16"),
    "bom.txt": f"{TOKEN}\n".encode("utf-8-sig"),
    "compose.yml": b"url: postgres://app:" + b"9fj2-kd83@db.internal/app\n",
    f"notes-{TOKEN}.txt": b"x\n",
    f"{TOKEN}/notes.txt": b"x\n",
    "gitlab.yml": b"t: glpat-" + b"a" * 20 + b"\n",
    "kube.yml": b"    client-key-data: " + b"a" * 60 + b"\n",
    "account.json": b'{"type": "service_account", "private_key": "-----BEGIN PRIVATE KEY' + b'-----\\nMII"}\n',
}
"""Files of which none may be in a commit."""


def test_l9_no_secret_is_staged(user: UserRepository, home: Path) -> None:
    """L9: secrets by name, in the content, in a name, and as the target of a link are held back."""
    tree = user.tree(home)
    for name, content in LEAKS.items():
        (tree.path / name).parent.mkdir(parents=True, exist_ok=True)
        (tree.path / name).write_bytes(content)
    os.symlink(f"/tmp/{TOKEN}", tree.path / "link")
    (tree.path / "README").unlink()
    os.symlink(TOKEN, tree.path / "README")  # in place of a file
    held = {one.path for one in stage(tree.git)}
    assert held == {*LEAKS, "link", "README"}
    assert tree.git.text("write-tree") == tree.git.tree_of("HEAD")


@pytest.mark.slow
def test_a_secret_in_a_large_file_of_the_repository_is_found(user: UserRepository, home: Path) -> None:
    """A file that was as large before is not held back for its size, and its new text is looked at nevertheless."""
    user.commit("Data", {"big.txt": "x\n" * MAX_FILE_BYTES})
    tree = user.tree(home)
    with open(tree.path / "big.txt", "a") as file:
        file.write(f"{TOKEN}\n")
    assert [(one.path, one.reason) for one in stage(tree.git)] == [("big.txt", "secret_content")]


def test_a_secret_that_was_committed_before_may_move(user: UserRepository, home: Path) -> None:
    """A fixture with a key may be renamed; a copy that leaves it where it was is a new place for the key."""
    user.commit("Fixture", {"fixture.py": f"key = '{TOKEN}'\n"})
    tree = user.tree(home)
    (tree.path / "tests").mkdir()
    (tree.path / "fixture.py").rename(tree.path / "tests" / "fixture.py")
    assert stage(tree.git) == []
    (tree.path / "copy.py").write_text(f"key = '{TOKEN}'\n")
    assert [one.path for one in stage(tree.git)] == ["copy.py"]


def test_bytecode_and_files_of_the_desktop_are_junk(user: UserRepository, home: Path) -> None:
    """Caches are named and in no commit, and a tree with nothing else is saved; other bytecode is held back."""
    tree = user.tree(home)
    for name in ("src/__pycache__/a.cpython-311.pyc", "src/__pycache__/b.cpython-311.pyc", "src/.DS_Store"):
        user.write({name: "x"}, tree.path)
    user.write({"src/__pycache__/real.py": "x = 1\n", "src/b2.pyc": "x", "src/__pycache__/real.pyc": "x"}, tree.path)
    held = stage(tree.git)
    assert [(one.path, one.is_junk) for one in held] == [
        ("src/__pycache__/real.pyc", False),
        ("src/b2.pyc", False),
        ("src/.DS_Store", True),
        ("src/__pycache__/", True),
    ]
    assert "src/__pycache__/real.py" in tree.git.text("ls-files").splitlines()
    for name in ("src/__pycache__/real.pyc", "src/__pycache__/real.py", "src/b2.pyc"):
        (tree.path / name).unlink()
    stage(tree.git)
    assert status_of(home).state == "saved"
    assert stage(tree.git, ["*.pyc"]) == [one for one in held if one.path == "src/.DS_Store"]


def test_products_of_tools_are_junk(user: UserRepository, home: Path) -> None:
    """Installed packages and caches are named once and in no commit; of a directory that is tracked, new files are."""
    user.commit("Dist", {"action/node_modules/a/index.js": "a\n"})
    tree = user.tree(home)
    for number in range(MAX_NEW_FILES + 1):
        user.write({f"node_modules/p{number % 7}/f{number}.js": ""}, tree.path)
    user.write(
        {
            "node_modules/a/node_modules/b.js": "",
            "node_modules/a/.env": "KEY=1\n",
            "src/.mypy_cache/x": "",
            "app.egg-info/PKG-INFO": "",
            "action/node_modules/b/index.js": "b\n",
            "build/new.py": "",
            "src/node_modules": "a file of this name\n",
        },
        tree.path,
    )
    held = stage(tree.git)
    assert {one.path: (one.text, one.is_junk) for one in held} == {
        "app.egg-info/": ("a product of a build", True),
        "node_modules/": ("installed packages", True),
        "src/.mypy_cache/": ("a cache", True),
    }
    staged = tree.git.text("diff", "--cached", "--name-only", user.git("rev-parse", "HEAD")).splitlines()
    assert staged == ["action/node_modules/b/index.js", "build/new.py", "src/node_modules"]
    assert [one.path for one in stage(tree.git, ["node_modules/"])] == ["app.egg-info/", "src/.mypy_cache/"]


def test_a_subject_has_no_secret() -> None:
    """A token in a reply is not in the subject of its commit, whole or cut."""
    assert subject_of(f"fix: use the token {TOKEN}") == "fix: use the token [removed: a token of GitHub]"
    long = subject_of("x" * (MAX_SUBJECT_CHARS - 20) + f" {TOKEN}")
    assert "ghp_" not in long
    assert len(long) <= MAX_SUBJECT_CHARS
    assert redacted("nothing \udcff here") == "nothing \udcff here"


def test_no_message_of_a_commit_has_a_secret(user: UserRepository, home: Path) -> None:
    """What a hook writes into a message is looked at as well, and so is every other message."""
    hooks = user.root / ".git/hooks"
    hooks.mkdir(exist_ok=True)
    (hooks / "commit-msg").write_text(f'#!/bin/sh\necho "Key: {TOKEN}" >> "$1"\n')
    (hooks / "commit-msg").chmod(0o755)
    tree = user.tree(home)
    assert run_hooks(tree, "Change\n").message == "Change\nKey: [removed: a token of GitHub]\n"
    made = commit_tree(tree.git, tree.git.tree_of("HEAD"), [], f"Use {TOKEN}\n", STAMP)
    assert user.git("log", "-1", "--format=%B", made) == "Use [removed: a token of GitHub]"


def test_the_output_of_a_hook_has_no_secret(user: UserRepository, home: Path) -> None:
    """What a hook prints, as it does when it fails, is shown to people and quoted in prompts."""
    hooks = user.root / ".git/hooks"
    hooks.mkdir(exist_ok=True)
    (hooks / "pre-commit").write_text(f'#!/bin/sh\necho "Key: {TOKEN}, $DEPLOY_TOKEN"\nexit 1\n')
    (hooks / "pre-commit").chmod(0o755)
    result = run_hooks(user.tree(home), "Change\n", env={"DEPLOY_TOKEN": "a value of the test"})
    assert result.output == "Key: [removed: a token of GitHub], [removed: the value of DEPLOY_TOKEN]\n"
    assert not result.passed


def test_a_hook_that_stages_everything_stages_no_secret(user: UserRepository, home: Path) -> None:
    """`git add -A` in a hook of the user puts neither a secret nor junk into the commit."""
    hooks = user.root / ".git/hooks"
    hooks.mkdir(exist_ok=True)
    (hooks / "pre-commit").write_text("#!/bin/sh\necho formatted > src/b.py\necho x > made.txt\ngit add -A\n")
    (hooks / "pre-commit").chmod(0o755)
    user.write({".worktreeinclude": "*.local\n"})
    user.write({"a.local": "mine"})
    (user.root / ".git/info").mkdir(exist_ok=True)
    (user.root / ".git/info/exclude").write_text("*.local\n")
    tree = user.tree(home)
    tree.copy_ignored()
    (tree.home / "git/info/exclude").write_text("")  # as if the agent's .gitignore had taken it back
    user.write({".env": "A=1\n", "src/a.py": f"a = '{TOKEN}'\n", "src/__pycache__/a.cpython-311.pyc": "x"}, tree.path)
    user.write({"src/new.py": "x\n"}, tree.path)
    result = save_result(tree, "Change\n", {}, STAMP)
    assert result.commit is not None
    assert user.git("diff", "--name-only", "HEAD", result.commit).splitlines() == ["made.txt", "src/b.py", "src/new.py"]
    assert {one.path for one in result.held} == {".env", "src/a.py", "src/__pycache__/"}


@pytest.mark.slow
def test_this_project_has_no_false_alarm() -> None:
    """No file of the project, with all its tests and recordings, is taken for a secret."""
    root = Path(__file__).parents[2]
    listed = subprocess.run(["git", "ls-files", "-z"], cwd=root, capture_output=True, check=True).stdout
    names = [os.fsdecode(name) for name in listed.split(b"\0") if name]
    assert [name for name in names if is_secret_name(name)] == []
    assert {name: found for name in names if (found := secrets_in((root / name).read_bytes()))} == {}
