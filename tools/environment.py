"""Install what the lock files list into `.venv`, with only the standard library.

environment.py is-ready PROFILE   exit status 0 if `.venv` has what PROFILE needs
environment.py prepare PROFILE    install it; PROFILE is run, dev or bench
"""

import configparser
import contextlib
import fcntl
import hashlib
import json
import os
import re
import shutil
import subprocess
import sys
import tomllib
import urllib.parse
import urllib.request
import venv
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
VENV = ROOT / ".venv"
PYTHON = str(VENV / "bin" / "python")
STAMP = VENV / "environment.sha256"

# Each profile includes the ones before it.
PROFILES = {"run": ["run.txt"], "dev": ["dev.txt"], "bench": ["dev.txt", "bench.txt"]}

NO_INSTALLER = """ackline: found neither uv nor pip. Do one of these:
  - install uv or pip on PATH
  - on Debian and Ubuntu: apt install python3-venv
  - use another Python that has pip: PYTHON=/path/to/python3
  - set your package index: PIP_INDEX_URL=…"""


def is_ready(profile: str) -> bool:
    """Whether the last complete install was of this profile or a larger one, unchanged since."""
    with contextlib.suppress(OSError):
        larger = list(PROFILES)[list(PROFILES).index(profile) :]
        return STAMP.read_text() in map(stamp_of, larger)
    return False


def stamp_of(profile: str) -> str:
    """Hash what determines the contents of `.venv`, with the folder, as it cannot be moved."""
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())
    parts = [project["build-system"], project["project"], project["tool"]["hatch"]]
    locks = [(ROOT / "requirements" / name).read_text() for name in PROFILES[profile]]
    parts += [str(ROOT), sys.implementation.cache_tag, sys.base_prefix, profile, *locks]
    return hashlib.sha256(json.dumps(parts).encode()).hexdigest()


def prepare(profile: str) -> None:
    """Create `.venv` again, one process at a time; the stamp is written after a full install."""
    with (ROOT / ".venv.lock").open("w") as lock:
        # Installers inherit the lock: one that outlives this process must not run with the next.
        os.set_inheritable(lock.fileno(), True)
        fcntl.flock(lock, fcntl.LOCK_EX)
        if is_ready(profile):
            return
        print(f"ackline: setting up .venv ({profile})", file=sys.stderr)
        STAMP.unlink(missing_ok=True)
        # Without pip, because some distributions lack the module that would install it.
        venv.create(VENV, clear=True, symlinks=True)
        installer = find_installer(PYTHON)
        for name in PROFILES[profile]:
            run(*installer, "--require-hashes", "--no-deps", "-r", f"{ROOT}/requirements/{name}")
        # The build backend comes from the lock, so this needs no network.
        run(*installer, "--no-deps", "--no-build-isolation", "-e", str(ROOT))
        STAMP.write_text(stamp_of(profile))


def run(*command: str) -> None:
    """Run an install command; show its output only when it fails."""
    done = try_run(*command)
    if done.returncode:
        sys.exit(f"ackline: this failed: {' '.join(command)}\n{done.stdout}")


def try_run(*command: str) -> subprocess.CompletedProcess[str]:
    """Run a command without the caller's Python settings; it may fail."""
    environment = {**uv_settings(), **os.environ, "PIP_USER": "0"}
    for name in ("PYTHONPATH", "PYTHONHOME"):
        environment.pop(name, None)
    return subprocess.run(
        command,
        env=environment,
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        check=False,
        close_fds=False,
    )


def find_installer(python: str) -> list[str]:
    """The command that installs for a Python: uv, its own pip, another pip, or a downloaded one."""
    if uv := shutil.which("uv"):
        return [uv, "pip", "install", "--quiet", "--python", python]
    try_run(python, "-m", "ensurepip")
    others = [[pip, "--python", python] for pip in map(shutil.which, ("pip3", "pip")) if pip]
    for pip in [[python, "-m", "pip"], [sys.executable, "-m", "pip", "--python", python], *others]:
        if try_run(*pip, "--version").returncode == 0:
            return [*pip, "install", "--quiet", "--disable-pip-version-check"]
    return [python, f"{fetch_pip()}/pip", "install", "--quiet"]


def fetch_pip() -> Path:
    """Download the locked pip from a configured index; its wheel runs without installation."""
    lock, settings = (ROOT / "requirements" / "installer.txt").read_text(), pip_settings()
    [version] = re.findall(r"^pip==(\S+)", lock, re.MULTILINE)
    wheel = VENV / f"pip-{version}-py3-none-any.whl"
    for index in f"{settings.get('index-url', '')} {settings.get('extra-index-url', '')}".split():
        page = index.rstrip("/") + "/pip/" + "index.html" * index.startswith("file:")
        with contextlib.suppress(OSError, ValueError):
            links = re.findall(r'href="([^"#]+)', download(page).decode())
            link = next((link for link in links if link.endswith(wheel.name)), wheel.name)
            content = download(urllib.parse.urljoin(page, link))
            if f"sha256:{hashlib.sha256(content).hexdigest()}" in lock:
                wheel.write_bytes(content)
                return wheel
    sys.exit(NO_INSTALLER)


def download(address: str) -> bytes:
    """Download a page or a file."""
    with urllib.request.urlopen(address, timeout=60) as response:
        return bytes(response.read())


def pip_settings() -> dict[str, str]:
    """The machine's settings for pip: its files, then its variables."""
    named, home = os.environ.get("PIP_CONFIG_FILE"), Path.home()
    user = Path(os.environ.get("XDG_CONFIG_HOME") or home / ".config")
    files: list[str | Path] = ["/etc/xdg/pip/pip.conf", "/etc/pip.conf", home / ".pip/pip.conf"]
    files += [home / "Library/Application Support/pip/pip.conf", user / "pip/pip.conf", named or ""]
    parser = configparser.RawConfigParser()
    with contextlib.suppress(configparser.Error, UnicodeDecodeError):
        parser.read([] if named == os.devnull else files)
    found: dict[str, str] = {}
    for section in filter(parser.has_section, ("global", "install")):
        found |= parser.items(section)
    found |= {name[4:].lower(): value for name, value in os.environ.items() if name[:4] == "PIP_"}
    return {name.replace("_", "-"): value for name, value in found.items() if value}


def uv_settings() -> dict[str, str]:
    """Pip's settings as variables of uv; like pip, it searches every index for a pinned file."""
    pip = pip_settings()
    names = {
        "index-url": "UV_DEFAULT_INDEX",
        "extra-index-url": "UV_INDEX",
        "find-links": "UV_FIND_LINKS",
        "trusted-host": "UV_INSECURE_HOST",
        "cert": "SSL_CERT_FILE",
    }
    settings = {names[name]: " ".join(pip[name].split()) for name in names if name in pip}
    if "UV_FIND_LINKS" in settings:
        settings["UV_FIND_LINKS"] = settings["UV_FIND_LINKS"].replace(" ", ",")
    return {"UV_INDEX_STRATEGY": "unsafe-best-match", **settings}


if __name__ == "__main__":
    match sys.argv[1:]:
        case ["is-ready", profile] if profile in PROFILES:
            sys.exit(not is_ready(profile))
        case ["prepare", profile] if profile in PROFILES:
            try:
                prepare(profile)
            except KeyboardInterrupt:
                sys.exit(130)
        case _:
            sys.exit(__doc__)
