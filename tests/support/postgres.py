"""PostgreSQL for tests: a server of their own in a directory of its own, with a database for each test."""

from __future__ import annotations

import asyncio
import ctypes
import itertools
import os
import pwd
import shutil
import signal
import socket
import subprocess
import tempfile
import time
from pathlib import Path

from penstock.chat.store.postgres.migrate import migrate

STARTS = 120.0
"""Seconds in which the server starts on a machine that is busy."""

PR_SET_PDEATHSIG = 1


def programs() -> Path | None:
    """The folder of PostgreSQL's programs; None if it is not installed."""
    folders = sorted(Path("/usr/lib/postgresql").glob("*/bin"), key=lambda path: int(path.parent.name))
    found = [folder for folder in folders if (folder / "initdb").exists()]
    if found:
        return found[-1]
    initdb = shutil.which("initdb")
    return Path(initdb).resolve().parent if initdb else None


class Server:
    """One server: it listens on a free port of 127.0.0.1 and on a socket in its folder, and syncs to the disk."""

    def __init__(self, log: Path | None = None) -> None:
        """Make its files, and start it. `log` is a new folder for its log of changes."""
        bin = programs()
        assert bin is not None, "PostgreSQL is not installed"
        self._bin = bin
        # The server rejects root; tests that run as root start it as the user of Debian's package.
        self._user = "postgres" if os.getuid() == 0 else None
        self.folder = Path(tempfile.mkdtemp(prefix="penstock-pg-"))
        if self._user is not None:
            shutil.chown(self.folder, self._user)
        self._process: subprocess.Popen[bytes] | None = None
        self._numbers = itertools.count(1)
        user = pwd.getpwuid(os.getuid()).pw_name if self._user is None else self._user
        initdb = [bin / "initdb", "-D", self.folder / "data", "-A", "trust", "-E", "UTF8", "--locale=C", "-U", user]
        self._run([*map(str, initdb), "--no-sync", *([] if log is None else ["-X", str(log)])])
        with socket.create_server(("127.0.0.1", 0)) as free:
            self.port = int(free.getsockname()[1])
        self.user = user
        self.start()

    @property
    def is_running(self) -> bool:
        """Whether the server runs. It ends by itself if it cannot write its log."""
        return self._process is not None and self._process.poll() is None

    def start(self) -> None:
        """Start the server, and wait until it accepts connections. It ends with this process."""
        libc = ctypes.CDLL(None)
        options = {"port": self.port, "listen_addresses": "127.0.0.1", "unix_socket_directories": self.folder}
        options |= {"fsync": "on", "max_connections": 150, "shared_buffers": "64MB", "max_wal_size": "256MB"}
        given = [word for name, value in options.items() for word in ("-c", f"{name}={value}")]
        with (self.folder / "log").open("ab") as log:
            self._process = subprocess.Popen(
                [str(self._bin / "postgres"), "-D", str(self.folder / "data"), *given],
                user=self._user,
                stdout=log,
                stderr=log,
                cwd=self.folder,
                start_new_session=True,
                preexec_fn=lambda: libc.prctl(PR_SET_PDEATHSIG, signal.SIGQUIT),
            )
        end = time.monotonic() + STARTS
        ready = [str(self._bin / "pg_isready"), "-q", "-h", str(self.folder), "-p", str(self.port)]
        while subprocess.run(ready, check=False).returncode != 0:
            assert self._process.poll() is None, (self.folder / "log").read_text()
            assert time.monotonic() < end, "the server did not start"
            time.sleep(0.05)

    def stop(self, how: signal.Signals = signal.SIGINT) -> None:
        """Stop the server: SIGINT is fast, SIGQUIT immediate, and SIGKILL kills all of its processes."""
        process = self._process
        assert process is not None
        if how is signal.SIGKILL:
            for pid in (process.pid, *_children(process.pid)):
                os.kill(pid, signal.SIGKILL)
        else:
            process.send_signal(how)
        process.wait(STARTS)

    def back_up(self) -> Path:
        """Make a base backup while the server works; return its folder."""
        backup = self.folder / f"backup{next(self._numbers)}"
        command = [self._bin / "pg_basebackup", "-h", self.folder, "-p", self.port, "-U", self.user, "-D", backup]
        self._run([*map(str, command), "-c", "fast", "-X", "fetch", "--no-sync"])
        return backup

    def restore(self, backup: Path) -> None:
        """Kill the server, and start it with the files of a backup: all that was written since is lost."""
        self.stop(signal.SIGKILL)
        shutil.rmtree(self.folder / "data")
        backup.rename(self.folder / "data")
        self.start()

    def close(self) -> None:
        """Stop the server, and delete its files."""
        if self.is_running:
            self.stop(signal.SIGQUIT)
        shutil.rmtree(self.folder, ignore_errors=True)

    def empty(self) -> str:
        """Make a database without tables; return its URL."""
        return self._create("template0")

    def database_in(self, folder: Path) -> str:
        """Make a database with the tables of the store, whose files are in a new folder; return its URL."""
        self._make_folder(folder)
        psql = [self._bin / "psql", "-h", self.folder, "-p", self.port, "-U", self.user, "postgres", "-qc"]
        self._run([*map(str, psql), f"CREATE TABLESPACE apart LOCATION '{folder}'"])
        url = self._create("template0", "apart", "-D", "apart")
        asyncio.run(migrate(url))
        return url

    def database(self) -> str:
        """Make a database with the tables of the store; return its URL."""
        if not hasattr(self, "_template"):
            self._template = "made"
            asyncio.run(migrate(self._create("template0", "made")))
        return self._create("made")

    def url(self, name: str, port: int | None = None) -> str:
        """The URL of a database, by TCP."""
        return f"postgresql://{self.user}@127.0.0.1:{port or self.port}/{name}"

    def by_socket(self, url: str) -> str:
        """The URL of the same database by the server's socket."""
        return f"postgresql://{self.user}@/{url.rpartition('/')[2]}?host={self.folder}&port={self.port}"

    def _make_folder(self, folder: Path) -> None:
        folder.mkdir()
        if self._user is not None:
            shutil.chown(folder, self._user)

    def _create(self, template: str, name: str = "", *options: str) -> str:
        name = name or f"test{next(self._numbers)}"
        createdb = [str(self._bin / "createdb"), "-h", str(self.folder), "-p", str(self.port), "-U", self.user]
        self._run([*createdb, *options, "-T", template, name])
        return self.url(name)

    def _run(self, command: list[str]) -> None:
        done = subprocess.run(command, user=self._user, capture_output=True, text=True, cwd=self.folder, check=False)
        assert done.returncode == 0, done.stderr


def _children(pid: int) -> list[int]:
    found = subprocess.run(["ps", "-o", "pid=", "--ppid", str(pid)], capture_output=True, text=True, check=False)
    return [int(word) for word in found.stdout.split()]
