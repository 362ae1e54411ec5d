"""Keep `.venv` in step with the lock files, with nothing but the standard library.

environment.py is-ready PROFILE   exit status 0 when `.venv` holds what PROFILE needs
environment.py prepare PROFILE    make it so

PROFILE is run, dev or bench; or spark, which is put into a folder of its own beside them, so that
it can be fetched while programs run.
"""

import configparser
import contextlib
import fcntl
import hashlib
import json
import os
import re
import shutil
import ssl
import subprocess
import sys
import tomllib
import urllib.parse
import urllib.request
import venv
from collections.abc import Iterator
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
REQUIREMENTS = ROOT / "requirements"
VENV = ROOT / ".venv"
VENV_PYTHON = VENV / "bin" / "python"
STAMP = VENV / "environment.json"

# Each profile holds all that the ones before it hold.
LOCKS = {
    "run": ["run.txt"],
    "dev": ["dev.txt"],
    "bench": ["dev.txt", "bench.txt"],
}
PROFILES = list(LOCKS)

SPARK = VENV / "spark"
SPARK_LOCK = REQUIREMENTS / "spark.txt"
SPARK_STAMP = SPARK / "environment.json"

Command = list[str]
Stamp = dict[str, str]


class SetupError(Exception):
    """`.venv` cannot be made; the message says what would help."""


def main(arguments: list[str]) -> int:
    """Run one command and return its exit status."""
    match arguments:
        case ["is-ready", "spark"]:
            return 0 if has_spark() else 1
        case ["is-ready", profile] if profile in PROFILES:
            return 0 if is_ready(profile) else 1
        case ["prepare", profile] if profile in [*PROFILES, "spark"]:
            try:
                prepare_spark() if profile == "spark" else prepare(profile)
            except SetupError as error:
                print(f"ackline: {error}", file=sys.stderr)
                return 1
            except KeyboardInterrupt:
                return 130
            return 0
        case _:
            print(__doc__, file=sys.stderr)
            return 2


# What is installed: a stamp, written last, so that an interrupted install leaves none.


def is_ready(profile: str) -> bool:
    """Whether the stamp covers this profile and nothing has changed since it was written."""
    stamp = read_stamp()
    return stamp is not None and covers(stamp, profile) and stamp == stamp_of(stamp["profile"])


def read_stamp() -> Stamp | None:
    """Read what the last finished install wrote, if it can be understood."""
    try:
        stamp = json.loads(STAMP.read_text())
    except (OSError, ValueError):
        return None
    return stamp if isinstance(stamp, dict) and stamp.get("profile") in PROFILES else None


def covers(stamp: Stamp, profile: str) -> bool:
    """Whether the stamped profile holds all that the other one does."""
    return PROFILES.index(stamp["profile"]) >= PROFILES.index(profile)


def stamp_of(profile: str) -> Stamp:
    """Describe the environment that this checkout and this Python ask for."""
    return {
        "profile": profile,
        "packages": packages_fingerprint(profile),
        "project": project_fingerprint(),
    }


def packages_fingerprint(profile: str) -> str:
    """Hash what decides the contents of `.venv`; it cannot be moved, hence the folder."""
    python = [str(sys.implementation.cache_tag), sys.base_prefix]
    locks = [(REQUIREMENTS / name).read_text() for name in LOCKS[profile]]
    return fingerprint([str(ROOT), *python, *locks])


def project_fingerprint() -> str:
    """Hash the part of pyproject.toml that an installed package repeats."""
    pyproject = tomllib.loads((ROOT / "pyproject.toml").read_text())
    build = pyproject["tool"]["hatch"]
    return fingerprint([pyproject["build-system"], pyproject["project"], build])


def fingerprint(parts: object) -> str:
    """Hash plain data."""
    return hashlib.sha256(json.dumps(parts).encode()).hexdigest()


# Making it so.


def prepare(profile: str) -> None:
    """Bring `.venv` up to the profile, one process at a time."""
    with only_one_process():
        if is_ready(profile):
            return
        stamp = read_stamp()
        # An environment that was once grown for the checks is renewed as such.
        target = stamp["profile"] if stamp and covers(stamp, profile) else profile
        print(f"ackline: setting up .venv ({target})", file=sys.stderr)
        STAMP.unlink(missing_ok=True)
        install(target, stamp)
        STAMP.write_text(json.dumps(stamp_of(target)))


