import random
from collections.abc import Callable

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from ackline.core.config import ResolvedPolicy
from ackline.core.errors import InvalidOption
from ackline.core.events import Act, RecoveredBy
from ackline.core.job import TERMINAL, WAITING, Failure, Options, QueueKey, Record, State
from ackline.core.lifecycle import (
    FENCED_ACTS,
    FIELDS_OF_ACT,
    LEGAL_TRANSITIONS,
    MAX_FAILURE_NOTE,
    Destination,
    Edit,
    PositionRule,
    Transition,
    bury,
    cancel,
    cancel_running,
    complete,
    edit,
    expected_from,
    expire,
    extend,
    fail,
    find_destination,
    history_entry,
    is_legal_from,
    journal_note,
    keys_to_write,
    move,
    passes_guard,
    progress,
    rank,
    redrive,
    release,
    request_cancel,
    settle,
    snooze,
    truncate_failure,
    was_applied,
)
from ackline.core.limits import (
    MAX_MESSAGE_LENGTH,
    MAX_NAME_BYTES,
    MAX_NOTE_LENGTH,
    MAX_TRACEBACK_LENGTH,
)
from ackline.core.outcome import Cancel, Dead, Done, Retry, Snooze
from ackline.core.retry import fixed

S = State
POLICY = ResolvedPolicy(max_attempts=3, backoff=fixed(10.0), result_ttl=7.0, keep_failed=8.0)
FAILURE = Failure(act=Act.FAIL, attempt=1, type="ValueError", message="boom")
ANY = random.Random(0)
KEYS = (("k",),)

QUEUE_ACTS = {Act.PAUSE, Act.RESUME, Act.CONFIGURE, Act.DROP}


def leased(attempts: int = 1, **more) -> Record:
    return Record(
        "a",
        "mail",
        S.PROCESSING,
        b"",
        5,
        Options(keys_if_undelivered=KEYS),
        attempts,
        0.0,
        token=42,
        worker="w1",
        deadline=100.0,
        **more,
    )


def called_back(attempts: int = 1) -> Record:
    options = Options(callback_url="https://example.com", keys_if_undelivered=KEYS)
    return msgspec.structs.replace(leased(attempts), options=options)


# The table of DESIGN, written out a second time: act -> every state it may start from -> to.
TABLE: dict[Act, dict[State | None, str]] = {
    Act.ENQUEUE: {None: "QS", S.FAILED: "QS", S.CANCELLED: "QS"},
    Act.CLAIM: {S.QUEUED: "P"},
    Act.COMPLETE: {S.PROCESSING: "C"},
    Act.FAIL: {S.PROCESSING: "FDX"},
    Act.SNOOZE: {S.PROCESSING: "SX"},
    Act.RELEASE: {S.PROCESSING: "QX"},
    Act.EXPIRE: {S.PROCESSING: "QDX"},
    Act.EXTEND: {S.PROCESSING: "P"},
    Act.PROGRESS: {S.PROCESSING: "P"},
    Act.REQUEST_CANCEL: {S.PROCESSING: "P"},
    Act.PROMOTE: {S.SCHEDULED: "Q", S.FAILING: "Q"},
    Act.CANCEL: {S.QUEUED: "X", S.SCHEDULED: "X", S.FAILING: "X", S.PROCESSING: "X"},
    Act.REDRIVE: {S.FAILED: "QS"},
    Act.EDIT: {
        S.QUEUED: "QS",
        S.SCHEDULED: "S",
        S.FAILING: "F",
        S.COMPLETED: "C",
        S.FAILED: "D",
        S.CANCELLED: "X",
    },
    Act.MOVE: {
        S.QUEUED: "Q",
        S.SCHEDULED: "S",
        S.FAILING: "F",
        S.COMPLETED: "C",
        S.FAILED: "D",
        S.CANCELLED: "X",
    },
    Act.PRUNE: {S.COMPLETED: "-", S.FAILED: "-", S.CANCELLED: "-"},
    Act.PURGE: dict.fromkeys(State, "-"),
}
STATE_BY_LETTER = {
    "Q": S.QUEUED,
    "S": S.SCHEDULED,
    "P": S.PROCESSING,
    "F": S.FAILING,
    "C": S.COMPLETED,
    "D": S.FAILED,
    "X": S.CANCELLED,
    "-": None,
}


