"""Send statements to the server, and read their results, in as few messages as possible.

psycopg's own pipeline sends every statement at once. Here, statements are sent together when rows
are needed, or at the end. Each is prepared once per connection. Lists are sent in PostgreSQL's
binary format with a fixed type, because psycopg would derive it from the values: an empty list, or
one of small numbers, would need another prepared statement.
"""

from __future__ import annotations

import contextlib
import math
import re
import select
import struct
import time
from collections import deque
from collections.abc import Callable, Mapping, Sequence
from typing import Any, NamedTuple, Self

import psycopg
from psycopg import abc
from psycopg.abc import AdaptContext
from psycopg.adapt import Dumper, Transformer
from psycopg.pq import ExecStatus, Format
from psycopg.pq.abc import PGconn, PGresult
from psycopg.types.numeric import Int8BinaryDumper

_HEAD = struct.Struct(">iiIii").pack
_LENGTH = struct.Struct(">i").pack
_NULL = _LENGTH(-1)


class Ints:
    """Integers, sent as bigint[]."""

    oid = 1016
    __slots__ = ("values",)

    def __init__(self, values: Sequence[int]) -> None:
        self.values = values

    def dump(self) -> bytes:
        return _fixed(20, "q", self.values)


class Floats:
    """Floats, sent as double precision[]."""

    oid = 1022
    __slots__ = ("values",)

    def __init__(self, values: Sequence[float]) -> None:
        self.values = values

    def dump(self) -> bytes:
        return _fixed(701, "d", self.values)


class ByteStrings:
    """Byte strings or None, sent as bytea[]."""

    oid = 1001
    __slots__ = ("values",)

    def __init__(self, values: Sequence[bytes | None]) -> None:
        self.values = values

    def dump(self) -> bytes:
        return _of_any_length(17, self.values)


def dump_texts(values: Sequence[str]) -> bytes:
    """Encode strings as text[]."""
    return _of_any_length(25, [value.encode() for value in values])


def _fixed(kind: int, code: str, values: Sequence[Any]) -> bytes:
    count = len(values)
    flat: list[Any] = [8] * (2 * count)
    flat[1::2] = values
    return _HEAD(1, 0, kind, count, 1) + struct.pack(f">{('i' + code) * count}", *flat)


def _of_any_length(kind: int, values: Sequence[bytes | None]) -> bytes:
    parts = [_HEAD(1, 1, kind, len(values), 1)]
    for value in values:
        if value is None:
            parts.append(_NULL)
        else:
            parts += (_LENGTH(len(value)), value)
    return b"".join(parts)


class _ListDumper(Dumper):
    """Lets psycopg's cursors send these lists."""

    format = Format.BINARY

    def dump(self, obj: Ints | Floats | ByteStrings) -> bytes:
        return obj.dump()


class _IntsDumper(_ListDumper):
    oid = Ints.oid


class _FloatsDumper(_ListDumper):
    oid = Floats.oid


class _ByteStringsDumper(_ListDumper):
    oid = ByteStrings.oid


def register_adapters(context: AdaptContext) -> None:
    """Let a connection send these lists, and any int as bigint."""
    adapters = context.adapters
    adapters.register_dumper(Ints, _IntsDumper)
    adapters.register_dumper(Floats, _FloatsDumper)
    adapters.register_dumper(ByteStrings, _ByteStringsDumper)
    adapters.register_dumper(int, Int8BinaryDumper)


Row = tuple[Any, ...]

Signature = tuple[str, tuple[int, ...]]
"""The name of a statement and the types of its parameters."""

NO_VALUES: Mapping[str, Any] = {}

_SUCCESS = (ExecStatus.TUPLES_OK, ExecStatus.COMMAND_OK)

_PARAMETER = re.compile(r"%\((\w+)\)[bs]")
_NUMBER = struct.Struct(">q").pack
_TIME = struct.Struct(">d").pack

_DUMPED: Mapping[type, tuple[int, Callable[[Any], bytes | None]]] = {
    type(None): (0, lambda _: None),
    int: (20, _NUMBER),
    float: (701, _TIME),
    bytes: (17, bytes),
    str: (25, str.encode),
    list: (1009, dump_texts),
    Ints: (Ints.oid, Ints.dump),
    Floats: (Floats.oid, Floats.dump),
    ByteStrings: (ByteStrings.oid, ByteStrings.dump),
}
"""Python type → the type in PostgreSQL, and the function that encodes a value."""

_OIDS = {kind: oid for kind, (oid, _) in _DUMPED.items()}
_DUMPS = {kind: dump for kind, (_, dump) in _DUMPED.items()}


class Statement(NamedTuple):
    """A statement with numbered parameters, and their names in order."""

    text: bytes
    names: tuple[str, ...]
    formats: list[Format]
    """All parameters are sent in binary format."""


def compile_statement(text: str) -> Statement:
    """Number the parameters of a statement."""
    names = tuple(dict.fromkeys(_PARAMETER.findall(text)))
    numbers = {name: f"${number}" for number, name in enumerate(names, 1)}
    numbered = _PARAMETER.sub(lambda match: numbers[match[1]], text)
    return Statement(numbered.encode(), names, [Format.BINARY] * len(names))


class Reply:
    """The result of one statement; `fetchall` waits for it."""

    __slots__ = ("_pipeline", "number", "prepares", "rows")

    def __init__(self, pipeline: Pipeline, number: int) -> None:
        self._pipeline = pipeline
        self.number = number
        self.rows: list[Row] | None = None
        self.prepares: Signature | None = None
        """The statement that is prepared once this result arrives."""

    def fetchall(self) -> list[Row]:
        """Its rows."""
        return self._pipeline.rows(self)


