import copy
import inspect
import pickle

import pytest

from ackline.core import errors
from ackline.core.errors import AcklineError, JobFailed, LeaseLost, WrongState
from ackline.core.events import Act
from ackline.core.job import Failure, State

CLASSES = [
    value
    for value in vars(errors).values()
    if inspect.isclass(value) and issubclass(value, AcklineError)
]


def test_every_error_is_in_the_tree_that_the_module_draws():
    tree = errors.__doc__ or ""

    assert [error.__name__ for error in CLASSES if error.__name__ not in tree] == []


def test_errors_are_also_what_python_programs_expect():
    assert issubclass(errors.Timeout, TimeoutError)
    assert issubclass(errors.JobNotFound, LookupError)
    assert issubclass(errors.ConfigError, ValueError)


def test_messages_say_what_happened_and_where_the_job_stands():
    failure = Failure(act=Act.FAIL, attempt=3, type="ValueError", message="boom")

    assert "ValueError: boom" in str(JobFailed("a", failure))
    assert "no error was recorded" in str(JobFailed("a", None))
    assert "it is completed now" in str(LeaseLost("a", State.COMPLETED))
    assert "it is gone" in str(LeaseLost("a", None))
    assert str(WrongState("redrive", "a", State.QUEUED)) == "cannot redrive job 'a': it is queued"


def test_a_lost_lease_tells_that_nothing_was_changed():
    assert "nothing was changed" in str(LeaseLost("a", None))


FAILURE = Failure(act="fail", attempt=1, type="ValueError", message="boom")


@pytest.mark.parametrize(
    "error",
    [
        errors.UnknownStore("x://", ["memory"]),
        errors.MissingExtra("redis", "redis"),
        errors.PayloadTooLarge("payload", 5, 3),
        errors.Timeout("too long"),
        errors.JobNotFound("q", "x"),
        errors.JobFailed("x", FAILURE),
        errors.JobCancelled("x"),
        errors.WrongState("edit", "x", State.QUEUED),
        errors.QueueNotEmpty("q", 3),
        errors.LeaseLost("x", None, "complete"),
        errors.EventsDropped("q", "1.0", "2.0"),
        errors.HandlersHang("q"),
        errors.ReaderMoved("q", "r", "1.0"),
        errors.KeysChanged("q"),
        errors.StoreUnavailable("away"),
    ],
    ids=lambda error: type(error).__name__,
)
def test_an_error_can_be_sent_to_another_process(error: errors.AcklineError):
    """As pools of processes do; else they break instead of telling."""
    error.add_note("seen in passing")

    for copied in (pickle.loads(pickle.dumps(error)), copy.copy(error)):
        assert type(copied) is type(error)
        assert str(copied) == str(error)
        assert vars(copied) == vars(error)