def test_every_act_on_a_job_is_in_the_table():
    assert set(LEGAL_TRANSITIONS) == set(Act) - QUEUE_ACTS == set(TABLE)


@pytest.mark.parametrize("act", TABLE)
@pytest.mark.parametrize("source", [None, *State], ids=str)
def test_every_act_from_every_state(act: Act, source: State | None):
    expected = {STATE_BY_LETTER[letter] for letter in TABLE[act].get(source, "")}

    assert is_legal_from(act, source) == bool(expected)
    assert LEGAL_TRANSITIONS[act].get(source, frozenset()) == expected


@pytest.mark.parametrize("state", sorted(TERMINAL))
def test_only_deliberate_acts_leave_a_terminal_state(state: State):
    leaving = {
        act
        for act in LEGAL_TRANSITIONS
        if is_legal_from(act, state) and LEGAL_TRANSITIONS[act][state] != {state}
    }

    assert leaving <= {Act.ENQUEUE, Act.REDRIVE, Act.PRUNE, Act.PURGE}


OF_SOME_ACTS = {
    "deadline": 5.0,
    "delay": 5.0,
    "keep": 5.0,
    "attempts": 0,
    "result": b"1",
    "failure": FAILURE,
    "undelivered_keys": KEYS,
    "progress": b"1",
    "edit": Edit(payload=b"1"),
    "target": QueueKey("default", "other"),
    "keep_cancelled": 5.0,
    "has_callback": True,
    "recovered_by": RecoveredBy.CLAIM,
}
"""A value for each field that only some acts have."""

STEPS = [
    complete(called_back(), b"1", POLICY),
    fail(called_back(), FAILURE, POLICY, ANY),
    bury(called_back(), FAILURE, POLICY),
    snooze(called_back(), 5.0, POLICY),
    release(called_back(), POLICY),
    expire(called_back(), POLICY, recovered_by=RecoveredBy.CLAIM),
    expire(called_back(3), POLICY),
    extend(leased(), 5.0),
    progress(leased(), b"1"),
    request_cancel("a"),
    cancel("a", POLICY),
    cancel_running(leased(), "why", POLICY),
    redrive("a", 5.0, change=Edit(payload=b"1")),
    edit("a", Edit(payload=b"1")),
    move("a", QueueKey("default", "other")),
]


def steps_of(act: Act) -> list[Transition]:
    return [step for step in STEPS if step.act is act]


@pytest.mark.parametrize("act", FIELDS_OF_ACT)
def test_an_act_may_carry_what_its_constructors_set_and_no_more(act: Act):
    carried = {
        field.name
        for step in steps_of(act)
        for field in msgspec.structs.fields(Transition)
        if field.name in OF_SOME_ACTS and getattr(step, field.name) != field.default
    }

    assert FIELDS_OF_ACT[act] == carried


@pytest.mark.parametrize(
    ("act", "field"),
    [
        (act, field)
        for act, fields in FIELDS_OF_ACT.items()
        for field in sorted(OF_SOME_ACTS.keys() - fields)
    ],
)
def test_a_field_that_is_not_the_acts_cannot_be_set_or_received(act: Act, field: str):
    step = steps_of(act)[0]
    sent = msgspec.to_builtins(step) | {field: msgspec.to_builtins(OF_SOME_ACTS[field])}

    with pytest.raises(InvalidOption, match=field):
        msgspec.structs.replace(step, **{field: OF_SOME_ACTS[field]})
    with pytest.raises(msgspec.ValidationError, match=field):
        msgspec.convert(sent, Transition)


@pytest.mark.parametrize("act", FIELDS_OF_ACT)
@pytest.mark.parametrize("to", [None, *State])
def test_an_act_leads_only_where_the_lifecycle_says(act: Act, to: State | None):
    ends = {step.to for step in steps_of(act)} | set().union(*LEGAL_TRANSITIONS[act].values())
    leads = to in ends if steps_of(act)[0].to is not None else to is None

    try:
        msgspec.structs.replace(steps_of(act)[0], to=to)
    except InvalidOption:
        assert not leads
    else:
        assert leads


