"""A server that gives the answers of a test, and records the commands that it receives."""

from __future__ import annotations

import contextlib
import socket
import threading
from collections.abc import Mapping
from typing import BinaryIO, Self

HOST = "127.0.0.1"

CUT = b""
"""Instead of an answer: close the connection."""

INFO = "redis_version:7.2.4\nvalkey_version:8.0.0\nrole:master\nmaxmemory_policy:noeviction\n"


def bulk(text: str) -> bytes:
    return b"$%d\r\n%s\r\n" % (len(text.encode()), text.encode())


def array(*items: bytes) -> bytes:
    return b"*%d\r\n%s" % (len(items), b"".join(items))


def mapping(pairs: Mapping[str, object]) -> bytes:
    words = [bulk(str(word)) for name, value in pairs.items() for word in (name, value)]
    return b"%%%d\r\n%s" % (len(pairs), b"".join(words))


def error(text: str) -> bytes:
    return f"-{text}\r\n".encode()


USUAL = {
    "HELLO": b"%1\r\n+proto\r\n:3\r\n",
    "INFO": bulk(INFO),
    "TYPE": b"+none\r\n",
    "SETNX": b":1\r\n",
    "GET": bulk("1"),
}
"""The answers that let a store open; to any other command, the answer is OK."""


class FakeServer:
    """Listens on a port of its own; `answers` are by command, `sent` has the received commands."""

    def __init__(self, answers: Mapping[str, bytes] = {}, otherwise: bytes = b"+OK\r\n") -> None:
        self.answers = {**USUAL, **answers}
        self.sent: list[str] = []
        self._otherwise = otherwise
        self._listener = socket.create_server((HOST, 0))
        self.port = int(self._listener.getsockname()[1])
        self._clients: list[socket.socket] = []
        self._threads = [threading.Thread(target=self._welcome)]

    def times(self, command: str) -> int:
        """How many times a command was sent."""
        return self.sent.count(command)

    def __enter__(self) -> Self:
        self._threads[0].start()
        return self

    def __exit__(self, *_error: object) -> None:
        self._listener.shutdown(socket.SHUT_RDWR)
        self._threads[0].join()
        for client in self._clients:
            with contextlib.suppress(OSError):  # it was cut
                client.shutdown(socket.SHUT_RDWR)
        for thread in self._threads:
            thread.join()
        self._listener.close()

    def _welcome(self) -> None:
        while True:
            try:
                client, _ = self._listener.accept()
            except OSError:
                return
            thread = threading.Thread(target=self._serve, args=(client,))
            self._clients.append(client)
            self._threads.append(thread)
            thread.start()

    def _serve(self, client: socket.socket) -> None:
        with client, client.makefile("rb") as stream:
            while head := stream.readline():
                words = [self._read_word(stream) for _ in range(int(head[1:]))]
                command = words[0].decode().upper()
                self.sent.append(command)
                answer = self.answers.get(command, self._otherwise)
                if answer is CUT:
                    return
                client.sendall(answer)

    @staticmethod
    def _read_word(stream: BinaryIO) -> bytes:
        size = int(stream.readline()[1:])
        return stream.read(size + 2)[:-2]
