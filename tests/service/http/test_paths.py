"""Paths and queries: names are decoded once, and parameters are not repeated."""

from __future__ import annotations

import pytest

JOBS = "/v1/queues/email/jobs"


@pytest.mark.parametrize("name", ["a%252Fb", "%25", "%2525", "%252e%252e%2F"])
def test_a_name_means_the_same_each_time(api, name):
    """Decoding a path must not affect the next request."""
    meant = {"a%252Fb": "a%2Fb", "%25": "%", "%2525": "%25", "%252e%252e%2F": "%2e%2e/"}[name]
    for _ in range(3):
        api.post(f"/v1/queues/{name}/jobs/batch", {"jobs": [{"payload": 1, "id": meant}]})
        assert api.get(f"/v1/queues/{name}/jobs/{name}")["id"] == meant

    assert [queue["queue"] for queue in api.get("/v1/queues")["queues"]] == [meant]


def test_a_job_may_be_called_as_the_route_for_many_is(api):
    api.post(f"{JOBS}/batch", {"jobs": [{"payload": 1, "id": "batch"}]})

    assert api.get(f"{JOBS}/batch")["id"] == "batch"
    assert api.get(f"{JOBS}/%62atch")["id"] == "batch"
    assert api.client.patch(f"{api.base}{JOBS}/batch", json={"priority": 7}).json()["priority"] == 7
    assert api.client.delete(f"{api.base}{JOBS}/batch").status_code == 204
    api.get(f"{JOBS}/batch", status=404)


def test_a_parameter_that_is_there_twice_is_refused(api):
    refused = api.get(JOBS, status=400, limit=[1, 2])
    assert refused["at"] == "limit"
    api.enqueue(queue="email")
    assert api.get(JOBS, kind=["a", "b"])["jobs"] == []


def test_a_number_cannot_be_null(api):
    assert api.get(JOBS, status=400, created_after="null")["at"] == "created_after"
    api.enqueue(queue="email")
    assert api.get(JOBS, kind="null")["jobs"] == []


def test_a_path_tells_all_that_can_be_asked_of_it(api):
    answer = api.client.options(f"{api.base}/v1/queues/email")
    assert answer.status_code == 204
    assert answer.headers["allow"] == "DELETE, GET, HEAD, OPTIONS, PATCH"