@pytest.mark.parametrize("act", sorted(set(Act) - FIELDS_OF_ACT.keys()))
def test_a_verb_of_a_store_is_no_transition(act: Act):
    with pytest.raises(InvalidOption):
        Transition("a", act)


@pytest.mark.parametrize("act", sorted(FENCED_ACTS))
def test_fenced_acts_start_only_from_processing(act: Act):
    assert set(LEGAL_TRANSITIONS[act]) == {S.PROCESSING}


@pytest.mark.parametrize("act", [*sorted(FENCED_ACTS), Act.CANCEL])
@pytest.mark.parametrize("state", State)
def test_the_fence(act: Act, state: State):
    step = msgspec.structs.replace(steps_of(act)[0], token=42, deadline=None)

    assert passes_guard(step, state, 42, 100.0, now=50.0) == (state is S.PROCESSING)
    assert not passes_guard(step, state, 41, 100.0, now=50.0)
    assert not passes_guard(step, state, 43, 100.0, now=50.0)


@pytest.mark.parametrize("act", sorted(FENCED_ACTS))
@pytest.mark.parametrize("state", State)
def test_a_fenced_act_without_a_token_never_holds(act: Act, state: State):
    step = msgspec.structs.replace(steps_of(act)[0], token=None)

    assert not passes_guard(step, state, 42, 100.0, now=50.0)


def test_a_token_and_an_expected_job_exclude_each_other():
    expected = expected_from(leased())

    with pytest.raises(InvalidOption, match="both a token and an expected job"):
        msgspec.structs.replace(complete(leased(), b"1", POLICY), expected=expected)
    sent = msgspec.to_builtins(redrive("a", token=42))
    with pytest.raises(msgspec.ValidationError, match="both a token and an expected job"):
        msgspec.convert(sent | {"expected": msgspec.to_builtins(expected)}, Transition)


def test_a_sweep_holds_only_for_the_deadline_it_saw():
    step = expire(leased(), POLICY)

    assert passes_guard(step, S.PROCESSING, 42, 100.0, now=50.0)
    assert not passes_guard(step, S.PROCESSING, 42, 100.25, now=50.0)


def test_extend_does_not_hold_for_a_lapsed_lease():
    step = extend(leased(), 30.0)

    assert passes_guard(step, S.PROCESSING, 42, 100.0, now=99.75)
    assert not passes_guard(step, S.PROCESSING, 42, 100.0, now=100.0)


def test_cancel_without_a_token_holds_for_what_waits_only():
    step = cancel("a", POLICY)

    assert {state for state in State if passes_guard(step, state, 0, None, now=50.0)} == WAITING


def test_complete_keeps_the_result_for_its_ttl():
    step = complete(leased(), b"1", POLICY)

    assert (step.to, step.result, step.keep, step.token) == (S.COMPLETED, b"1", 7.0, 42)


@pytest.mark.parametrize(
    ("attempts", "to"), [(1, S.FAILING), (2, S.FAILING), (3, S.FAILED), (4, S.FAILED)]
)
def test_fail_until_the_attempts_are_spent(attempts: int, to: State):
    step = fail(leased(attempts), FAILURE, POLICY, ANY)

    assert step.to is to
    assert step.undelivered_keys == (KEYS if to is S.FAILED else ())
    assert (step.delay, step.keep) == (
        (10.0, POLICY.keep_cancelled) if to is S.FAILING else (0.0, 8.0)
    )


def test_a_delay_given_outweighs_the_backoff():
    assert fail(leased(), FAILURE, POLICY, ANY, delay=0.0).delay == 0.0


@pytest.mark.parametrize("attempts", [1, 3])
def test_attempts_are_given_back_by_release_and_snooze_only(attempts: int):
    job = leased(attempts)

    assert release(job, POLICY).attempts == snooze(job, 1.0, POLICY).attempts == attempts - 1
    for step in (
        complete(job, None, POLICY),
        fail(job, FAILURE, POLICY, ANY),
        bury(job, FAILURE, POLICY),
        expire(job, POLICY),
        cancel_running(job, "", POLICY),
        extend(job, 1.0),
        progress(job, b""),
    ):
        assert step.attempts is None


