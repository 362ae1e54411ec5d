from __future__ import annotations

import datetime as dt
import zoneinfo
from datetime import timedelta

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from ackline import ConfigError, InvalidName
from ackline.core.cron import Schedule


def at(text: str, zone: str = "UTC") -> float:
    moment = dt.datetime.fromisoformat(text)
    if moment.tzinfo is None:
        moment = moment.replace(tzinfo=zoneinfo.ZoneInfo(zone))
    return moment.timestamp()


def shown(ticks: list[float], zone: str = "UTC") -> list[str]:
    where = zoneinfo.ZoneInfo(zone)
    return [dt.datetime.fromtimestamp(tick, where).isoformat() for tick in ticks]


def test_ticks_are_those_after_the_one_and_up_to_the_other() -> None:
    schedule = Schedule("s", "*/15 * * * *")
    ticks = schedule.ticks_between(at("2026-01-01T10:00"), at("2026-01-01T10:45"))
    assert shown(ticks) == [f"2026-01-01T10:{minute}:00+00:00" for minute in (15, 30, 45)]


def test_fractions_of_seconds_neither_lose_nor_repeat_a_tick() -> None:
    schedule = Schedule("s", "* * * * *")
    noon = at("2026-01-01T12:00")
    assert schedule.ticks_between(noon - 0.25, noon + 0.25) == [noon]
    assert schedule.ticks_between(noon, noon + 0.25) == []
    assert schedule.ticks_between(noon - 0.5, noon - 0.25) == []
    assert schedule.next_tick(noon - 0.001) == noon
    assert schedule.next_tick(noon) == noon + 60


def test_the_latest_ticks_are_kept_when_there_are_too_many() -> None:
    schedule = Schedule("s", "* * * * *")
    until = at("2026-01-01T00:00")
    ticks = schedule.ticks_between(0.0, until)
    assert len(ticks) == 1000
    assert ticks[-1] == until
    assert ticks == sorted(ticks)


def test_job_ids_are_the_same_everywhere() -> None:
    schedule = Schedule("nightly", "0 3 * * *", tz="Europe/Berlin")
    tick = schedule.next_tick(at("2026-07-01T12:00"))
    assert schedule.job_id(tick) == "nightly@2026-07-02T01:00:00Z"


class TestSummerTime:
    """Europe/Berlin: 02:00 → 03:00 on 2026-03-29, 03:00 → 02:00 on 2026-10-25."""

    def test_an_hour_that_is_skipped_runs_once_after_the_gap(self) -> None:
        schedule = Schedule("s", "30 2 * * *", tz="Europe/Berlin")
        ticks = schedule.ticks_between(at("2026-03-28T12:00"), at("2026-03-30T12:00"))
        assert shown(ticks, "Europe/Berlin") == [
            "2026-03-29T03:00:00+02:00",
            "2026-03-30T02:30:00+02:00",
        ]

    def test_an_hour_that_comes_twice_runs_once(self) -> None:
        schedule = Schedule("s", "30 2 * * *", tz="Europe/Berlin")
        ticks = schedule.ticks_between(at("2026-10-24T12:00"), at("2026-10-26T12:00"))
        assert shown(ticks, "Europe/Berlin") == [
            "2026-10-25T02:30:00+02:00",
            "2026-10-26T02:30:00+01:00",
        ]

    def test_every_ten_minutes_stays_every_ten_minutes(self) -> None:
        schedule = Schedule("s", "*/10 * * * *", tz="Europe/Berlin")
        for day in ("2026-03-29", "2026-10-25"):
            start = at(f"{day}T00:00")
            ticks = schedule.ticks_between(start, start + 4 * 3600)
            assert ticks == [start + 600 * n for n in range(1, 25)]

    def test_a_missed_tick_is_found_within_the_repeated_hour(self) -> None:
        schedule = Schedule("s", "30 2 * * *", tz="Europe/Berlin")
        before, within = at("2026-10-25T00:00Z"), at("2026-10-25T01:15Z")
        assert shown(schedule.ticks_between(before, within)) == ["2026-10-25T00:30:00+00:00"]


@settings(deadline=None)
@given(
    cron=st.sampled_from(
        ["*/7 * * * *", "30 2 * * *", "0 0 * * *", "15,45 1-3 * * *", "0 12 1 * MON", "59 23 L * *"]
    ),
    zone=st.sampled_from(
        ["UTC", "Europe/Berlin", "America/New_York", "Australia/Lord_Howe", "Asia/Kathmandu"]
    ),
    start=st.integers(at("2025-12-01T00:00"), at("2027-01-01T00:00")),  # type: ignore[arg-type]
    span=st.integers(0, 5 * 86400),
)
def test_ticks_found_backwards_are_those_found_forwards(
    cron: str, zone: str, start: int, span: int
) -> None:
    schedule = Schedule("s", cron, tz=zone)
    forwards, tick = [], schedule.next_tick(start)
    while tick <= start + span:
        forwards.append(tick)
        tick = schedule.next_tick(tick)
    assert schedule.ticks_between(start, start + span, limit=10_000) == forwards


