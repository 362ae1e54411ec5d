"""Private servers for tests: started on loopback in a moment, gone with the test.

>>> from tests.harness.servers.redis import RedisServer
>>> with RedisServer() as server:  # doctest: +SKIP
...     queues = ackline.open(server.url)

A server is for the process that started it: under pytest-xdist, a session fixture makes one
for each worker process.
"""
