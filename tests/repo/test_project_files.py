"""Files that control agents come back as they were kept, whatever an agent has put in their place."""

from __future__ import annotations

import os
import subprocess
from pathlib import Path

import pytest
from git_repository import files_of

from penstock.repo.project_files import KeptFiles, PutBack, keep, keep_found, put_back, rules_of

PATTERNS = (".agent", ".github/hooks", ".env", ".env.*.local"), ("AGENTS.md", ".agent/rules", "rules-*")
"""Patterns of files that start something, and of texts."""

FILES = {
    ".agent/settings.json": "{}\n",
    ".agent/rules/one.md": "Be kind.\n",
    ".github/hooks/start": "true\n",
    "AGENTS.md": "Be brief.\n",
    "sub/AGENTS.md": "Be quick.\n",
    "sub/.env": "A=1\n",
    "src/a.py": "a = 1\n",
}


class Desk:
    """A tree whose files are kept, and a directory outside of it."""

    def __init__(self, folder: Path) -> None:
        self.top, self.copies, self.outside = folder / "tree", folder / "copies", folder / "outside"
        for name, text in FILES.items():
            path = self.top / name
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_text(text)
        (self.top / ".github/hooks/start").chmod(0o755)
        (self.top / ".agent/link").symlink_to("../src/a.py")
        self.outside.mkdir()
        (self.outside / "settings.json").write_text("theirs\n")
        self.kept: KeptFiles = keep(self.top, PATTERNS, self.copies)

    def agent(self, script: str) -> None:
        """Run a shell script in the tree."""
        env = {**os.environ, "OUTSIDE": str(self.outside)}
        subprocess.run(["sh", "-ec", script], cwd=self.top, env=env, check=True)

    def put_back(self, *kinds: str) -> list[PutBack]:
        """Put back the files of some kinds; of all without any."""
        rules = rules_of(PATTERNS, self.kept)
        return put_back(self.top, rules, self.kept, self.copies, lambda _, kind: not kinds or kind in kinds)


@pytest.fixture
def desk(tmp_path: Path) -> Desk:
    """Make the tree."""
    return Desk(tmp_path)


def test_files_that_nobody_touched_differ_in_nothing(desk: Desk) -> None:
    """Files and links are kept as what they are, so that putting them back right away changes nothing."""
    assert desk.put_back() == []


CHANGES = {
    "changed": ("echo x > .agent/settings.json", [".agent/settings.json"]),
    "of the same size": ("printf '()\\n' > .agent/settings.json", [".agent/settings.json"]),
    "removed": ("rm -r .agent/rules", [".agent/rules/one.md"]),
    "mode": ("chmod 644 .github/hooks/start", [".github/hooks/start"]),
    "a link to a file outside": (
        "ln -sf $OUTSIDE/settings.json .agent/settings.json", [".agent/settings.json"]),
    "a directory": ("rm AGENTS.md; mkdir -p AGENTS.md/x", ["AGENTS.md"]),
    "a pipe": ("rm sub/.env; mkfifo sub/.env", ["sub/.env"]),
    "another link": ("ln -sf ../src/b.py .agent/link", [".agent/link"]),
    "a file for a link": ("rm .agent/link; echo x > .agent/link", [".agent/link"]),
    "what a kept link leads to": ("echo x > src/a.py", ["src/a.py"]),
    "new": ("echo x > .agent/hook; echo x > src/.env; mkdir rules-x; echo x > rules-x/1",
            [".agent/hook", "rules-x/1", "src/.env"]),
    "new ones of a pattern with signs": (
        "echo x > .env.a.local; echo x > '.env.*.local'", [".env.*.local", ".env.a.local"]),
    "a link for a directory whose files count": (
        "mv .github away; ln -s away .github", [".github", ".github/hooks/start"]),
    "a link for a directory above": ("rm -r sub; ln -s $OUTSIDE sub", ["sub/.env", "sub/AGENTS.md"]),
    "a directory without permissions": ("echo x > .agent/rules/one.md; chmod 0 .agent/rules", [".agent/rules/one.md"]),
}  # fmt: skip
"""Scripts of an agent, and the paths that differ after them."""


@pytest.mark.parametrize(("script", "paths"), CHANGES.values(), ids=CHANGES.keys())
def test_a_file_comes_back_and_nothing_outside_changes(desk: Desk, script: str, paths: list[str]) -> None:
    """Content, mode and kind are those that were kept, new files are gone, and no link was followed."""
    before, outside = files_of(desk.top), files_of(desk.outside)
    desk.agent(script)
    assert [one.path for one in desk.put_back()] == paths
    assert {name: it for name, it in files_of(desk.top).items() if not name.startswith("away/")} == before
    assert files_of(desk.outside) == outside
    assert desk.put_back() == []


def test_a_text_stays_where_only_settings_are_put_back(desk: Desk) -> None:
    """A worker may write texts for its own step; also those within a directory of settings that are named as texts."""
    desk.agent("for name in AGENTS.md .agent/rules/one.md .agent/settings.json; do echo mine > $name; done")
    assert desk.put_back("starts") == [PutBack(".agent/settings.json", "changed")]
    assert (desk.top / "AGENTS.md").read_text() == (desk.top / ".agent/rules/one.md").read_text() == "mine\n"


def test_many_new_files_of_a_directory_are_named_as_one(desk: Desk) -> None:
    """A plugin is named by its directory; a few files, and those of a directory that stays, are named one by one."""
    names = "1 2 3 4 5 6"
    desk.agent(f"mkdir -p new/.agent; for name in {names}; do echo x > new/.agent/$name; echo x > .agent/$name; done")
    assert desk.put_back() == [
        *(PutBack(f".agent/{name}", "added") for name in names.split()),
        PutBack("new/.agent/", "added"),
    ]
    assert not (desk.top / "new").exists()


def test_files_of_one_step_are_kept_by_choice(desk: Desk, tmp_path: Path) -> None:
    """Of a worker's files only the chosen ones are kept; a pipe among them is none."""
    desk.agent("echo mine > AGENTS.md; mkfifo rules-pipe; echo x > .agent/settings.json")
    rules = rules_of(PATTERNS, desk.kept)
    found = keep_found(desk.top, rules, tmp_path / "seen", lambda _, kind: kind == "instructs")
    assert {*found.files} == {"AGENTS.md", "sub/AGENTS.md", ".agent/rules/one.md"}


def test_what_git_tracks_is_known_of_each_file(desk: Desk, tmp_path: Path) -> None:
    """Of files and links alike, so that the files of a user that no commit has are never taken for those of one."""
    found = keep(desk.top, PATTERNS, tmp_path / "more", {"AGENTS.md", ".agent/link"})
    assert {path for path, one in found.files.items() if one.is_tracked} == {"AGENTS.md", ".agent/link"}
