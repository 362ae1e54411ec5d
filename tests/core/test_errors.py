import inspect

from ackline import errors
from ackline.errors import AcklineError, JobFailed, LeaseLost, WrongState
from ackline.events import Act
from ackline.job import Failure, State

CLASSES = [
    value
    for value in vars(errors).values()
    if inspect.isclass(value) and issubclass(value, AcklineError)
]


def test_every_error_is_in_the_tree_that_the_module_draws():
    drawn = errors.__doc__ or ""

    assert [error.__name__ for error in CLASSES if error.__name__ not in drawn] == []


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