class Connection(psycopg.Connection[Row]):
    """A connection of the store, with the statements that it has prepared."""

    def __init__(self, pgconn: PGconn) -> None:
        super().__init__(pgconn)
        self.prepared: dict[Signature, bytes] | None = {}
        """None if each transaction may run in another session of the server."""
        self.may_block = False
        """Whether its caller may have to wait for a user's open transaction."""
        self._created_at = time.monotonic()
        self._loader: abc.Transformer | None = None

    def age(self) -> float:
        """Seconds since it was opened."""
        return time.monotonic() - self._created_at

    def is_alive(self) -> bool:
        """Whether nothing has arrived while it was idle, such as the server closing it."""
        poll = select.poll()
        poll.register(self.pgconn.socket, select.POLLIN)
        return not poll.poll(0)

    def load(self, result: PGresult) -> list[Row]:
        """The rows of a result, as Python values."""
        loader = self._loader = self._loader or Transformer(self)
        loader.set_pgresult(result)
        return loader.load_rows(0, result.ntuples, tuple)


class Pipeline:
    """Statements that are sent together; leaving the block reads all results."""

    def __init__(self, connection: Connection, statements: Mapping[str, Statement]) -> None:
        self.connection = connection
        self._pgconn = connection.pgconn
        self._statements = statements
        self._expected: deque[Reply] = deque()
        self._preparing: dict[Signature, bytes] = {}
        self._sent = 0
        self._flushed_up_to = 0
        """The number of the last statement that the server was told to flush."""
        self._needed = math.inf
        self.ignored_error: psycopg.Error | None = None
        """The first error of the statements sent after `ignore_later_errors`."""

    def ignore_later_errors(self) -> None:
        """Ignore errors of the statements that are sent from now on."""
        self._needed = self._sent

    def __enter__(self) -> Self:
        self._pgconn.enter_pipeline_mode()
        return self

    def __exit__(self, _kind: object, error: BaseException | None, _trace: object) -> None:
        if error is None:
            self._finish()
        elif isinstance(error, Exception):
            with contextlib.suppress(psycopg.Error):
                self._finish()
        else:
            # Interrupted: the server rolls the transaction back.
            self.connection.close()

    def _finish(self) -> None:
        """Read the remaining results; of several errors, raise the first."""
        failure: psycopg.Error | None = None
        self._pgconn.pipeline_sync()
        self._flush()
        self._flushed_up_to = self._sent
        while self._expected and not self.connection.broken:
            number = self._expected[0].number
            try:
                self._receive()
            except psycopg.Error as error:
                if failure is None and number > self._needed:
                    self.ignored_error = self.ignored_error or error
                else:
                    failure = failure or error
        if not self.connection.broken:
            # The result of the sync itself.
            self._read()
            self._pgconn.exit_pipeline_mode()
        if failure is not None:
            raise failure

    # --- sending ---

    def send(self, name: str, values: Mapping[str, Any] = NO_VALUES) -> Reply:
        """Add a statement to those to send."""
        statement = self._statements[name]
        given = [values[parameter] for parameter in statement.names]
        kinds = tuple([_OIDS[type(value)] for value in given])
        parameters = [_DUMPS[type(value)](value) for value in given]
        prepared = self.connection.prepared
        if prepared is None:
            self._pgconn.send_query_params(
                statement.text, parameters, kinds, statement.formats, Format.BINARY
            )
        else:
            known = prepared.get((name, kinds)) or self._prepare(name, kinds, prepared)
            self._pgconn.send_query_prepared(known, parameters, statement.formats, Format.BINARY)
        return self._expect()

    def send_early(self) -> None:
        """Send what the socket takes now; the rest follows with later statements."""
        self._pgconn.flush()

    def _prepare(
        self, name: str, kinds: tuple[int, ...], prepared: dict[Signature, bytes]
    ) -> bytes:
        known = self._preparing.get((name, kinds))
        if known is None:
            known = b"ackline_%d" % (len(prepared) + len(self._preparing))
            self._pgconn.send_prepare(known, self._statements[name].text, kinds)
            self._preparing[name, kinds] = known
            self._expect().prepares = (name, kinds)
        return known

    def _expect(self) -> Reply:
        self._sent += 1
        reply = Reply(self, self._sent)
        self._expected.append(reply)
        return reply

    # --- receiving ---

    def rows(self, reply: Reply) -> list[Row]:
        """The rows of a result; waits for it if necessary."""
        if reply.number > self._flushed_up_to:
            self._pgconn.send_flush_request()
            self._flush()
            self._flushed_up_to = self._sent
        while reply.rows is None:
            self._receive()
        return reply.rows

    def _receive(self) -> None:
        """Read the next result into its reply."""
        result = self._read()
        if result is None:
            raise psycopg.OperationalError(self._pgconn.get_error_message())
        reply = self._expected.popleft()
        # A null marks the end of the result.
        self._read()
        if result.status not in _SUCCESS:
            raise psycopg.errors.error_from_result(result)
        # Loaded now, because the connection may soon be lent to another caller.
        reply.rows = self.connection.load(result) if result.ntuples else []
        if reply.prepares is not None and self.connection.prepared is not None:
            self.connection.prepared[reply.prepares] = self._preparing.pop(reply.prepares)

    def _flush(self) -> None:
        while self._pgconn.flush():
            # The server may read no more before a result has been read.
            self._wait(select.POLLIN | select.POLLOUT)

    def _read(self) -> PGresult | None:
        while self._pgconn.is_busy():
            self._wait(select.POLLIN)
        return self._pgconn.get_result()

    def _wait(self, events: int) -> None:
        poll = select.poll()
        poll.register(self._pgconn.socket, events)
        [(_, happened)] = poll.poll()
        if happened & ~select.POLLOUT:
            self._pgconn.consume_input()
