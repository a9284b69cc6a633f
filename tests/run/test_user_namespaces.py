"""What helps where bubblewrap is not permitted to start: by files like those of the kernel, and on this machine."""

from __future__ import annotations

from pathlib import Path

import pytest

from penstock.run.user_namespaces import APPARMOR, CLONE, CONTAINERS, LIMIT, what_helps

ORDINARY = {LIMIT: "96365\n"}


@pytest.mark.parametrize(
    ("files", "is_root", "helps"),
    [
        ({}, False, ""),  # not Linux, or /proc is not there
        (ORDINARY, False, ""),
        ({LIMIT: "0\n"}, False, "sysctl user.max_user_namespaces"),
        ({LIMIT: "0\n"}, True, "sysctl user.max_user_namespaces"),
        (ORDINARY | {CLONE: "0\n"}, False, "sysctl kernel.unprivileged_userns_clone=1"),
        (ORDINARY | {CLONE: "0\n"}, True, ""),
        (ORDINARY | {CLONE: "1\n", APPARMOR: "1\n"}, False, "AppArmor"),
        (ORDINARY | {APPARMOR: "1\n"}, True, ""),
        (ORDINARY | {APPARMOR: "0\n"}, False, ""),
        (ORDINARY | {APPARMOR: "odd\n"}, False, ""),
        (ORDINARY | {CONTAINERS[0]: ""}, True, "--security-opt seccomp=unconfined"),
        (ORDINARY | {CONTAINERS[1]: "", CLONE: "0\n"}, False, "--security-opt seccomp=unconfined"),
    ],
)
def test_the_way_out_is_that_of_the_machine(tmp_path: Path, files: dict[str, str], is_root: bool, helps: str) -> None:
    """A setting is named only if it forbids user namespaces to this user."""
    for name, text in files.items():
        path = tmp_path / name.lstrip("/")
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)
    said = what_helps(is_root=is_root, root=str(tmp_path))
    assert (helps in said) if helps else not said