# Spark, in its own folder: programs that need the rest do not wait for it.


def has_spark() -> bool:
    """Whether what the lock names is there."""
    try:
        return SPARK_STAMP.read_text() == spark_fingerprint()
    except OSError:
        return False


def spark_fingerprint() -> str:
    """Hash what decides the contents of the folder."""
    return fingerprint([str(sys.implementation.cache_tag), SPARK_LOCK.read_text()])


def prepare_spark() -> None:
    """Fetch Spark for the Python of `.venv`; if interrupted, it begins anew the next time."""
    with only_one_process("spark"):
        if has_spark():
            return
        shutil.rmtree(SPARK, ignore_errors=True)
        new = SPARK.with_suffix(".new")
        shutil.rmtree(new, ignore_errors=True)
        run(
            [
                *find_installer(),
                "--require-hashes",
                "--no-deps",
                "--target",
                str(new),
                "-r",
                str(SPARK_LOCK),
            ]
        )
        (new / SPARK_STAMP.name).write_text(spark_fingerprint())
        new.rename(SPARK)


@contextlib.contextmanager
def only_one_process(name: str = "venv") -> Iterator[None]:
    """Wait until no other process changes `.venv`; the system frees the lock of one that dies."""
    with (ROOT / f".{name}.lock").open("w") as lock:
        # Installers hold it too: one that outlives this process must not run beside the next.
        os.set_inheritable(lock.fileno(), True)
        fcntl.flock(lock, fcntl.LOCK_EX)
        yield


def install(target: str, stamp: Stamp | None) -> None:
    """Install what the stamp does not vouch for, then the package itself."""
    intact = stamp is not None and stamp["packages"] == packages_fingerprint(stamp["profile"])
    if not intact:
        create_empty_venv()
    installer = find_installer()
    if not intact or (stamp and stamp["profile"] != target):
        for lock in LOCKS[target]:
            run([*installer, "--require-hashes", "--no-deps", "-r", str(REQUIREMENTS / lock)])
    # The build backend comes from the lock, so this needs no network.
    run([*installer, "--no-deps", "--no-build-isolation", "-e", str(ROOT)])


def create_empty_venv() -> None:
    """Start over: packages that a lock no longer names must not linger."""
    if VENV.is_symlink():
        VENV.unlink()
    shutil.rmtree(VENV, ignore_errors=True)
    # Without pip, because some distributions leave out the module that would install it.
    venv.create(VENV, with_pip=False, symlinks=True)


def run(command: Command) -> None:
    """Run an install command; show its output only when it fails."""
    done = attempt(command)
    if done.returncode != 0:
        raise SetupError(f"this failed: {' '.join(command)}\n{done.stdout}")


def attempt(command: Command) -> subprocess.CompletedProcess[str]:
    """Run a command whose failure is an answer."""
    return subprocess.run(
        command,
        env=installer_environment(),
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        check=False,
        close_fds=False,
    )


def installer_environment() -> dict[str, str]:
    """Give uv pip's configuration, and keep the caller's Python settings out of both."""
    environment = {**uv_settings(pip_settings()), **os.environ}
    environment.pop("PYTHONPATH", None)
    environment.pop("PYTHONHOME", None)
    return environment | {"PIP_DISABLE_PIP_VERSION_CHECK": "1", "PIP_USER": "0"}


# Finding an installer: uv, the venv's own pip, anyone's pip, or a downloaded one.


def find_installer() -> Command:
    """Give the command that installs into `.venv`, without the names of packages."""
    if uv := shutil.which("uv"):
        return [uv, "pip", "install", "--quiet", "--python", str(VENV_PYTHON)]
    if own_pip_works() or put_pip_into_venv():
        return [str(VENV_PYTHON), "-m", "pip", "install", "--quiet"]
    if pip := find_installed_pip():
        return [*pip, "install", "--quiet"]
    if wheel := download_pip():
        run([str(VENV_PYTHON), f"{wheel}/pip", "install", "--quiet", "--no-index", str(wheel)])
        return [str(VENV_PYTHON), "-m", "pip", "install", "--quiet"]
    raise SetupError(
        "found neither uv nor pip. Any one of these helps:\n"
        "  - install uv, or pip, and have it on PATH\n"
        "  - on Debian and Ubuntu: apt install python3-venv\n"
        "  - name another Python that has pip: PYTHON=/path/to/python3\n"
        "  - name your package index: PIP_INDEX_URL=…"
    )


