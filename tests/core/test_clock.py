import time

from ackline.clock import ManualClock, SystemClock


def test_the_system_clock_never_runs_backwards(monkeypatch):
    readings = iter([100.0, 90.0, 95.0, 101.0])
    monkeypatch.setattr(time, "time", lambda: next(readings))
    clock = SystemClock()

    assert [clock.now() for _ in range(4)] == [100.0, 100.0, 100.0, 101.0]


def test_the_system_clock_tells_the_machines_time():
    before = time.time()

    now = SystemClock().now()

    assert before <= now <= time.time()


def test_a_manual_clock_stands_still_until_it_is_moved():
    clock = ManualClock(100.0)
    assert clock.now() == clock.now() == 100.0

    clock.advance(2.5)

    assert clock.now() == 102.5