class TestCatchUp:
    last, now = at("2026-01-01T00:00"), at("2026-01-01T05:30:00")

    def test_one_is_the_latest(self) -> None:
        assert shown(Schedule("s", "0 * * * *").due(self.last, self.now)) == [
            "2026-01-01T05:00:00+00:00"
        ]

    def test_all_are_all(self) -> None:
        assert len(Schedule("s", "0 * * * *", catch_up="all").due(self.last, self.now)) == 5

    def test_none_are_those_of_this_minute(self) -> None:
        schedule = Schedule("s", "0 * * * *", catch_up="none")
        assert schedule.due(self.last, self.now) == []
        assert schedule.due(self.last, at("2026-01-01T05:00:59")) == [at("2026-01-01T05:00")]


class TestRefused:
    @pytest.mark.parametrize(
        ("cron", "says"),
        [
            ("* * * *", "five"),
            ("* * * * * *", "five"),
            ("61 * * * *", "minute"),
            ("* 24 * * *", "hour"),
            ("0 0 31 2 *", "day"),
            ("x * * * *", "minute"),
            ("", "five"),
        ],
    )
    def test_an_expression_that_means_nothing(self, cron: str, says: str) -> None:
        with pytest.raises(ConfigError, match=says) as caught:
            Schedule("nightly", cron)
        assert "'nightly'" in str(caught.value)

    @pytest.mark.parametrize("zone", ["Mars/Olympus", "../etc/passwd", "", "Europe"])
    def test_a_zone_that_nobody_knows(self, zone: str) -> None:
        with pytest.raises(ConfigError, match="time zone"):
            Schedule("s", "* * * * *", tz=zone)

    def test_a_catch_up_that_nobody_knows(self) -> None:
        with pytest.raises(ConfigError, match="catch_up"):
            Schedule("s", "* * * * *", catch_up="some")  # type: ignore[arg-type]

    def test_options_that_the_schedule_decides(self) -> None:
        with pytest.raises(ConfigError, match="delay"):
            Schedule("s", "* * * * *", options={"id": "x", "delay": 1})

    def test_names_that_leave_no_room(self) -> None:
        with pytest.raises(ConfigError, match="name"):
            Schedule("s" * 490, "* * * * *")
        with pytest.raises(InvalidName):
            Schedule("", "* * * * *")


class TestNames:
    @pytest.mark.parametrize(
        ("name", "following"),
        [
            ("@hourly", "2026-03-28T13:00:00+00:00"),
            ("@daily", "2026-03-29T00:00:00+00:00"),
            ("@weekly", "2026-03-29T00:00:00+00:00"),
            ("@monthly", "2026-04-01T00:00:00+00:00"),
            ("@yearly", "2027-01-01T00:00:00+00:00"),
        ],
    )
    def test_the_tick_after_noon(self, name: str, following: str) -> None:
        assert shown([Schedule("s", name).next_tick(at("2026-03-28T12:00"))]) == [following]

    def test_a_day_begins_in_the_schedules_zone(self) -> None:
        tick = Schedule("s", "@daily", tz="Europe/Berlin").next_tick(at("2026-03-28T12:00"))
        assert shown([tick], "Europe/Berlin") == ["2026-03-29T00:00:00+01:00"]


class TestIntervals:
    EVERY = Schedule("s", timedelta(minutes=5))

    def test_is_stored_as_text(self) -> None:
        assert self.EVERY.cron == "@every 300s"
        assert Schedule("s", "@every 300s") == self.EVERY

    def test_ticks_are_aligned_to_the_epoch(self) -> None:
        assert self.EVERY.next_tick(600.0) == 900.0
        assert self.EVERY.next_tick(599.9) == 600.0
        assert self.EVERY.ticks_between(600.0, 1500.0) == [900.0, 1200.0, 1500.0]
        assert self.EVERY.ticks_between(1500.0, 1500.0) == []

    def test_a_downtime_costs_no_more_than_its_ticks(self) -> None:
        ticks = Schedule("s", timedelta(seconds=1), catch_up="all").due(0.0, 1e9)
        assert (len(ticks), ticks[-1]) == (1000, 1e9)
        assert self.EVERY.due(0.0, 1e9) == [999_999_900.0]

    @pytest.mark.parametrize(
        "interval",
        [timedelta(0), timedelta(seconds=-5), timedelta(seconds=1.5), timedelta(days=9999)],
    )
    def test_an_interval_that_cannot_be(self, interval: timedelta) -> None:
        with pytest.raises(ConfigError, match="interval"):
            Schedule("s", interval)

    @pytest.mark.parametrize("text", ["@every", "@every 5m", "@every -5s", "@often"])
    def test_text_that_means_nothing(self, text: str) -> None:
        with pytest.raises(ConfigError, match="@daily"):
            Schedule("s", text)
