"""Arguments of tasks: checked when they are enqueued, and again before the task runs."""

from __future__ import annotations

import dataclasses
import datetime
import decimal
import enum
import uuid
from collections.abc import Sequence
from typing import Annotated, Any, Generic, Literal, TypedDict, TypeVar

import msgspec
import pydantic
import pytest

import ackline
from ackline import App, ConfigError, InvalidArguments, Job
from tests.app.conftest import RunningWorker

T = TypeVar("T")


class Color(enum.Enum):
    RED = "red"


@dataclasses.dataclass
class Address:
    street: str
    number: int = 1


class Size(TypedDict):
    width: int


class Order(msgspec.Struct):
    id: uuid.UUID
    total: decimal.Decimal


@dataclasses.dataclass
class Box(Generic[T]):
    value: T


class Person(pydantic.BaseModel):
    name: str
    born: datetime.date


class Aliased(pydantic.BaseModel):
    model_config = pydantic.ConfigDict(extra="forbid", strict=True)
    name: str = pydantic.Field(alias="fullName")
    since: datetime.date = datetime.date(2027, 1, 1)

    @pydantic.computed_field
    def initial(self) -> str:
        return self.name[0]


@dataclasses.dataclass
class Household:
    people: list[Person]


class Login(pydantic.BaseModel):
    password: pydantic.SecretStr


EXAMPLES: list[tuple[Any, Any]] = [
    (Address, Address("Main Street", 7)),
    (Size, {"width": 3}),
    (Order, Order(uuid.UUID(int=7), decimal.Decimal("1.50"))),
    (Color, Color.RED),
    (dict[int, set[str]], {1: {"a"}}),
    (datetime.datetime, datetime.datetime(2027, 1, 1, tzinfo=datetime.UTC)),
    (bytes, b"\x00\xff"),
    (Person, Person(name="Ann", born=datetime.date(2000, 1, 1))),
    (list[Person], [Person(name="Ann", born=datetime.date(2000, 1, 1))]),
    (Person | None, None),
    (Aliased, Aliased(fullName="Ann")),
    (Household, Household([Person(name="Ann", born=datetime.date(2000, 1, 1))])),
    (datetime.date | None, datetime.date(2027, 1, 1)),
    (Annotated[int, msgspec.Meta(ge=1)], 7),
    (Literal["a", 1], "a"),
    (Sequence[int], [1, 2]),
    (tuple[int, ...], (1, 2)),
    (Box[int], Box(7)),
    (Any, {"anything": [1, None]}),
]


@pytest.mark.parametrize(("annotation", "value"), EXAMPLES, ids=str)
def test_values_arrive_and_return_as_their_types(app: App, annotation: Any, value: Any) -> None:
    seen = []

    def echo(value: Any) -> Any:
        seen.append(value)
        return value

    echo.__annotations__ = {"value": annotation, "return": annotation}
    task = app.task(echo)

    with RunningWorker(app):
        returned = task.call(value)

    assert seen == [value]
    assert returned == value
    assert type(returned) is type(seen[0]) is type(value)


@pytest.fixture
def welcome(app: App) -> ackline.Task[..., None]:
    @app.task(kind="welcome")
    def welcome(to: str, copies: int = 1, *, job: Job[Any] = ackline.current_job()) -> None: ...

    return welcome


@pytest.mark.parametrize(
    ("args", "kwargs", "message"),
    [
        ((), {}, "task welcome is missing the argument 'to'"),
        (("ann",), {"cc": "bob"}, "'cc'"),
        ((), {"to": "ann", "cc": "bob"}, "has no argument 'cc'; it takes: to, copies"),
        (("ann", 1, 2), {}, "too many positional arguments"),
        ((7,), {}, "Expected `str`, got `int` - at `$.to`"),
        ((), {"to": "ann", "copies": "two"}, "at `$.copies`"),
        ((), {"to": "ann", "job": 1}, "the worker passes 'job'"),
        ((), {"to": "ann", "copies": object()}, "argument 'copies' cannot be stored"),
    ],
)
def test_wrong_arguments_are_refused(
    app: App, welcome: ackline.Task[..., None], args: Any, kwargs: Any, message: str
) -> None:
    with pytest.raises(InvalidArguments) as raised:
        welcome.enqueue(*args, **kwargs)

    assert "task welcome" in str(raised.value)
    assert message in str(raised.value)
    assert isinstance(raised.value, TypeError)
    assert app.queues["default"].claim() == []


