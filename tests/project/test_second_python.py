"""The Python that CI runs the tests on besides the first one."""

from __future__ import annotations

import subprocess
from pathlib import Path

import pytest

SCRIPT = Path(__file__).parents[2] / ".ci" / "second-python"


def fake(folder: Path, name: str, version: str | None) -> None:
    """A program that says that it is this version of Python; None: one that fails, as a shim for what is not there."""
    folder.mkdir(parents=True, exist_ok=True)
    (folder / name).write_text(f"#!/bin/sh\necho {version}\n" if version else "#!/bin/sh\nexit 127\n")
    (folder / name).chmod(0o755)


@pytest.mark.parametrize(
    ("first", "others", "found"),
    [
        ("3.11", {"python3.11": "3.11", "python3.12": "3.12", "python3.13": "3.13"}, "bin/python3.13"),
        ("3.13", {"python3.11": "3.11", "python3.13": "3.13"}, "bin/python3.11"),
        ("3.11", {"python3.11": "3.11", "python3.13": None, "python3.12": "3.12"}, "bin/python3.12"),
        ("3.11", {"python3.11": "3.11", "python3.12": "3.11"}, None),
        ("3.11", {"python3.10": "3.10", "python3.11": "3.11"}, None),
        ("3.11", {"python3.13": None, "../pyenv/versions/3.13.0/bin/python3.13": "3.13"},
         "pyenv/versions/3.13.0/bin/python3.13"),
    ],
)  # fmt: skip
def test_which_one_it_is(tmp_path: Path, first: str, others: dict[str, str | None], found: str | None) -> None:
    """The newest other version from 3.11 to 3.14 that runs; what only has its name is passed over."""
    for name, version in {"python3": first, **others}.items():
        path = (tmp_path / "bin" / name).resolve()
        fake(path.parent, path.name, version)
    env = {"PATH": f"{tmp_path}/bin:/nothing", "PYENV_ROOT": str(tmp_path / "pyenv")}
    done = subprocess.run(["/bin/bash", SCRIPT], env=env, capture_output=True, text=True, check=False)
    assert done.stdout == (f"{tmp_path / found}\n" if found else "")
    assert (done.returncode == 0) == (found is not None)
