"""Statistics of a lake, read from its gold tables, per tenant."""

from __future__ import annotations

import time

import pytest
from tests.service.conftest import Api, client_for
from tests.service.views.gold_tables import make_gold

from ackline.service import Settings
from ackline.service.views.lake_stats import LakeStats, visibility_parameters


@pytest.fixture
def lake(tmp_path):
    return tmp_path / "lake"


@pytest.fixture
def settings(lake):
    return Settings(store="memory://", lake=str(lake))


def test_without_a_lake_nothing_is_available():
    with client_for(Settings(store="memory://")) as client:
        answer = Api(client, "/api").get("/v1/analytics")
    assert (answer["lake"], answer["available"], answer["hours"]) == (False, False, [])


def test_before_the_first_run_nothing_is_available(api):
    answer = api.get("/v1/analytics")
    assert (answer["lake"], answer["available"]) == (True, False)


class TestStats:
    @pytest.fixture(autouse=True)
    def gold(self, lake):
        make_gold(lake)

    def test_hour_by_hour(self, api):
        hours = api.get("/v1/analytics", days=2)["hours"]
        assert len(hours) == 48
        assert [hour["at"] for hour in hours] == sorted(hour["at"] for hour in hours)
        one = api.get("/v1/analytics", days=1, queue="images")["hours"][0]
        all_ = api.get("/v1/analytics", days=1)["hours"][0]
        assert all_["enqueued"] > one["enqueued"] > 0

    def test_quantiles_are_those_of_all_deliveries_together(self, api):
        """Not the slowest queue's: its median is not that of all."""
        medians = {
            queue: api.get("/v1/analytics", days=1, **chosen)["hours"][0]["wait_p50"]
            for queue, chosen in (
                ("all", {}),
                ("email", {"queue": "email"}),
                ("images", {"queue": "images"}),
            )
        }
        assert medians == {"all": 0.02, "email": 0.01, "images": 0.04}

    def test_they_are_as_of_the_last_run(self, api):
        assert 120 < time.time() - api.get("/v1/analytics")["as_of"] < 300

    def test_errors_objectives_and_workers(self, api):
        answer = api.get("/v1/analytics", days=3)
        error = answer["errors"][0]
        assert (error["exception"], error["jobs"], error["example"]) == (
            "ConnectionError",
            93,
            "mail-7",
        )
        # What is known of its jobs is shown, not only what they were compared by.
        assert error["message"] == "smtp.example.com:587 refused"
        assert [one["queue"] for one in answer["objectives"]] == ["images", "email"]
        assert answer["objectives"][0]["attained"] == pytest.approx(0.962)
        assert answer["workers"][0]["worker"] == "gpu-1-4180"

    def test_stats_of_other_tenants_are_not_shown(self, api):
        assert "acme" not in str(api.get("/v1/analytics"))

    def test_a_restricted_caller_sees_its_part(self, lake):
        found = LakeStats(lake, 1)
        own = visibility_parameters("acme", None, None)
        assert [one.message for one in found.errors(**own)] == ["secret of acme"]
        images = visibility_parameters("default", {"images"}, None)
        assert [one.queue for one in found.objectives(**images)] == ["images"]
        of_a_kind = visibility_parameters("default", None, {"other"})
        assert (found.hours(**of_a_kind), found.workers(**of_a_kind)) == ([], [])

    def test_a_restricted_caller_sees_quantiles_of_one_queue_at_a_time(self, lake):
        found = LakeStats(lake, 1)

        def median(queues, kinds=None):
            return found.hours(**visibility_parameters("default", queues, kinds))[0].wait_p50

        assert median({"email"}) == median({"email"}, {"send"}) == 0.01
        assert median({"email", "images"}) is None
        assert median(None, {"send"}) is None

    def test_a_broken_file_is_reported(self, api, lake):
        next((lake / "gold" / "slo").glob("*.parquet")).write_bytes(b"nonsense")
        assert "cannot read the lake" in api.get("/v1/analytics", status=503)["detail"]
