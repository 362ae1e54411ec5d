"""What goes wrong inside Spark is said as an error of ours, without Java's part."""

from __future__ import annotations

import warnings

import pytest
from pyspark.errors import PySparkException, SparkRuntimeException

from ackline.cli.exits import CommandError, error_message, exit_code
from ackline.cli.pipeline.spark_errors import stopping_spark
from ackline.core.errors import AcklineError, EventsDropped
from ackline.spark.writing.rejected_rows import RowsRejected

PRUNED = """[STREAM_FAILED] Query [id = 3945] terminated with exception: Traceback (most recent):
  File "events_stream.py", line 77, in latestOffset
    return self._try(lambda: self._latest(start, most))
           ^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^
ackline.core.errors.EventsDropped: the journal of queue 'old' has dropped events behind 2.0: read on
 SQLSTATE: 38000 SQLSTATE: XXKST
=== Streaming Query ===
Identifier: [id = 39450c11]
"""

REFUSED = """An exception was thrown from the Python worker. Please see the stack trace below.
Traceback (most recent call last):
  File "writer.py", line 41, in enqueue_rows
    raise RowsRejected(rejected, written + known)
ackline.spark.writing.rejected_rows.RowsRejected: 2 rows were refused:
  {"id": null}: the row has no id
  {"id": "x"}: the payload is no JSON

\tat org.apache.spark.api.python.BasePythonRunner
"""


class Stoppable:
    stopped = False

    def stop(self):
        self.stopped = True


def raised(error):
    spark = Stoppable()
    with pytest.raises(Exception, match=r".") as caught, stopping_spark(spark):
        raise error
    assert spark.stopped
    return caught.value


def test_an_error_of_ours_comes_out_of_spark_as_it_went_in():
    error = raised(PySparkException(PRUNED))

    assert isinstance(error, EventsDropped)
    assert error_message(error) == (
        "the journal of queue 'old' has dropped events behind 2.0: read on"
    )


def test_a_message_of_several_lines_is_whole():
    error = raised(PySparkException(REFUSED))

    assert isinstance(error, RowsRejected)
    assert exit_code(error) == 2
    assert error_message(error).splitlines()[1:] == [
        '  {"id": null}: the row has no id',
        '  {"id": "x"}: the payload is no JSON',
    ]


@pytest.mark.parametrize(
    "named", ["ackline.nope.Foo", "ackline.core.errors.Nope", "ackline.queue.Queue"]
)
def test_an_error_that_is_not_known_here_says_what_it_says(named):
    error = raised(PySparkException(f"Traceback (most recent call last):\n{named}: boom\n"))

    assert type(error) is AcklineError
    assert error_message(error) == "boom"


def test_a_mistake_in_sql_that_shows_in_a_row_is_one_of_the_command():
    error = raised(SparkRuntimeException("[USER_RAISED_EXCEPTION] no\n== SQL ==\nat java"))

    assert exit_code(error) == 2
    assert error_message(error) == "Spark rejected it: [USER_RAISED_EXCEPTION] no"


def test_what_else_happens_to_spark_is_not_called_a_bug():
    error = raised(PySparkException("Job aborted: no space left\n\tat java"))

    assert exit_code(error) == 1
    assert error_message(error).startswith("Spark failed: Job aborted: no space left\nRun it again")


def test_other_errors_are_left_alone():
    assert isinstance(raised(ValueError("x")), ValueError)


def interrupted(then=None):
    try:
        raise KeyboardInterrupt
    finally:
        if then is not None:
            raise then


@pytest.mark.parametrize("then", [None, PySparkException("Connection refused")])
def test_ctrl_c_is_answered_with_one_line_even_if_it_cannot_end_well(then):
    spark = Stoppable()
    with pytest.raises(CommandError) as caught, stopping_spark(spark, "the next run continues"):
        interrupted(then)

    assert spark.stopped
    assert exit_code(caught.value) == 130
    assert error_message(caught.value) == "stopped: the next run continues"


def test_a_spark_that_ctrl_c_has_ended_says_nothing_when_it_is_stopped(recwarn):
    class Ended:
        def stop(self):
            warnings.warn("Unable to cleanly shutdown", RuntimeWarning, stacklevel=2)
            raise ConnectionRefusedError

    with pytest.raises(CommandError, match="stopped"), stopping_spark(Ended()):
        interrupted()

    assert not recwarn


@pytest.mark.parametrize(
    "error",
    [
        SparkRuntimeException("[CAST_INVALID_INPUT] The value '\x1b[31mred' is malformed"),
        PySparkException("Job aborted: '\x1b[31mred'"),
        PySparkException("Traceback:\nackline.errors.InvalidJob: '\x1b[31mred'\n"),
    ],
)
def test_what_a_job_says_cannot_steer_the_terminal(error):
    message = error_message(raised(error))

    assert "\x1b" not in message
    assert "[31mred" in message
