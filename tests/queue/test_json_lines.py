"""A line of an export says all that can be said about a job."""

import msgspec

from ackline import Queues
from ackline.core.job import Options, QueueKey
from ackline.queue.transfer.documents import JobDocument
from ackline.queue.transfer.export import encode_line
from ackline.queue.transfer.import_jobs import IGNORED
from ackline.stores.memory import MemoryStore

OF_REQUEST = "request"
"""Knows the request that made a job, which nobody sends again to where a line goes."""


def test_a_line_has_every_option_of_a_job():
    assert {*Options.__struct_fields__} - {OF_REQUEST} <= {*JobDocument.__struct_fields__} - IGNORED


def test_a_result_that_is_not_json_leaves_the_line_one():
    with Queues(MemoryStore()) as queues:
        queue = queues.queue("email", result_serde="msgpack")
        queue.enqueue(1, id="a")
        [job] = queue.claim()
        job.report({"at": 1})
        queue.complete(job, {"a": 1})
        [record] = queues.store.get(QueueKey("default", "email"), ["a"])

    assert record is not None
    line = msgspec.json.decode(encode_line(record, "email"))

    assert line["result"] == {"base64": "gaFhAQ==", "codec": "unknown"}
    assert line["progress"] == {"base64": "gaJhdAE=", "codec": "unknown"}
    assert line["payload"] == 1