@pytest.mark.parametrize(
    "make",
    [
        lambda job: fail(job, FAILURE, POLICY, ANY),
        lambda job: bury(job, FAILURE, POLICY),
        lambda job: expire(job, POLICY),
    ],
    ids=["fail", "bury", "expire"],
)
def test_a_job_that_spends_its_last_attempt_when_asked_to_stop_is_kept_as_a_cancelled_one(
    make: Callable[[Record], Transition],
):
    step = make(leased(9))

    assert find_destination(step, S.PROCESSING, False) == Destination(
        S.FAILED, PositionRule.DELAY, POLICY.keep_failed
    )
    asked = find_destination(step, S.PROCESSING, True)
    assert asked == Destination(S.CANCELLED, PositionRule.DELAY, POLICY.keep_cancelled)


@pytest.mark.parametrize("attempts", [1, 2, 3, 9])
def test_expire_counts_and_buries(attempts: int):
    step = expire(leased(attempts), POLICY)

    buried = attempts >= 3
    assert step.to is (S.FAILED if buried else S.QUEUED)
    assert (step.keep, step.undelivered_keys) == (
        (8.0, KEYS) if buried else (POLICY.keep_cancelled, ())
    )
    assert step.failure is not None
    assert "w1" in step.failure.message


@pytest.mark.parametrize("attempts", [1, 3])
def test_expire_of_a_job_asked_to_stop_cancels_it(attempts: int):
    step = expire(leased(attempts, cancel_requested=True), POLICY)

    assert find_destination(step, S.PROCESSING, cancel_requested=True).state is S.CANCELLED


def test_redrive_resets_the_attempts():
    assert (redrive("a").to, redrive("a").attempts) == (S.QUEUED, 0)
    assert redrive("a", delay=5.0).to is S.SCHEDULED


@pytest.mark.parametrize(
    ("outcome", "act", "to"),
    [
        (Done(1), Act.COMPLETE, S.COMPLETED),
        (Retry(), Act.FAIL, S.FAILING),
        (Retry(5.0), Act.FAIL, S.FAILING),
        (Snooze(5.0), Act.SNOOZE, S.SCHEDULED),
        (Cancel(), Act.CANCEL, S.CANCELLED),
        (Dead(), Act.FAIL, S.FAILED),
    ],
)
def test_each_outcome_is_one_step(outcome, act: Act, to: State):
    step = settle(leased(), outcome, b"1", FAILURE, POLICY, ANY)

    assert (step.act, step.to, step.token) == (act, to, 42)


def test_an_outcome_may_say_its_own_ttl_and_delay():
    assert settle(leased(), Done(1, 99.0), b"1", FAILURE, POLICY, ANY).keep == 99.0
    assert settle(leased(), Retry(3.0), None, FAILURE, POLICY, ANY).delay == 3.0
    assert settle(leased(), Snooze(4.0), None, FAILURE, POLICY, ANY).delay == 4.0


ALL_STEPS = [
    complete(leased(), b"1", POLICY),
    fail(leased(), FAILURE, POLICY, ANY),
    bury(leased(), FAILURE, POLICY),
    snooze(leased(), 1.0, POLICY),
    release(leased(), POLICY),
    cancel_running(leased(), "", POLICY),
    extend(leased(), 1.0),
    progress(leased(), b""),
    expire(leased(), POLICY),
    expire(leased(9), POLICY),
    cancel("a", POLICY),
    request_cancel("a"),
    redrive("a"),
    redrive("a", 5.0),
    edit("a", Edit(delay=5.0)),
    edit("a", Edit(priority=1)),
    move("a", QueueKey("default", "other")),
]


