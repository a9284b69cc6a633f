"""What permits user namespaces, without which bubblewrap cannot start: settings of the kernel, which are read only."""

from __future__ import annotations

import os
from pathlib import Path

APPARMOR = "/proc/sys/kernel/apparmor_restrict_unprivileged_userns"
CLONE = "/proc/sys/kernel/unprivileged_userns_clone"
LIMIT = "/proc/sys/user/max_user_namespaces"
CONTAINERS = ("/.dockerenv", "/run/.containerenv")
"""Files that Docker and Podman put into each container."""


def what_helps(*, is_root: bool, root: str = "/") -> str:
    """Return what a person can do where bubblewrap is not permitted to start; "" if no setting is seen that forbids it.

    `root` is the directory in whose files the settings are looked for.
    """
    if _number(root, LIMIT) == 0:
        return "permit user namespaces: sysctl user.max_user_namespaces=15000; or --sandbox off"
    if any(os.path.exists(root + path) for path in CONTAINERS):
        return (
            "start the container with --security-opt seccomp=unconfined --security-opt apparmor=unconfined"
            " --security-opt systempaths=unconfined; or --sandbox off, if the container confines enough"
        )
    if _number(root, CLONE) == 0 and not is_root:
        return "permit user namespaces: sysctl kernel.unprivileged_userns_clone=1; or --sandbox off"
    if _number(root, APPARMOR) == 1 and not is_root:
        return "permit them to bubblewrap by a profile of AppArmor, as in docs/sandbox.md; or --sandbox off"
    return ""


def _number(root: str, path: str) -> int | None:
    try:
        return int(Path(root + path).read_text("ascii"))
    except (OSError, ValueError):
        return None
