"""Paths and queries: names are decoded once, and parameters are not repeated."""

from __future__ import annotations

import pytest

JOBS = "/v1/queues/email/jobs"


@pytest.mark.parametrize("name", ["a%252Fb", "%25", "%2525", "%252e%252e%2F"])
def test_names_are_decoded_once_per_request(api, name):
    """Decoding a path must not affect the next request."""
    decoded = {"a%252Fb": "a%2Fb", "%25": "%", "%2525": "%25", "%252e%252e%2F": "%2e%2e/"}[name]
    for _ in range(3):
        api.post(f"/v1/queues/{name}/jobs/batch", {"jobs": [{"payload": 1, "id": decoded}]})
        assert api.get(f"/v1/queues/{name}/jobs/{name}")["id"] == decoded

    assert [queue["queue"] for queue in api.get("/v1/queues")["queues"]] == [decoded]


def test_a_job_may_have_the_id_batch(api):
    api.post(f"{JOBS}/batch", {"jobs": [{"payload": 1, "id": "batch"}]})

    assert api.get(f"{JOBS}/batch")["id"] == "batch"
    assert api.get(f"{JOBS}/%62atch")["id"] == "batch"
    assert api.client.patch(f"{api.base}{JOBS}/batch", json={"priority": 7}).json()["priority"] == 7
    assert api.client.delete(f"{api.base}{JOBS}/batch").status_code == 204
    api.get(f"{JOBS}/batch", status=404)


def test_a_repeated_parameter_is_refused(api):
    refused = api.get(JOBS, status=400, limit=[1, 2])
    assert refused["at"] == "limit"
    api.enqueue(queue="email")
    assert api.get(JOBS, kind=["a", "b"])["jobs"] == []


def test_a_number_cannot_be_null(api):
    assert api.get(JOBS, status=400, created_after="null")["at"] == "created_after"
    api.enqueue(queue="email")
    assert api.get(JOBS, kind="null")["jobs"] == []


def test_options_lists_all_methods_of_a_path(api):
    answer = api.client.options(f"{api.base}/v1/queues/email")
    assert answer.status_code == 204
    assert answer.headers["allow"] == "DELETE, GET, HEAD, OPTIONS, PATCH"