@pytest.mark.parametrize("step", ALL_STEPS, ids=lambda step: f"{step.act}-{step.to}")
@pytest.mark.parametrize("state", State)
@pytest.mark.parametrize("asked_to_stop", [False, True])
def test_every_step_that_holds_lands_where_the_table_says(
    step: Transition, state: State, asked_to_stop: bool
):
    if passes_guard(step, state, 42, step.deadline, now=50.0):
        asked = asked_to_stop and state is State.PROCESSING
        assert find_destination(step, state, asked).state in LEGAL_TRANSITIONS[step.act][state]
    else:
        acts = (Act.CANCEL, Act.EDIT)
        assert step.token is not None or not is_legal_from(step.act, state) or step.act in acts


SETTLED = ALL_STEPS[:6]


@pytest.mark.parametrize("step", SETTLED, ids=lambda step: f"{step.act}-{step.to}")
def test_a_step_repeats_itself_and_nothing_else(step: Transition):
    ended = history_entry(step, 1, "w1", 0.0, 9.0)
    history = () if ended is None else (ended,)
    others = [
        msgspec.structs.replace(past, **other)
        for past in history
        for other in ({"token": 43}, {"act": Act.EXPIRE}, {"to": S.CANCELLED})
    ]
    assert was_applied(step, step.act, 42, step.result, history)
    assert not was_applied(step, step.act, 43, step.result, others)
    assert not was_applied(step, Act.EXPIRE, 42, step.result, others)
    assert not was_applied(step, None, 0, None, ())


def test_a_burial_is_no_repeat_of_a_retry():
    job = leased()
    retried, buried = fail(job, FAILURE, POLICY, ANY), bury(job, FAILURE, POLICY)
    ended = history_entry(retried, 1, "w1", 0.0, 9.0)
    assert ended is not None

    assert was_applied(retried, Act.FAIL, 42, None, [ended])
    assert not was_applied(buried, Act.FAIL, 42, None, [ended])
    # Attempts that an older Ackline wrote do not say where they led.
    assert was_applied(buried, Act.FAIL, 42, None, [msgspec.structs.replace(ended, to="")])


@pytest.mark.parametrize("step", ["fail", "bury", "expire"])
def test_a_job_asked_to_stop_ends_as_cancelled_and_writes_no_keys(step: str):
    job = leased(3)
    steps = {
        "fail": fail(job, FAILURE, POLICY, ANY),
        "bury": bury(job, FAILURE, POLICY),
        "expire": expire(job, POLICY),
    }

    landed = find_destination(steps[step], S.PROCESSING, True).state

    assert landed is S.CANCELLED
    assert keys_to_write(steps[step], landed) == ()
    assert keys_to_write(steps[step], S.FAILED) == KEYS


def test_what_is_noted_can_be_kept_by_every_store():
    job, bad = leased(), "\udcff"
    notes = [
        cancel_running(job, bad, POLICY).note,
        release(job, POLICY, bad).note,
        expire(job, POLICY, bad).note,
    ]
    signed = [cancel("a", POLICY, bad).by, redrive("a", by=bad).by, request_cancel("a", bad).by]

    assert notes + signed == ["\\udcff"] * 6


def test_a_completion_repeats_only_with_its_result():
    step = complete(leased(), b"1", POLICY)

    assert not was_applied(step, Act.COMPLETE, 42, b"2", ())
    assert not was_applied(step, Act.COMPLETE, 42, None, ())


@pytest.mark.parametrize("step", [SETTLED[1], SETTLED[3], SETTLED[4]], ids=lambda s: s.act)
def test_an_older_lease_is_known_by_its_history(step: Transition):
    ended = history_entry(step, 1, "w1", 0.0, 9.0)
    assert ended is not None

    assert was_applied(step, Act.COMPLETE, 99, None, [ended])
    assert (ended.act, ended.token, ended.worker, ended.at) == (step.act, 42, "w1", 9.0)


@pytest.mark.parametrize("step", ALL_STEPS[6:10], ids=lambda step: step.act)
def test_extend_progress_and_expire_never_repeat(step: Transition):
    assert not was_applied(step, step.act, 42, None, ())


def test_what_completes_or_stops_is_no_ended_attempt():
    for step in (SETTLED[0], SETTLED[5]):
        assert history_entry(step, 1, "w1", 0.0, 9.0) is None


