from __future__ import annotations

from pathlib import Path

from git_repository import UserRepository

from penstock.repo.directory_files import DirectoryFiles, matching, with_folders


def test_files_have_their_folders() -> None:
    """Each folder above a file is offered once, with a slash; names that a terminal would act on are left out."""
    files = ["README", "src/a.py", "src/deep/b.py", "src/\x1b[2J.py", "half\udc80"]
    assert with_folders(files) == ["README", "src/", "src/a.py", "src/deep/", "src/deep/b.py"]
    assert with_folders([]) == []


def test_the_best_matches_come_first() -> None:
    """First what begins with the text, then files whose names do, then the rest; case makes no difference."""
    paths = ["lib/", "lib/Config.py", "config.toml", "docs/reconfigure.md", "docs/deep/config/", "README"]
    found = ["config.toml", "lib/Config.py", "docs/deep/config/", "docs/reconfigure.md"]
    assert matching(paths, "CONF") == found
    assert matching(paths, "") == sorted(paths, key=lambda path: (path.count("/"), path))
    assert matching(paths, "nothing") == []


def test_files_that_git_ignores_are_not_offered(user: UserRepository) -> None:
    """New files are, tracked or not, also those of a directory below the top."""
    user.write({".gitignore": "*.log\n", "src/run.log": "x", "src/new.py": "x"})
    assert DirectoryFiles(str(user.root / "src")).paths() == ["a.py", "b.py", "new.py"]


def test_a_directory_that_is_no_repository(tmp_path: Path) -> None:
    """All files below it are offered, but hidden ones; the list is kept for some seconds."""
    (tmp_path / "deep").mkdir()
    (tmp_path / ".hidden").mkdir()
    for name in ("b", "deep/a", ".secret", ".hidden/c"):
        (tmp_path / name).write_text("x")
    files = DirectoryFiles(str(tmp_path))
    assert files.paths() == ["b", "deep/", "deep/a"]
    (tmp_path / "later").write_text("x")
    assert "later" not in files.paths()
