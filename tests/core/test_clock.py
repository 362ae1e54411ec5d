import threading
import time

from ackline.core.clock import ManualClock, SystemClock


def readings(*pairs: tuple[float, float]) -> list[float]:
    """What a clock tells when the machine's clock and the time since its start are these."""
    walls, spans = iter([wall for wall, _ in pairs]), iter([0.0, *(span for _, span in pairs)])
    clock = SystemClock(lambda: next(walls), lambda: next(spans))
    return [clock.now() for _ in pairs]


def test_after_a_small_step_back_time_goes_on_at_half_its_pace():
    told = readings((100.0, 0.0), (96.0, 1.0), (97.0, 2.0), (101.0, 6.0), (104.0, 9.0))

    assert told == [100.0, 100.5, 101.0, 103.0, 104.5]


def test_it_is_the_machines_time_again_once_that_has_caught_up():
    assert readings((100.0, 0.0), (99.0, 1.0), (102.0, 4.0)) == [100.0, 100.5, 102.0]


def test_two_looks_at_one_moment_tell_the_same():
    assert readings((100.0, 0.0), (95.0, 0.0), (95.0, 0.0)) == [100.0, 100.0, 100.0]


def test_one_bad_reading_ahead_does_not_stop_the_time():
    """The machine was an hour ahead for a moment: other processes go by its clock, too."""
    assert readings((100.0, 0.0), (3700.0, 0.1), (100.2, 0.2)) == [100.0, 3700.0, 100.2]


def test_a_step_forward_is_followed_at_once():
    """As after a laptop's sleep, which other clocks do not count."""
    assert readings((100.0, 0.0), (9000.0, 0.1)) == [100.0, 9000.0]


def test_the_system_clock_tells_the_machines_time():
    before = time.time()

    now = SystemClock().now()

    assert before <= now <= time.time()


def test_a_manual_clock_stands_still_until_it_is_moved():
    clock = ManualClock(100.0)
    assert clock.now() == clock.now() == 100.0

    clock.advance(2.5)

    assert clock.now() == 102.5


def test_threads_that_ask_for_the_time_never_see_it_go_back():
    clock = SystemClock()
    recorded: list[bool] = []

    def read_clock():
        mine = [clock.now() for _ in range(2000)]
        recorded.append(mine == sorted(mine))

    threads = [threading.Thread(target=read_clock) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert recorded == [True] * 4
