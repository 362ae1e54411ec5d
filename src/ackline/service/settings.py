"""The settings of `ackline serve`: from a file, the environment and flags; the later wins."""

from __future__ import annotations

import ipaddress
import os
import tomllib
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import msgspec

from ackline.core import retry
from ackline.core.config import DEFAULTS, ResolvedPolicy
from ackline.core.errors import ConfigError
from ackline.core.limits import MAX_DELAY
from ackline.service.auth.credentials import ApiKey, Issuer
from ackline.service.limits.tenant_limits import TenantLimits
from ackline.service.webhooks.settings import WebhookSettings

PREFIX = "ACKLINE_"

COMPATIBLE_VARIABLES: Mapping[str, tuple[str, float]] = {
    "ACK_TIMEOUT_SECONDS": ("lease", 1.0),
    "MAX_ATTEMPTS": ("max_attempts", 1),
    "REQUEUE_BATCH_SIZE": ("sweep_batch", 1),
    "OVERDUE_CHECK_INTERVAL_MS": ("sweep_every", 0.001),
}
"""Variables that similar queues use: their setting, and the factor to its unit."""

MANIFEST = "manifest.yaml"
"""Read from the working directory by `ackline serve`, unless it is given another file."""

MANIFEST_NAMES: Mapping[str, tuple[str, float]] = {
    "lockDuration": ("lease", 0.001),
    "cleanupInterval": ("sweep_every", 0.001),
}
"""The names in the `queue` section of a file; its times are in milliseconds."""

FILE_ONLY = ("issuers", "api_keys", "limits", "tenants", "webhooks")
"""Settings with fields of their own, which do not fit into an environment variable."""


