"""How soon a job runs again, for each way in which that happens."""

import pytest

from ackline.testing.faults.recovery import WAYS, Way, measure, table

QUICK = [way for way in WAYS if "heartbeat" not in way.name]


@pytest.mark.parametrize("way", QUICK, ids=lambda way: way.name)
def test_within_its_bound(url, tmp_path, way: Way):
    measured = measure(way, url, tmp_path / "histories", samples=2)
    print(table([measured]))

    assert max(measured.seconds) < way.bound


@pytest.mark.slow
@pytest.mark.parametrize("way", WAYS, ids=lambda way: way.name)
def test_many_samples_within_the_bound(url, tmp_path, way: Way):
    measured = measure(way, url, tmp_path / "histories", samples=8)
    print(table([measured]))

    assert len(measured.seconds) == 8
    assert max(measured.seconds) < way.bound
