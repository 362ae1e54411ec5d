"""Runs scripts, and never resends anything by itself."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any

import redis
from redis.backoff import NoBackoff
from redis.cluster import ClusterNode, RedisCluster
from redis.exceptions import NoScriptError
from redis.retry import Retry
from redis.sentinel import Sentinel

from ackline.core.errors import ConfigError, StoreClosed, StoreUnavailable
from ackline.stores.redis.io.address import Address
from ackline.stores.redis.io.client import DirectClient, Subscriber
from ackline.stores.redis.io.errors import TranslateErrors
from ackline.stores.redis.lua import Script, script

WAIT_SHARE = 0.8
"""The share of the timeout for which a server waits for replicas or a sync before it answers."""

MAX_CONNECTIONS = 2**31

Argument = bytes | str | int | float


class Connection:
    """One client for all threads of a store; each call has a connection of its own."""

    def __init__(self, address: Address, client: redis.Redis | None = None) -> None:
        self.address = address
        self._settings_of = client
        self.where = str(address)
        self.translate_errors = TranslateErrors(self.where, address.prefix)
        """A context in which the client's errors are raised as Ackline's."""
        self._client: Any = None
        self._direct: Any = None

    def open(self) -> None:
        """Create the client; only the client of a cluster connects immediately."""
        if self._client is None:
            with self.translate_errors:
                self._client = (
                    _make_client(self.address)
                    if self._settings_of is None
                    else _client_like(self._settings_of, self.address)
                )
                # The client of a cluster has to find the node, that of sentinels the primary.
                if self.address.mode in ("cluster", "sentinel"):
                    self._direct = self._client
                else:
                    self._direct = DirectClient(self._client.connection_pool)

    def close(self) -> None:
        """Close all connections."""
        if self._client is not None:
            client, self._client = self._client, None
            self._direct.close()
            client.close()

    @property
    def client(self) -> Any:
        """The client library's client, for commands that are not scripts."""
        self.require_open()
        return self._client

    def require_open(self) -> None:
        """Raise `StoreClosed` if it is closed."""
        if self._client is None:
            raise StoreClosed(f"the store at {self.where} is closed: call open() first")

    @property
    def waits_for_durability(self) -> bool:
        """Whether changes are answered only once they are on replicas or on disk."""
        return bool(self.address.replicas or self.address.fsync)

    @property
    def clustered(self) -> bool:
        return self.address.mode == "cluster"

    def run(self, name: str, keys: Sequence[str], arguments: Iterable[Argument] = ()) -> Any:
        """Run a script."""
        call = (len(keys), *keys, *arguments)
        with self.translate_errors:
            self.require_open()
            return _evaluate(self._direct, script(name), call)

    def run_durably(
        self, name: str, keys: Sequence[str], arguments: Iterable[Argument] = ()
    ) -> Any:
        """Run a script, and wait until its change is as durable as the URL requires."""
        if not self.waits_for_durability:
            return self.run(name, keys, arguments)
        call = (len(keys), *keys, *arguments)
        with self.translate_errors, self.client.client() as client:
            # All on one connection: a server waits for what that connection has written.
            answer = _evaluate(client, script(name), call)
            counters = f"{self.address.prefix}:counters"
            _evaluate(client, script("write_marker"), (2, counters, counters, ""))
            self._wait_for_durability(client)
        return answer

    def _wait_for_durability(self, client: Any) -> None:
        address = self.address
        milliseconds = int(address.timeout * WAIT_SHARE * 1000)
        if address.replicas:
            confirmed = client.execute_command("WAIT", address.replicas, milliseconds)
            if confirmed < address.replicas:
                raise StoreUnavailable(
                    f"{self.where} stored it, but only {confirmed} of {address.replicas} replicas "
                    "confirmed in time; it is safe to retry"
                )
        if address.fsync:
            synced = client.execute_command("WAITAOF", 1, 0, milliseconds)
            if not synced[0]:
                raise StoreUnavailable(
                    f"{self.where} stored it, but did not sync it to disk in time; "
                    "it is safe to retry"
                )

    def subscribe(self, channels: Sequence[str]) -> Subscriber:
        """A connection that receives the messages of these channels."""
        with self.translate_errors:
            client = self.client
            if self.clustered:
                name = channels[0] if channels else self.address.prefix
                client = client.get_redis_connection(client.get_node_from_key(name))
            pool = client.connection_pool
            subscriber = Subscriber(pool.make_connection(), self.address.timeout)
            try:
                subscriber.subscribe(channels)
            except BaseException:
                subscriber.close()
                raise
        return subscriber


