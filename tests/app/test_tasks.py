"""Tasks: enqueued, called and run by a worker."""

from __future__ import annotations

import asyncio
import datetime
from datetime import timedelta
from typing import Any

import pytest

import ackline
from ackline import (
    App,
    AsyncTask,
    Completed,
    ConfigError,
    Duplicate,
    InvalidOption,
    JobFailed,
    NewJob,
    Queued,
    State,
    Task,
    Timeout,
)
from tests.app.conftest import RunningWorker


@pytest.mark.every_store
def test_a_worker_runs_what_is_enqueued(app: App) -> None:
    @app.task(queue="email")
    def welcome(to: str, template: str = "plain") -> str:
        return f"{template}: welcome, {to}"

    queued = welcome.enqueue(to="ann")

    assert isinstance(queued, Queued)
    with RunningWorker(app):
        assert welcome.result(queued.id, wait=10) == "plain: welcome, ann"


def test_jobs_have_the_tags_of_their_task_unless_the_call_says_else(app: App) -> None:
    @app.task(queue="email", tags=["mail"])
    def welcome(to: str) -> None: ...

    welcome.enqueue("ann")
    welcome.options(tags=["vip", "mail", "vip"]).enqueue("bob")

    jobs = app.queues["email"].jobs(tags=["mail"])
    assert [job.tags for job in jobs] == [("mail",), ("mail", "vip")]


@pytest.mark.every_store
def test_a_call_returns_the_result(app: App) -> None:
    @app.task
    async def add(a: int, b: int) -> int:
        await asyncio.sleep(0)
        return a + b

    with RunningWorker(app):
        assert add.call(1, b=2) == 3
        assert add.options(wait=10).call(2, 3) == 5


async def test_a_task_is_called_from_asyncio(app: App) -> None:
    @app.task
    async def add(a: int, b: int) -> int:
        return a + b

    with RunningWorker(app):
        results = await asyncio.gather(*(add.aio.call(n, b=n) for n in range(5)))
        queued = await add.aio.enqueue(7, 8)
        assert await add.aio.result(queued.id, wait=10) == 15
        many = await add.aio.enqueue_many([{"a": 1, "b": 1}])
        assert await add.aio.result(many[0].id, wait=10) == 2
    assert results == [0, 2, 4, 6, 8]


def test_the_function_itself_is_called_as_before(app: App) -> None:
    @app.task
    def add(a: int, b: int = 2) -> int:
        """Add two numbers."""
        return a + b

    @app.task
    async def double(n: int) -> int:
        return 2 * n

    assert (add(1), add(1, b=1)) == (3, 2)
    assert asyncio.run(double(2)) == 4
    assert (add.__name__, add.__doc__) == ("add", "Add two numbers.")
    assert (type(add), type(double)) == (Task, AsyncTask)


def test_arguments_are_stored_by_name(app: App) -> None:
    @app.task(queue="email", kind="welcome")
    def welcome(to: str, at: datetime.date, template: str = "plain") -> None: ...

    queued = welcome.enqueue("ann", at=datetime.date(2027, 1, 1))

    job = app.queues["email"].status(queued.id)
    assert job is not None
    assert job.kind == "welcome"
    assert job.record.payload == b'{"to":"ann","at":"2027-01-01"}'


def test_a_job_that_another_program_enqueued_by_name_is_run(app: App) -> None:
    @app.task(kind="add")
    def add(a: int, b: int = 2) -> int:
        return a + b

    with RunningWorker(app):
        assert app.queues["default"].enqueue_and_wait({"a": 1}, kind="add") == 3


def test_a_kind_is_the_dotted_name_of_the_function(app: App) -> None:
    assert app.task(module_level).kind == "tests.app.test_tasks.module_level"


def module_level() -> None: ...