@pytest.mark.parametrize("calls", [["ann"], [{"too": "ann"}], [{1: 2}], "ann"])
def test_one_wrong_call_of_many_is_refused(
    app: App, welcome: ackline.Task[..., None], calls: Any
) -> None:
    with pytest.raises(InvalidArguments):
        welcome.enqueue_many([{"to": "bob"}, *calls])
    assert app.queues["default"].claim() == []


def test_a_wrong_pydantic_model_is_refused(app: App) -> None:
    @app.task
    def greet(person: Person) -> None: ...

    with pytest.raises(InvalidArguments, match=r"argument 'person': born: Field required"):
        greet.enqueue({"name": "Ann"})  # type: ignore[arg-type]


def test_a_model_that_json_would_change_is_refused(app: App) -> None:
    @app.task
    def sign_in(login: Login) -> None: ...

    with pytest.raises(InvalidArguments, match="argument 'login' would arrive changed"):
        sign_in.enqueue(Login(password=pydantic.SecretStr("secret")))


def test_constraints_of_pydantic_are_checked(app: App) -> None:
    @app.task
    def pay(amount: Annotated[int, pydantic.Field(gt=0)]) -> None: ...

    pay.enqueue(1)
    with pytest.raises(InvalidArguments, match="argument 'amount': Input should be greater than 0"):
        pay.enqueue(-1)


def test_stored_arguments_that_no_longer_fit_fail_the_attempt(app: App) -> None:
    @app.task(kind="greet", max_attempts=1)
    def greet(name: str) -> None: ...

    with app.open():
        other_program = ackline.Queues(app.queues.store)["default"]
        other_program.enqueue({"nome": "Ann"}, id="1", kind="greet")
        with RunningWorker(app), pytest.raises(ackline.JobFailed, match="unknown field `nome`"):
            greet.result("1", wait=10)


def test_a_default_is_that_of_the_worker(app: App) -> None:
    marker: list[str] = []

    @app.task
    def append(to: list[str] = marker) -> None:
        to.append("x")

    with RunningWorker(app):
        append.call()

    assert marker == ["x"]


def not_by_name(*args: int) -> None: ...


def any_names(**kwargs: int) -> None: ...


def positional(a: int, /) -> None: ...


@pytest.mark.parametrize("function", [not_by_name, any_names, positional])
def test_parameters_without_a_name_are_refused(app: App, function: Any) -> None:
    with pytest.raises(ConfigError, match="stored by name"):
        app.task(function)


def test_a_type_that_cannot_be_stored_is_refused_when_the_app_opens(app: App) -> None:
    @app.task(kind="draw")
    def draw(image: Job[Any]) -> None: ...

    with pytest.raises(ConfigError, match="task draw"):
        app.open()


def test_an_annotation_that_does_not_exist_is_named(app: App) -> None:
    @app.task(kind="draw")
    def draw(image: Image) -> None: ...  # type: ignore[name-defined]  # noqa: F821

    with pytest.raises(ConfigError, match=r"task draw.*'Image'"):
        app.open()


def test_injected_parameters_may_have_types_for_type_checkers_only(app: App) -> None:
    @app.task
    def draw(n: int, *, db: Pool = ackline.resource()) -> None: ...  # type: ignore[name-defined]  # noqa: F821

    draw.enqueue(1)


def test_a_result_that_does_not_fit_is_told_by_its_task(app: App) -> None:
    @app.task(kind="count")
    def count() -> int:
        return "three"  # type: ignore[return-value]

    with RunningWorker(app), pytest.raises(ackline.InvalidPayload, match="result of task count"):
        count.call()


def test_a_task_may_return_outcomes(app: App) -> None:
    @app.task
    def person() -> Person | ackline.Retry | ackline.Done:
        return ackline.Done(Person(name="Ann", born=datetime.date(2000, 1, 1)))

    with RunningWorker(app):
        assert person.call() == Person(name="Ann", born=datetime.date(2000, 1, 1))