def test_a_note_is_short_and_tells_the_error():
    long = Failure(act=Act.FAIL, attempt=1, type="E", message="x" * 1000)

    assert journal_note(fail(leased(), FAILURE, POLICY, ANY)) == "ValueError: boom"
    assert len(journal_note(fail(leased(), long, POLICY, ANY))) == MAX_FAILURE_NOTE
    assert journal_note(release(leased(), POLICY, "stopping")) == "stopping"


times = st.floats(0, 1e6)


@given(first=times, second=times, priority=st.integers(0, 9), ageing=st.floats(0, 1e4))
def test_equal_priorities_are_served_in_order_of_arrival(first, second, priority, ageing):
    if first < second:
        assert rank(first, priority, ageing) <= rank(second, priority, ageing)


@given(at=times, low=st.integers(0, 8), ageing=st.floats(1, 1e4))
def test_of_the_same_arrival_the_higher_priority_goes_first(at, low, ageing):
    assert rank(at, low + 1, ageing) < rank(at, low, ageing)


@given(at=times, ageing=st.floats(1, 1e4))
def test_nine_steps_of_ageing_outweigh_every_priority(at, ageing):
    assert rank(at, 0, ageing) < rank(at + 9 * ageing + 1, 9, ageing)


@pytest.mark.parametrize(
    "step",
    [
        fail(leased(), FAILURE, POLICY, random.Random(0)),
        snooze(leased(), 5.0, POLICY),
        release(leased(), POLICY),
    ],
    ids=lambda step: step.act,
)
def test_a_job_that_was_asked_to_stop_does_not_wait_for_another_attempt(step: Transition):
    assert find_destination(step, S.PROCESSING, True).state is S.CANCELLED
    assert step.keep > 0


@pytest.mark.parametrize("state", State)
def test_an_edit_that_would_change_nothing_is_refused(state: State):
    """A job that has ended has no time at which it is due; one that has not is not kept yet."""
    keep, delay = edit("a", Edit(keep=5.0)), edit("a", Edit(delay=5.0))

    assert passes_guard(keep, state, 0, None, 0.0) is state.terminal
    assert passes_guard(delay, state, 0, None, 0.0) is (state in WAITING)


@pytest.mark.parametrize(
    "step",
    [
        lambda text: complete(leased(), None, POLICY, text),
        lambda text: release(leased(), POLICY, text),
        lambda text: cancel_running(leased(), text, POLICY),
        lambda text: expire(leased(), POLICY, text),
        lambda text: cancel("a", POLICY, text),
        lambda text: redrive("a", by=text),
        lambda text: edit("a", Edit(), text),
        lambda text: move("a", QueueKey("default", "other"), text),
    ],
)
def test_long_notes_and_names_are_cut_off(step: Callable[[str], Transition]) -> None:
    decided = step("é" * 5_000_000)
    assert len(decided.note) + len(decided.by) == MAX_NOTE_LENGTH


@pytest.mark.parametrize(
    "step",
    [lambda job, error: fail(job, error, POLICY, ANY), lambda job, error: bury(job, error, POLICY)],
)
def test_long_failures_are_cut_off_whoever_reports_them(step) -> None:
    text = "é" * 5_000_000
    error = Failure(act=Act.FAIL, attempt=1, type=text, message=text, traceback=text)
    kept = step(leased(), error).failure
    assert len(kept.type) == MAX_NAME_BYTES
    assert len(kept.message) <= MAX_MESSAGE_LENGTH
    assert kept.message.endswith(" more characters)")
    assert len(kept.traceback) == MAX_TRACEBACK_LENGTH
    assert truncate_failure(kept) == kept


@pytest.mark.parametrize(
    "options",
    [
        {"headers": {"a": "x" * 65_536}},
        {"headers": {str(n): "x" * 10 for n in range(6_000)}},
        {"keys_if_undelivered": tuple((str(n), "x" * 1000) for n in range(70))},
        {"trace": "x" * 65_537},
    ],
)
def test_the_options_of_a_job_have_a_limit(options) -> None:
    with pytest.raises(InvalidOption, match="65,536"):
        Options(**options)