def test_options_apply_to_one_job(app: App) -> None:
    @app.task(priority=3)
    def work(n: int) -> None: ...

    urgent = work.options(id="urgent", priority=9, headers={"user": "ann"}, group="a")
    urgent.enqueue(1)
    work.options(id="later", delay=60).enqueue(2)
    work.enqueue(3)

    queue = app.queues["default"]
    [first, second] = queue.claim(10)
    assert (first.id, first.priority, first.headers) == ("urgent", 9, {"user": "ann"})
    assert second.priority == 3
    later = queue.status("later")
    assert later is not None
    assert later.state is State.SCHEDULED
    assert isinstance(urgent.enqueue(1), Duplicate)


def test_options_add_up(app: App) -> None:
    @app.task
    def work() -> None: ...

    work.options(id="a").options(priority=8).enqueue()

    [job] = app.queues["default"].claim()
    assert (job.id, job.priority) == ("a", 8)


def test_an_unknown_option_is_refused(app: App) -> None:
    @app.task
    def work() -> None: ...

    with pytest.raises(TypeError, match="Did you mean priority"):
        work.options(priorty=3)  # type: ignore[call-arg]
    with pytest.raises(TypeError, match="unknown setting"):
        app.task(attempts=3)(lambda: None)  # type: ignore[call-overload]


def test_wait_is_for_calls_alone(app: App) -> None:
    @app.task
    def work() -> None: ...

    with pytest.raises(InvalidOption, match="wait"):
        work.options(wait=3).enqueue()
    with pytest.raises(Timeout):
        work.options(wait=0.01).call()


def test_many_calls_are_enqueued_with_options_of_their_own(app: App) -> None:
    @app.task
    def work(n: int) -> None: ...

    answers = work.options(priority=7).enqueue_many(
        [{"n": 1}, NewJob({"n": 2}, id="two", priority=1)]
    )

    assert len(answers) == 2
    jobs = {job.payload.n: job for job in app.queues["default"].claim(10)}
    assert (jobs[1].priority, jobs[2].priority, jobs[2].id) == (7, 1, "two")


def test_a_completed_job_answers_with_its_result(app: App) -> None:
    @app.task
    def today() -> datetime.date:
        return datetime.date(2027, 1, 1)

    with RunningWorker(app):
        once = today.options(id="once")
        assert once.call() == datetime.date(2027, 1, 1)
        again = once.enqueue()
    assert isinstance(again, Completed)
    assert again.result == datetime.date(2027, 1, 1)


def test_settings_of_a_task_apply_to_its_jobs(app: App) -> None:
    @app.task(max_attempts=2, backoff=0)
    def fail() -> None:
        raise ValueError("no")

    with RunningWorker(app), pytest.raises(JobFailed) as raised:
        fail.call()
    assert raised.value.failure is not None
    assert raised.value.failure.attempt == 2


def test_two_tasks_need_two_names(app: App) -> None:
    @app.task(kind="work")
    def one() -> None: ...

    with pytest.raises(ConfigError, match=r"two tasks are called 'work'.*one.*two"):

        @app.task(kind="work")
        def two() -> None: ...


@pytest.mark.parametrize("wrong", ["work", object(), Task])
def test_only_a_function_becomes_a_task(app: App, wrong: Any) -> None:
    with pytest.raises(ConfigError, match="must be a function"):
        app.task(wrong)


def test_a_hook_changes_what_is_enqueued(app: App) -> None:
    @app.on_enqueue
    def add_user(request: ackline.EnqueueRequest) -> None:
        request.options["headers"] = {"user": "ann"}
        if request.task is work:
            request.arguments["n"] += 1

    @app.task
    def work(n: int) -> None: ...

    work.enqueue(1)
    work.enqueue_many([{"n": 1}])

    jobs = app.queues["default"].claim(10)
    assert [(job.payload.n, job.headers["user"]) for job in jobs] == [(2, "ann")] * 2


def test_a_hook_refuses_by_raising(app: App) -> None:
    @app.on_enqueue
    def refuse(request: ackline.EnqueueRequest) -> None:
        raise PermissionError(request.task.kind)

    @app.task(kind="work")
    def work() -> None: ...

    with pytest.raises(PermissionError, match="work"):
        work.enqueue()
    assert app.queues["default"].claim() == []