def own_pip_works() -> bool:
    """Whether an earlier start has put pip into `.venv`."""
    return attempt([str(VENV_PYTHON), "-m", "pip", "--version"]).returncode == 0


def put_pip_into_venv() -> bool:
    """Use the pip that comes with Python, where it does."""
    return attempt([str(VENV_PYTHON), "-m", "ensurepip"]).returncode == 0


def find_installed_pip() -> Command | None:
    """Find a pip elsewhere that is recent enough to install into another environment."""
    for pip in ([sys.executable, "-m", "pip"], ["pip3"], ["pip"]):
        command = [*pip, "--python", str(VENV_PYTHON)]
        if shutil.which(pip[0]) and attempt([*command, "--version"]).returncode == 0:
            return command
    return None


def download_pip() -> Path | None:
    """Fetch the locked pip from an index that this machine is configured with."""
    lock = (REQUIREMENTS / "installer.txt").read_text()
    [version] = re.findall(r"^pip==(\S+)", lock, re.MULTILINE)
    wheel = VENV / f"pip-{version}-py3-none-any.whl"
    settings = pip_settings()
    tls = ssl.create_default_context(cafile=settings.get("cert"))
    for index in f"{settings.get('index-url', '')} {settings.get('extra-index-url', '')}".split():
        with contextlib.suppress(OSError, ValueError):
            content = download_from_index(index, wheel.name, tls)
            if f"sha256:{hashlib.sha256(content).hexdigest()}" in lock:
                wheel.write_bytes(content)
                return wheel
    return None


def download_from_index(index: str, filename: str, tls: ssl.SSLContext) -> bytes:
    """Look a file up on the index's page for pip and fetch it."""
    page = index.rstrip("/") + "/pip/"
    if page.startswith("file:"):
        page += "index.html"
    with urllib.request.urlopen(page, timeout=60, context=tls) as response:
        links = re.findall(r'href="([^"#]+)', response.read().decode())
    for link in links:
        if link.endswith(filename):
            address = urllib.parse.urljoin(page, link)
            with urllib.request.urlopen(address, timeout=60, context=tls) as response:
                content: bytes = response.read()
            return content
    raise FileNotFoundError(filename)


# Where packages come from is the machine's business: what pip is told, uv is told too.


def pip_settings() -> dict[str, str]:
    """Read pip's configuration as pip does: files, then the environment."""
    parser = configparser.RawConfigParser()
    with contextlib.suppress(configparser.Error, UnicodeDecodeError):
        parser.read(pip_configuration_files())
    settings: dict[str, str] = {}
    for section in ("global", "install"):
        if parser.has_section(section):
            settings |= {name.replace("_", "-"): value for name, value in parser.items(section)}
    for name in ("index-url", "extra-index-url", "find-links", "cert", "trusted-host"):
        if value := os.environ.get("PIP_" + name.upper().replace("-", "_")):
            settings[name] = value
    return settings


def pip_configuration_files() -> list[Path]:
    """List the places, weakest first."""
    named = os.environ.get("PIP_CONFIG_FILE")
    if named == os.devnull:
        return []
    home = Path.home()
    configuration = Path(os.environ.get("XDG_CONFIG_HOME") or home / ".config")
    places = [
        Path("/etc/xdg/pip/pip.conf"),
        Path("/etc/pip.conf"),
        home / ".pip" / "pip.conf",
        home / "Library" / "Application Support" / "pip" / "pip.conf",
        configuration / "pip" / "pip.conf",
    ]
    return [*places, Path(named)] if named else places


def uv_settings(pip: dict[str, str]) -> dict[str, str]:
    """Translate pip's configuration into uv's variables."""
    translations = [
        ("index-url", "UV_DEFAULT_INDEX", " "),
        ("extra-index-url", "UV_INDEX", " "),
        ("find-links", "UV_FIND_LINKS", ","),
        ("trusted-host", "UV_INSECURE_HOST", " "),
        ("cert", "SSL_CERT_FILE", " "),
    ]
    # Like pip, look for a pinned file on every index; the hashes say which one is right.
    settings = {"UV_INDEX_STRATEGY": "unsafe-best-match"}
    for name, variable, separator in translations:
        if value := pip.get(name):
            settings[variable] = separator.join(value.split())
    return settings


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