class Settings(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """All settings of the service; times are in seconds."""

    store: str = "sqlite:///ackline.db"
    host: str = "127.0.0.1"
    port: int = 8000
    """0 picks a free port."""
    processes: int = 1
    base_path: str = "/api"
    lake: str = ""
    """The lake of `ackline pipeline run`; the dashboard shows its statistics."""

    lease: float = DEFAULTS.lease
    """How long a job is leased, unless the job or its queue sets its own lease."""
    max_attempts: int | None = None
    """Attempts before the DLQ, unless the job or its queue says; None means one more than
    `backoff` has delays."""
    backoff: tuple[float, ...] = (1.0, 5.0, 10.0)
    """Delays between attempts, unless the job or its queue sets its own backoff."""

    maintenance: bool = True
    """Whether this process expires leases, promotes, prunes, fires schedules and calls webhooks."""
    sweep_every: float = 1.0
    """How often to expire lapsed leases; 0 leaves this to claims."""
    sweep_batch: int = 100
    """Maximum number of leases that one sweep of a queue expires."""

    max_body: int = 16 * 1024 * 1024
    """Maximum size of a request in bytes; larger ones are refused before they are read."""
    max_bodies: int = 128 * 1024 * 1024
    """Maximum total bytes of the requests that a process receives and handles at the same time;
    beyond it, the request that has stalled longest is refused. At least `max_body`."""
    max_payload: int = 1024 * 1024
    """Maximum bytes of a payload or result."""
    max_batch: int = 1000
    """Maximum number of jobs in one request."""
    receive_timeout: float = 8.0
    """How long a client may take to send a request; large bodies get more time."""
    send_timeout: float = 30.0
    """How long a client may take to read a response before it is disconnected."""
    idle_timeout: float = 60.0
    """How long an idle connection is kept open between requests."""
    ping_every: float = 15.0
    """How often an idle stream sends a ping."""
    drain: float = 0.5
    """At shutdown: how long /readyz answers 503 before connections are refused."""
    grace: float = 10.0
    """At shutdown: how long requests in progress may take."""

    limits: TenantLimits = TenantLimits()
    """Limits of every tenant; in the file only, as `[limits]`. Nothing is limited by default."""
    tenants: Mapping[str, TenantLimits] = {}
    """Limits of single tenants; in the file only, as `[tenants.NAME]`."""
    login_failures: float = 60.0
    """Invalid JWTs and API keys accepted per minute from one address; 0 means no limit."""

    issuers: tuple[Issuer, ...] = ()
    """Issuers whose JWTs are accepted; in the file only, as `[[issuers]]`."""
    api_keys: tuple[ApiKey, ...] = ()
    """Accepted API keys, as hashes; in the file only, as `[[api_keys]]`."""
    stored_keys: bool = False
    """Whether to accept the API keys that `ackline token create` keeps in the store."""
    webhooks: WebhookSettings = WebhookSettings()
    """Webhook destinations, retries and concurrency; in the file only, as `[webhooks]`."""

    def __post_init__(self) -> None:
        _require("port", 0 <= self.port <= 65535, "from 0 to 65535", self.port)
        for name in ("processes", "max_attempts", "sweep_batch", "max_body", "max_payload"):
            value = getattr(self, name)
            _require(name, value is None or value >= 1, "1 or more", value)
        _require(
            "max_bodies", self.max_bodies >= self.max_body, "max_body or more", self.max_bodies
        )
        _require("max_batch", 1 <= self.max_batch <= 10_000, "from 1 to 10,000", self.max_batch)
        timeouts = ("receive_timeout", "send_timeout", "idle_timeout")
        for name in ("lease", "ping_every", *timeouts):
            value = getattr(self, name)
            _require(name, 0 < value <= MAX_DELAY, "above 0", value)
        for name in ("sweep_every", "drain", "grace", "login_failures"):
            value = getattr(self, name)
            _require(name, 0 <= value <= MAX_DELAY, "0 or more", value)
        _require("backoff", bool(self.backoff), "one delay or more", self.backoff)
        plain = self.base_path.startswith("/") and not set(self.base_path) & set("{}?#% ")
        _require("base_path", plain, "a path such as /api", self.base_path)

    @property
    def base(self) -> str:
        """The base path without a trailing slash; empty for the root."""
        return self.base_path.rstrip("/")

    @property
    def auth(self) -> bool:
        """Whether callers have to authenticate."""
        return bool(self.issuers or self.api_keys or self.stored_keys)

    @property
    def loopback(self) -> bool:
        """Whether the service can only be reached from this machine."""
        if self.host == "localhost":
            return True
        try:
            return ipaddress.ip_address(self.host).is_loopback
        except ValueError:
            return False

    @property
    def defaults(self) -> ResolvedPolicy:
        """The policy of jobs for which neither they, their kind nor their queue set one."""
        return msgspec.structs.replace(
            DEFAULTS,
            lease=self.lease,
            max_attempts=self.max_attempts or len(self.backoff) + 1,
            backoff=retry.schedule(self.backoff),
        )


def load(
    file: Path | None = None,
    environment: Mapping[str, str] | None = None,
    flags: Mapping[str, Any] | None = None,
) -> Settings:
    """Read the settings: defaults, then the file, the environment and the given flags.

    >>> load(environment={"ACK_TIMEOUT_SECONDS": "60"}, flags={"port": 9000}).lease
    60.0
    """
    values: dict[str, Any] = {}
    if file is not None:
        values |= _from_file(file)
    values |= _from_environment(os.environ if environment is None else environment)
    given = {name: value for name, value in (flags or {}).items() if value is not None}
    for name, value in given.items():
        _settings({name: value}, f"--{name.replace('_', '-')} {value}")
    return _settings(values | given, "the settings together")


def _from_file(file: Path) -> dict[str, Any]:
    values = _decode_file(file)
    queue = values.pop("queue", {})
    if file.name == MANIFEST:
        values = {}  # its other sections are of other programs
    if not isinstance(queue, dict) or queue.keys() - MANIFEST_NAMES.keys():
        known = ", ".join(MANIFEST_NAMES)
        raise ConfigError(f"{file}: the section queue can only have {known}")
    for name, value in queue.items():
        field, unit = MANIFEST_NAMES[name]
        values.setdefault(field, _number(f"{file}: queue.{name}", value) * unit)
    _settings(values, str(file))
    return values


def _decode_file(file: Path) -> dict[str, Any]:
    language = "YAML" if file.suffix in (".yaml", ".yml") else "TOML"
    try:
        text = file.read_text()
        values = msgspec.yaml.decode(text) if language == "YAML" else tomllib.loads(text)
    except OSError as error:
        raise ConfigError(f"cannot read {file}: {error.strerror}") from None
    except (tomllib.TOMLDecodeError, msgspec.DecodeError, UnicodeDecodeError) as error:
        raise ConfigError(f"{file} is not valid {language}: {error}") from None
    if values is None:  # an empty YAML file
        return {}
    if not isinstance(values, dict):
        raise ConfigError(f"{file} must contain settings by name, not {type(values).__name__}")
    return values


def _from_environment(environment: Mapping[str, str]) -> dict[str, Any]:
    values: dict[str, Any] = {}
    for name, (field, unit) in COMPATIBLE_VARIABLES.items():
        if name in environment:
            values[field] = _number(name, environment[name]) * unit
    for field in Settings.__struct_fields__:
        name = PREFIX + field.upper()
        if name in environment and field in FILE_ONLY:
            raise ConfigError(f"{name} is not supported: set {field} in the file of --config")
        if name in environment:
            values[field] = _read(name, environment[name], field)
    return values


def _read(name: str, text: str, field: str) -> Any:
    value: Any = [part.strip() for part in text.split(",")] if field == "backoff" else text
    try:
        return msgspec.to_builtins(getattr(_convert({field: value}), field))
    except msgspec.ValidationError as error:
        raise ConfigError(f"{name}={text!r} is not valid: {error}") from None


def _number(name: str, value: Any) -> float:
    try:
        if isinstance(value, bool):
            raise ValueError
        number = float(value)
    except (TypeError, ValueError):
        raise ConfigError(f"{name} must be a number, not {value!r}") from None
    return int(number) if number.is_integer() else number


def _settings(values: Mapping[str, Any], where: str) -> Settings:
    try:
        return _convert(values)
    except msgspec.ValidationError as error:
        raise ConfigError(f"{where} is not valid: {error}") from None


def _convert(values: Mapping[str, Any]) -> Settings:
    return msgspec.convert(values, Settings, strict=False)


def _require(name: str, valid: bool, expected: str, value: object) -> None:
    if not valid:
        raise ValueError(f"{name} must be {expected}, not {value!r}")