def _evaluate(client: Any, wanted: Script, call: tuple[Any, ...]) -> Any:
    try:
        return client.execute_command("EVALSHA", wanted.sha, *call)
    except NoScriptError:
        # After a restart or a failover the server does not know the script: nothing has run yet.
        return client.execute_command("EVAL", wanted.text, *call)


def _sentinel_options(address: Address, common: dict[str, Any]) -> dict[str, Any]:
    """Sentinels have their own users; all other options are the same as for the server."""
    excluded = ("username", "password", "retry_on_error", "protocol")
    return {name: value for name, value in common.items() if name not in excluded} | {
        "username": address.sentinel_user,
        "password": address.sentinel_password,
    }


def _required_options(address: Address) -> dict[str, Any]:
    """Options that do not depend on the server."""
    return {
        "socket_timeout": address.timeout,
        "socket_connect_timeout": address.timeout,
        "protocol": 2,
        # Each thread needs its own at the same time: with the default limit, calls would fail.
        "max_connections": MAX_CONNECTIONS,
        # A lost reply must not run anything twice: the caller decides whether to retry.
        "retry": Retry(NoBackoff(), 0),
    }


def address_of(client: redis.Redis) -> Address:
    """Where a client's server is; raises for a client whose settings cannot be used."""
    pool = client.connection_pool
    if type(pool) not in _POOLS:
        raise ConfigError(
            f"{client!r} is not a redis.Redis of one server: open the store by its URL, "
            "such as redis://host or redis+sentinel://host/name"
        )
    options = pool.connection_kwargs
    return Address(
        mode="single",
        hosts=((options.get("host", "localhost"), int(options.get("port", 6379))),),
        socket=options.get("path"),
        database=int(options.get("db") or 0),
        timeout=options.get("socket_timeout") or DEFAULT_TIMEOUT,
    )


_POOLS = (redis.ConnectionPool, redis.BlockingConnectionPool)
_KEPT_SETTINGS = (
    "host",
    "port",
    "path",
    "db",
    "username",
    "password",
    "credential_provider",
    "client_name",
    "socket_keepalive",
    "socket_keepalive_options",
)
DEFAULT_TIMEOUT = Address(mode="single").timeout


def _client_like(client: redis.Redis, address: Address) -> redis.Redis:
    """A client with another's settings, but for what the store itself requires."""
    pool = client.connection_pool
    options = {
        name: value
        for name, value in pool.connection_kwargs.items()
        if name in _KEPT_SETTINGS or name.startswith("ssl_")
    }
    options |= _required_options(address)
    return redis.Redis(
        connection_pool=redis.ConnectionPool(connection_class=pool.connection_class, **options)
    )


def _make_client(address: Address) -> Any:
    common: dict[str, Any] = {
        "username": address.username,
        "password": address.password,
        "ssl": address.tls,
        "socket_keepalive": True,
        **_required_options(address),
    }
    if address.tls:
        common |= {
            "ssl_ca_certs": address.ca,
            "ssl_certfile": address.cert,
            "ssl_keyfile": address.key,
        }
    if address.mode == "cluster":
        nodes = [ClusterNode(host, port) for host, port in address.hosts]  # type: ignore[no-untyped-call]
        return RedisCluster(startup_nodes=nodes, **common)
    common["retry_on_error"] = []
    if address.mode == "sentinel":
        sentinels = Sentinel(  # type: ignore[no-untyped-call]
            list(address.hosts),
            sentinel_kwargs=_sentinel_options(address, common),
            **common,
        )
        return sentinels.master_for(address.service, db=address.database)  # type: ignore[no-untyped-call]
    if address.socket is not None:
        del common["ssl"], common["socket_keepalive"]
        return redis.Redis(unix_socket_path=address.socket, db=address.database, **common)
    host, port = address.hosts[0]
    return redis.Redis(host=host, port=port, db=address.database, **common)
