"""Private servers for tests, on loopback.

>>> from tests.harness.servers.redis import RedisServer
>>> with RedisServer() as server:  # doctest: +SKIP
...     queues = ackline.open(server.url)

A server ends with the process that started it. Under pytest-xdist, a session fixture starts one for
each worker process.
"""