def test_an_async_hook_is_refused(app: App) -> None:
    with pytest.raises(ConfigError, match="must not be async"):

        @app.on_enqueue  # type: ignore[type-var]
        async def hook(request: ackline.EnqueueRequest) -> None: ...


def test_a_schedule_enqueues_its_task(app: App) -> None:
    @app.every("0 7 * * *", tz="Europe/Berlin", arguments={"of": "today"}, queue="reports")
    def report(of: str) -> None: ...

    @app.every("*/5 * * * *", name="often")
    @app.task(kind="tick")
    def tick() -> None: ...

    @app.every(timedelta(minutes=5))
    @app.task(kind="poll", queue="polls")
    def poll() -> None: ...

    assert [each.cron for each in app.queues["polls"].schedules] == ["@every 300s"]
    [daily] = app.queues["reports"].schedules
    [often] = app.queues["default"].schedules
    assert (daily.name, daily.payload, daily.tz) == (
        report.kind,
        {"of": "today"},
        "Europe/Berlin",
    )
    assert (often.name, often.kind) == ("often", "tick")


def test_a_schedule_needs_the_arguments_of_its_task(app: App) -> None:
    with pytest.raises(ackline.InvalidArguments, match="missing the argument 'of'"):

        @app.every("0 7 * * *")
        def report(of: str) -> None: ...


def test_a_task_within_a_schedule_has_its_settings_already(app: App) -> None:
    with pytest.raises(ConfigError, match="is a task already"):

        @app.every("0 7 * * *", queue="reports")
        @app.task
        def report() -> None: ...


def test_a_schedule_has_the_options_of_its_task(app: App) -> None:
    @app.every("0 7 * * *", priority=9, tags=["nightly"])
    def report() -> None: ...

    [schedule] = app.queues["default"].schedules
    assert schedule.options == {"priority": 9, "tags": ["nightly"]}


def test_a_stored_result_that_no_longer_fits_is_no_wrong_argument(app: App) -> None:
    @app.task(kind="count")
    def count() -> int:
        return "three"  # type: ignore[return-value]

    queued = count.options(id="1").enqueue()
    with RunningWorker(app):
        app.queues["default"].result(queued.id, timeout=10)
    [again, other] = count.enqueue_many([NewJob({}, id="1"), {}])

    assert isinstance(other, Queued)
    assert isinstance(again, Completed)
    with pytest.raises(ackline.InvalidPayload, match="result of task count"):
        _ = again.result


def test_a_hook_sees_one_of_many_as_it_sees_one(app: App) -> None:
    seen: list[dict[str, Any]] = []

    @app.on_enqueue
    def change(request: ackline.EnqueueRequest) -> None:
        seen.append(dict(request.options))
        request.options.pop("priority", None)

    @app.task(kind="work", priority=3)
    def work(n: int) -> None: ...

    work.options(group="g").enqueue(1)
    work.options(group="g").enqueue_many([{"n": 1}, NewJob({"n": 2}, id="two")])

    expected = {"kind": "work", "priority": 3, "group": "g"}
    assert seen == [expected, expected, {**expected, "id": "two"}]
    assert {job.priority for job in app.queues["default"].claim(10)} == {5}


def test_a_hook_cannot_move_one_of_many_into_a_transaction(app: App) -> None:
    @app.on_enqueue
    def change(request: ackline.EnqueueRequest) -> None:
        request.options["connection"] = object()

    @app.task
    def work() -> None: ...

    with pytest.raises(InvalidOption, match="transaction"):
        work.enqueue_many([{}])


def test_a_task_that_is_refused_can_be_defined_again(app: App) -> None:
    def work(n: Any) -> None: ...

    work.__annotations__["n"] = object
    with app.open():
        with pytest.raises(ConfigError, match="'n' cannot be a object"):
            app.task(kind="work")(work)
        work.__annotations__["n"] = int
        app.task(kind="work")(work).enqueue(1)
