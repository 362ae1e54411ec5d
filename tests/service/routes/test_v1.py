"""The complete API: queues, jobs, batches, bulk operations, import, schedules, events."""

from __future__ import annotations

import json
import threading
import time
from typing import Any

import msgspec
import pytest

from ackline import Queues
from ackline.core.errors import StoreUnavailable
from ackline.core.job import QueueKey
from ackline.maintenance import Scheduler
from ackline.service.operations import bulk

QUEUE = "/v1/queues/email"
JOBS = f"{QUEUE}/jobs"


def add(api, payload=None, status=201, **options):
    return api.post(JOBS, {"payload": payload, **options}, status)["id"]


def claim(api, limit=1, **options):
    return api.post(f"{QUEUE}/claim", {"limit": limit, **options})["jobs"]


def settle(api, *outcomes):
    return api.post(f"{QUEUE}/settle", {"outcomes": list(outcomes)})["results"]


def state(api, id, queue="email"):
    return api.get(f"/v1/queues/{queue}/jobs/{id}")["state"]


def complete(runtime, id, result, **serdes):
    queue = Queues(runtime.store).queue("email", **serdes)
    queue.enqueue(b"" if serdes.get("serde") else None, id=id)
    [job] = queue.claim()
    queue.complete(job, result)


class Reversed:
    def dumps(self, value):
        return value[::-1]

    def loads(self, data):
        return data[::-1]


class TestEnqueue:
    def test_a_new_job_is_201_and_an_existing_one_200(self, api):
        body = {"payload": 1, "id": "a"}

        assert api.post(JOBS, body, 201) == {"id": "a", "accepted": True, "state": "queued"}
        assert api.post(JOBS, body, 200) == {"id": "a", "accepted": False, "state": "queued"}

    def test_a_completed_id_answers_with_its_result(self, api):
        add(api, id="a")
        (job,) = claim(api)
        settle(api, {"id": "a", "token": job["token"], "outcome": "complete", "result": [1]})

        again = api.post(JOBS, {"payload": 2, "id": "a"}, 200)
        assert (again["state"], again["result"]) == ("completed", [1])

    def test_a_batch_answers_in_order(self, api):
        jobs = [{"payload": n, "id": f"j{n}"} for n in range(3)]

        answers = api.post(f"{JOBS}/batch", {"jobs": [*jobs, jobs[0]]})["jobs"]

        assert [one["id"] for one in answers] == ["j0", "j1", "j2", "j0"]
        assert [one["accepted"] for one in answers] == [True, True, True, False]

    def test_a_batch_with_a_bad_job_stores_nothing(self, api):
        problem = api.post(f"{JOBS}/batch", {"jobs": [{"payload": 1}, {"id": ""}]}, 422)

        assert problem["type"].endswith("invalid-name")
        api.get(QUEUE, status=404)

    def test_too_large_a_batch(self, api):
        jobs = [{"payload": n} for n in range(1001)]

        assert api.post(f"{JOBS}/batch", {"jobs": jobs}, 413)["type"].endswith("too-large")

    def test_a_result_that_is_not_json_is_returned_as_base64_and_new_jobs_are_accepted(
        self, api, runtime
    ):
        complete(runtime, "bytes", b"\0\xff", serde=Reversed())
        complete(runtime, "packed", {"b": b"x"}, serde="msgpack")
        complete(runtime, "digit", 49, serde="msgpack")
        complete(runtime, "other", {"a": 1}, result_serde="msgpack")
        jobs = [{"id": id} for id in ("bytes", "packed", "digit", "other", "new")]

        *there, new = api.post(f"{JOBS}/batch", {"jobs": jobs})["jobs"]

        assert new == {"id": "new", "accepted": True, "state": "queued"}
        assert [one["state"] for one in there] == ["completed"] * 4
        assert [one["result"] for one in there] == [
            {"base64": "/wA=", "codec": "Reversed"},
            {"b": "eA=="},
            49,
            {"base64": "gaFhAQ==", "codec": "unknown"},
        ]
        for one in there:
            again = api.post(JOBS, {"payload": 2, "id": one["id"]}, 200)
            shown = api.get(f"{JOBS}/{one['id']}/result")
            assert again["result"] == shown["result"] == one["result"]
            assert api.get(f"{JOBS}/{one['id']}")["result"] == one["result"]

    def test_accepted_jobs_are_reported_even_if_results_cannot_be_read(
        self, api, runtime, monkeypatch
    ):
        complete(runtime, "there", 1)

        def fail(*_):
            raise StoreUnavailable("gone")

        monkeypatch.setattr(runtime.store, "get", fail)
        there, new = api.post(f"{JOBS}/batch", {"jobs": [{"id": "there"}, {"id": "new"}]})["jobs"]

        assert (there["result"], new["accepted"]) == (1, True)

    def test_options_are_kept(self, api):
        add(api, 1, id="a", kind="welcome", priority=9, max_attempts=7, backoff=[1, 2],
            lease=9, timeout=8, result_ttl=60, group="g", headers={"x": "y"}, delay=60,
            tags=["vip", "eu"])  # fmt: skip

        job = api.get(f"{JOBS}/a")
        assert job["state"] == "scheduled"
        assert (job["kind"], job["priority"], job["max_attempts"]) == ("welcome", 9, 7)
        assert (job["lease"], job["timeout"], job["result_ttl"]) == (9, 8, 60)
        assert (job["group"], job["headers"], job["tags"]) == ("g", {"x": "y"}, ["eu", "vip"])
        assert (job["backoff"]["delays"], job["codec"]) == ([1, 2], "json")

    def test_messages_can_specify_custom_timeouts(self, api):
        message = {"id": "msg_123", "payload": {"to": "ann"},
                   "custom_ack_timeout": 60, "custom_max_attempts": 5}  # fmt: skip

        api.post(JOBS, message, 201)
        api.post(f"{JOBS}/batch", {"jobs": [{**message, "id": "msg_124"}]})

        for id in ("msg_123", "msg_124"):
            job = api.get(f"{JOBS}/{id}")
            assert (job["payload"], job["lease"], job["max_attempts"]) == ({"to": "ann"}, 60, 5)
            (claimed,) = claim(api)
            assert claimed["deadline"] - time.time() == pytest.approx(60, abs=5)

    def test_an_option_is_given_by_one_of_its_names(self, api):
        twice = {"payload": 1, "lease": 30, "custom_ack_timeout": 60}

        assert "custom_ack_timeout is another name" in api.post(JOBS, twice, 422)["detail"]
        assert api.get(QUEUE, 404)["status"] == 404


class TestJobDocument:
    def test_a_job_has_its_attempts_and_its_timeline(self, api):
        add(api, {"to": "ann"}, id="a", backoff=[0])
        (job,) = claim(api, worker="w1")
        error = {"type": "OSError", "message": "no", "traceback": "line 1"}
        settle(api, {"id": "a", "token": job["token"], "outcome": "fail", "error": error})

        shown = api.get(f"{JOBS}/a")

        assert shown["payload"] == {"to": "ann"}
        assert shown["error"] == "OSError: no"
        assert shown["history"][0]["worker"] == "w1"
        assert shown["history"][0]["traceback"] == "line 1"
        assert [one["act"] for one in shown["timeline"]][:3] == ["enqueue", "claim", "fail"]
        assert shown["timeline_complete"]
        assert "timeline" not in api.get(f"{JOBS}/a", timeline="false")

    def test_pages_list_each_job_once(self, api):
        ids = [add(api, n) for n in range(7)]
        found, cursor = [], None

        while True:
            page = api.get(JOBS, limit=3, **({"cursor": cursor} if cursor else {}))
            found += [job["id"] for job in page["jobs"]]
            cursor = page["cursor"]
            if cursor is None:
                break

        assert found == ids

    def test_filters(self, api):
        add(api, {"to": "ann"}, id="a", kind="red")
        add(api, {"to": "bob"}, id="b", kind="blue")
        add(api, {"to": "ann"}, id="c", kind="red", delay=60)

        def ids(**query):
            return [job["id"] for job in api.get(JOBS, **query)["jobs"]]

        assert ids(kind="red", state="queued") == ["a"]
        assert sorted(ids(kind=["red", "blue"])) == ["a", "b", "c"]
        assert sorted(ids(text='"to":"ann"')) == ["a", "c"]
        assert ids(created_after=time.time() + 60) == []
        assert api.get(JOBS, status=400, state="lost")["at"] == "state"

    def test_an_invalid_cursor_is_refused(self, api):
        add(api)

        for cursor in ("strange", "[]", "[1]", '["a", "b"]', "{}", "null", "\0"):
            assert api.get(JOBS, status=422, cursor=cursor)["at"] == "cursor"

    def test_ids_may_have_any_character(self, api):
        for id in ("a/b", "a%2Fb", "a b?c#d", "é\N{BUG}", "..", "a%", "x" * 512):
            add(api, 1, id=id)
            path = "".join(f"%{byte:02X}" for byte in id.encode())
            assert api.get(f"{JOBS}/{path}")["id"] == id


class TestResult:
    def test_waits_for_it(self, api):
        add(api, id="a")
        (job,) = claim(api)
        outcome = {"id": "a", "token": job["token"], "outcome": "complete", "result": {"n": 1}}
        later = threading.Timer(0.2, settle, [api, outcome])
        later.start()

        assert api.get(f"{JOBS}/a/result", wait=10) == {"id": "a", "result": {"n": 1}}
        later.join()

    def test_not_finished_in_time(self, api):
        add(api, id="a")

        assert api.get(f"{JOBS}/a/result", wait=0.05, status=504)["type"].endswith("timeout")

    def test_failed_or_absent(self, api):
        add(api, id="a")
        (job,) = claim(api)
        settle(api, {"id": "a", "token": job["token"], "outcome": "bury", "error": "never"})

        assert "never" in api.get(f"{JOBS}/a/result", status=409)["detail"]
        api.get(f"{JOBS}/b/result", status=404)


class TestAct:
    def test_cancel_redrive_edit_move_delete(self, api):
        add(api, 1, id="a")
        assert api.patch(f"{JOBS}/a", {"payload": None, "priority": 1})["payload"] is None
        assert api.post(f"{JOBS}/a/move", {"to": "other"})["queue"] == "other"
        api.get(f"{JOBS}/a", status=404)
        assert api.post("/v1/queues/other/jobs/a/cancel") == {"id": "a", "state": "cancelled"}
        assert api.post("/v1/queues/other/jobs/a/redrive", {}, 409)["state"] == "cancelled"
        api.delete("/v1/queues/other/jobs/a", status=204)
        api.delete("/v1/queues/other/jobs/a", status=404)

    def test_a_payload_of_another_codec_cannot_be_edited(self, api, runtime):
        queue = Queues(runtime.store).queue("email", serde="msgpack")
        queue.enqueue({"b": b"x"}, id="packed")

        assert api.get(f"{JOBS}/packed")["codec"] == "msgpack"
        refused = api.patch(f"{JOBS}/packed", {"payload": {"b": "eA=="}, "priority": 9}, 422)
        assert "written as msgpack" in refused["detail"]
        assert api.patch(f"{JOBS}/packed", {"priority": 8})["priority"] == 8
        [job] = queue.claim()
        assert (job.payload, job.priority) == ({"b": b"x"}, 8)

    def test_redrive_runs_again_with_all_attempts(self, api):
        add(api, id="a", max_attempts=1)
        (job,) = claim(api)
        settle(api, {"id": "a", "token": job["token"], "outcome": "fail"})

        assert api.post(f"{JOBS}/a/redrive", {"delay": 60})["state"] == "scheduled"
        assert api.get(f"{JOBS}/a")["attempts"] == 0

    def test_cancellation_of_a_running_job_is_requested(self, api):
        add(api, id="a")
        (job,) = claim(api)

        assert api.post(f"{JOBS}/a/cancel")["state"] == "processing"
        leases = [{"id": "a", "token": job["token"]}]
        assert api.post(f"{QUEUE}/extend", {"leases": leases}) == {"lost": [], "cancelled": ["a"]}
        assert api.patch(f"{JOBS}/a", {"priority": 1}, 409)["state"] == "processing"


class TestWork:
    def test_every_outcome(self, api):
        for name in ("complete", "fail", "bury", "snooze", "release", "cancel"):
            add(api, id=name)
        tokens = {job["id"]: job["token"] for job in claim(api, 10)}

        results = settle(
            api,
            *(
                {"id": id, "token": token, "outcome": id, "delay": 60}
                for id, token in tokens.items()
            ),
        )

        assert all(result["ok"] for result in results)
        assert {result["id"]: result["state"] for result in results} == {
            "complete": "completed",
            "fail": "failing",
            "bury": "failed",
            "snooze": "scheduled",
            "release": "queued",
            "cancel": "cancelled",
        }

    def test_each_outcome_is_fenced_by_itself(self, api):
        for id in ("a", "b"):
            add(api, id=id)
        tokens = {job["id"]: job["token"] for job in claim(api, 2)}

        good, stale, absent = settle(
            api,
            {"id": "a", "token": tokens["a"], "outcome": "complete"},
            {"id": "b", "token": "1", "outcome": "complete"},
            {"id": "c", "token": "1", "outcome": "complete"},
        )

        assert good["ok"]
        assert (stale["ok"], stale["problem"]["status"]) == (False, 409)
        assert (absent["ok"], absent["problem"]["status"]) == (False, 404)
        assert state(api, "b") == "processing"

    def test_settling_again_answers_the_same(self, api):
        add(api, id="a")
        (job,) = claim(api)
        outcome = {"id": "a", "token": job["token"], "outcome": "complete", "result": 1}

        assert settle(api, outcome) == settle(api, outcome)
        other = {**outcome, "result": 2}
        assert not settle(api, other)[0]["ok"]

    def test_progress_is_seen(self, api):
        add(api, id="a")
        (job,) = claim(api)
        settle(api, {"id": "a", "token": job["token"], "outcome": "progress", "result": 0.5})

        assert api.get(f"{JOBS}/a")["progress"] == 0.5

    def test_a_heartbeat_makes_a_worker_known(self, api):
        add(api, id="a")
        (job,) = claim(api, worker="w1")
        leases = [{"id": "a", "token": job["token"], "seconds": 600}, {"id": "x", "token": "5"}]

        reply = api.post(f"{QUEUE}/extend", {"leases": leases, "worker": "w1", "ttl": 10})

        assert reply == {"lost": ["x"], "cancelled": []}
        assert api.get(f"{JOBS}/a")["deadline"] > time.time() + 500
        (worker,) = api.get("/v1/workers")["workers"]
        assert (worker["id"], worker["alive"], worker["leases"]) == ("w1", True, 1)

    def test_a_claim_waits(self, api):
        later = threading.Timer(0.2, add, [api])
        later.start()

        assert len(claim(api, 5, wait=10)) == 1
        later.join()

    @pytest.mark.parametrize(
        ("act", "many", "more"),
        [("settle", "outcomes", {"outcome": "complete"}), ("extend", "leases", {})],
    )
    def test_a_bad_token_is_called_a_token_and_located(self, api, act, many, more):
        id = api.enqueue()
        [job] = api.post("/v1/queues/default/claim", {})["jobs"]
        good, bad = ({"id": id, "token": token, **more} for token in (job["token"], "x"))

        problem = api.post(f"/v1/queues/default/{act}", {many: [good, bad]}, status=422)

        assert problem["at"] == f"$.{many}[1].token"
        assert problem["detail"].startswith("'x' is not a token: ")
        assert api.get(f"/v1/queues/default/jobs/{id}")["state"] == "processing"


class TestQueues:
    def test_unknown(self, api):
        for method, path in (("GET", ""), ("DELETE", ""), ("POST", "/purge"), ("GET", "/workers")):
            api(method, f"/v1/queues/never{path}", 404)
        assert api.get("/v1/queues") == {"queues": []}

    def test_settings_hold_for_its_jobs(self, api):
        changed = api.patch(QUEUE, {"policy": {"max_attempts": 1, "lease": 99}, "max_jobs": 2})
        assert changed["settings"]["policy"] == {"max_attempts": 1, "lease": 99.0}
        add(api, id="a")
        (job,) = claim(api)
        assert job["deadline"] > time.time() + 90
        settle(api, {"id": "a", "token": job["token"], "outcome": "fail"})
        assert state(api, "a") == "failed"

    def test_a_backoff_by_rule(self, api):
        rule = {"shape": "linear", "base": 2, "jitter": "full"}
        changed = api.patch(QUEUE, {"kinds": {"slow": {"backoff": rule}}})
        assert changed["settings"]["kinds"]["slow"]["backoff"]["shape"] == "linear"
        where = "$.policy.backoff.shape"
        assert api.patch(QUEUE, {"policy": {"backoff": {"shape": "x"}}}, 400)["at"] == where
        api.patch(QUEUE, {"policy": {"backoff": {"shape": "schedule"}}}, 422)

    def test_a_full_queue_is_507(self, api):
        api.patch(QUEUE, {"max_jobs": 1})
        add(api)

        assert api.post(JOBS, {"payload": 1}, 507)["type"].endswith("store-full")

    def test_pause_and_resume(self, api):
        add(api)

        assert api.post(f"{QUEUE}/pause")["paused"]
        assert claim(api) == []
        assert not api.post(f"{QUEUE}/resume")["paused"]
        assert len(claim(api)) == 1

    def test_delete_is_refused_while_it_has_jobs(self, api):
        add(api)

        problem = api.delete(QUEUE, status=409)
        assert problem["type"].endswith(":queue-not-empty")
        assert "1 waiting or running jobs" in problem["detail"]
        assert api.delete(QUEUE, force="true") == {"changed": 1}

    def test_nothing_is_left_of_a_deleted_queue(self, api):
        add(api, id="a")
        claimed = claim(api)[0]
        outcome = {"id": "a", "token": claimed["token"], "outcome": "complete", "result": 1}
        api.post(f"{QUEUE}/settle", {"outcomes": [outcome]})
        api.patch(QUEUE, {"max_jobs": 5})
        api.put(f"{QUEUE}/schedules/nightly", {"cron": "0 3 * * *"})

        assert api.delete(QUEUE) == {"changed": 1}

        api.get(QUEUE, 404)
        api.delete(QUEUE, 404)
        assert api.get("/v1/queues")["queues"] == []
        assert api.get("/v1/overview")["queues"] == []
        assert api.get(f"{QUEUE}/schedules")["schedules"] == []
        api.get(f"{QUEUE}/jobs/a/result", 404)
        events = api.get("/v1/events")["events"]
        assert [(event["act"], event["queue"]) for event in events][-2:] == [
            ("purge", "email"),
            ("drop", "email"),
        ]
        add(api, id="a")
        assert api.get(QUEUE)["settings"] == {}

    def test_purge_keeps_the_settings(self, api):
        api.patch(QUEUE, {"max_jobs": 5})
        add(api)

        assert api.post(f"{QUEUE}/purge") == {"changed": 1}
        assert api.get(QUEUE)["settings"] == {"max_jobs": 5}

    def test_rename_moves_all(self, api):
        api.patch(QUEUE, {"max_jobs": 5000})
        ids = [add(api, n) for n in range(3)]

        renamed = api.post(f"{QUEUE}/rename", {"to": "mail"})

        assert renamed["counts"]["queued"] == 3
        assert (renamed["paused"], renamed["settings"]) == (False, {"max_jobs": 5000})
        assert [j["id"] for j in api.get("/v1/queues/mail/jobs")["jobs"]] == ids
        api.get(QUEUE, 404)

    def test_rename_moves_the_schedules(self, api):
        add(api)
        api.put(f"{QUEUE}/schedules/nightly", {"cron": "0 3 * * *"})

        api.post(f"{QUEUE}/rename", {"to": "mail"})

        names = [one["name"] for one in api.get("/v1/queues/mail/schedules")["schedules"]]
        assert names == ["nightly"]
        assert api.get(f"{QUEUE}/schedules")["schedules"] == []

    def test_rename_is_refused_while_jobs_run(self, api):
        add(api)
        claim(api)

        assert "run" in api.post(f"{QUEUE}/rename", {"to": "mail"}, 409)["detail"]
        assert not api.get(QUEUE)["paused"]


class TestBulk:
    @pytest.fixture
    def bulk(self, api):
        def act(action, dry_run=False, to=None, **which):
            body = {"action": action, "filter": which, "dry_run": dry_run}
            return api.post(f"{QUEUE}/bulk", body | ({"to": to} if to else {}))["count"]

        return act

    def test_dry_run_counts_what_is_then_changed(self, api, bulk):
        for n in range(5):
            add(api, {"n": n}, id=str(n), kind="even" if n % 2 == 0 else "odd")

        assert bulk("cancel", dry_run=True, kinds=["even"]) == 3
        assert state(api, "0") == "queued"
        assert bulk("cancel", kinds=["even"]) == 3
        assert [state(api, str(n)) for n in range(3)] == ["cancelled", "queued", "cancelled"]

    def test_skips_jobs_in_other_states(self, api, bulk):
        add(api, id="a")
        claim(api)
        add(api, id="b")

        assert bulk("move", to="other") == 1
        assert state(api, "a") == "processing"
        assert bulk("redrive") == 0

    def test_redrive_and_delete(self, api, bulk):
        add(api, id="a")
        (job,) = claim(api)
        settle(api, {"id": "a", "token": job["token"], "outcome": "bury"})

        assert bulk("redrive", dry_run=True) == bulk("redrive") == 1
        assert bulk("delete", states=["queued"], text="null") == 1
        api.get(f"{JOBS}/a", status=404)

    @pytest.mark.parametrize("action", ["cancel", "delete", "move"])
    def test_changes_what_the_preview_counted(self, api, action):
        add(api, id="seen")
        body = {"action": action, "filter": {"states": ["queued"]}}
        body |= {"to": "other"} if action == "move" else {}
        preview = api.post(f"{QUEUE}/bulk", {**body, "dry_run": True})
        add(api, id="new")

        done = api.post(f"{QUEUE}/bulk", {**body, "as_of": preview["as_of"]})

        assert (preview["count"], done["count"], state(api, "new")) == (1, 1, "queued")

    def test_cancel_requests_cancellation_of_running_jobs(self, api, bulk):
        add(api, id="a")
        claim(api)
        add(api, id="b")

        assert bulk("cancel") == 2
        assert [state(api, id) for id in "ab"] == ["processing", "cancelled"]
        assert api.get(f"{JOBS}/a")["cancel_requested"]

    def test_deletes_no_job_that_failed_after_the_preview(self, api):
        for id in "ab":
            add(api, id=id)
        first, second = claim(api, 2)
        settle(api, {"id": first["id"], "token": first["token"], "outcome": "bury"})
        body = {"action": "delete", "filter": {"states": ["failed"]}}
        preview = api.post(f"{QUEUE}/bulk", {**body, "dry_run": True})
        settle(api, {"id": second["id"], "token": second["token"], "outcome": "bury"})

        done = api.post(f"{QUEUE}/bulk", {**body, "as_of": preview["as_of"]})

        assert (preview["count"], done["count"]) == (1, 1)
        assert state(api, second["id"]) == "failed"

    def test_needs_a_new_preview_when_the_journal_was_trimmed(self, api, runtime):
        add(api, id="a")
        body = {"action": "cancel", "filter": {}}
        preview = api.post(f"{QUEUE}/bulk", {**body, "dry_run": True})
        api.patch(QUEUE, {"max_journal": 0})
        add(api, id="b")
        runtime.store.prune(QueueKey("default", "email"), 1000)

        result = api.post(f"{QUEUE}/bulk", {**body, "as_of": preview["as_of"]}, 409)

        assert "preview" in result["detail"]
        assert state(api, "a") == "queued"

    @pytest.mark.parametrize("as_of", ["", "7", '[1, "x"]', "[]"])
    def test_refuses_an_invalid_as_of(self, api, as_of):
        add(api)
        body = {"action": "cancel", "filter": {}, "as_of": as_of}

        assert api.post(f"{QUEUE}/bulk", body, 422)["at"] == "$.as_of"

    def test_move_needs_a_queue(self, api):
        api.enqueue(queue="email")
        body = {"action": "move", "filter": {"kinds": ["none"]}}

        assert api.post(f"{QUEUE}/bulk", body, 422)["at"] == "$.to"
        assert api.post(f"{QUEUE}/bulk", {**body, "dry_run": True})["count"] == 0


@pytest.mark.every_store
class TestPreviews:
    @pytest.fixture
    def settings(self, settings, store_url):
        return msgspec.structs.replace(settings, store=store_url)

    @pytest.mark.parametrize("action", ["cancel", "delete", "move"])
    @pytest.mark.parametrize("way", ["redriven", "retried", "moved here", "edited"])
    def test_skips_jobs_that_match_only_since_the_preview(self, api, action, way):
        which = {"states": ["queued"], "text": "yes"}
        body = {"action": action, "filter": which} | ({"to": "b"} if action == "move" else {})
        payload = "no" if way == "edited" else "yes"
        add(api, payload, id="old", max_attempts=1 if way == "redriven" else 2, backoff=[60])
        if way in ("redriven", "retried"):
            (job,) = claim(api)
            settle(api, {"id": "old", "token": job["token"], "outcome": "fail", "error": "no"})
        if way == "moved here":
            api.post(f"{JOBS}/old/move", {"to": "other"})
        add(api, "yes", id="seen")
        preview = api.post(f"{QUEUE}/bulk", {**body, "dry_run": True})
        match way:
            case "redriven":
                api.post(f"{JOBS}/old/redrive", {})
            case "moved here":
                api.post("/v1/queues/other/jobs/old/move", {"to": "email"})
            case "edited":
                api.patch(f"{JOBS}/old", {"payload": "yes"})
            case _:
                api.patch(f"{JOBS}/old", {"delay": 0})
                until = time.monotonic() + 20
                while state(api, "old") != "queued":
                    assert time.monotonic() < until, "not promoted"

        done = api.post(f"{QUEUE}/bulk", {**body, "as_of": preview["as_of"]})

        assert (preview["count"], done["count"], state(api, "old")) == (1, 1, "queued")


class TestBulkSteps:
    """A bulk operation in several requests."""

    @pytest.fixture(autouse=True)
    def stop_at_once(self, monkeypatch):
        monkeypatch.setattr(bulk, "TIME_LIMIT", 0.0)
        monkeypatch.setattr(bulk, "PAGE", 2)

    @pytest.fixture
    def act(self, api):
        def act(body):
            return api.post(f"{QUEUE}/bulk", body)

        return act

    @pytest.fixture
    def dead(self, api):
        for n in range(3):
            add(api, n, id=str(n))
        for job in claim(api, 3):
            error = {"type": "OSError", "message": f"no {job['id']}"}
            settle(api, {"id": job["id"], "token": job["token"], "outcome": "bury", "error": error})

    @pytest.mark.parametrize("action", ["cancel", "delete", "move"])
    def test_return_a_count_and_a_cursor(self, api, act, action):
        for n in range(3):
            add(api, {"n": n}, id=str(n))
        body = {"action": action, "filter": {"text": "n"}}
        body |= {"to": "other"} if action == "move" else {}

        first = act(body)
        add(api, {"n": "new"}, id="new")
        second = act(body | {"cursor": first["cursor"]})

        assert (first["count"], second["count"]) == (2, 1)
        last = second if second["cursor"] is None else act(body | {"cursor": second["cursor"]})
        assert (last["cursor"], state(api, "new")) == (None, "queued")

    def test_count_too(self, api, act):
        for n in range(3):
            add(api, {"n": n})
        body = {"action": "cancel", "filter": {"text": "n"}, "dry_run": True}

        first = act(body)
        second = act(body | {"cursor": first["cursor"]})

        assert (first["count"], second["count"], second["cursor"]) == (2, 1, None)

    def test_redrive_no_job_twice(self, api, act, dead):
        body = {"action": "redrive", "filter": {}}

        first = act(body)
        (job,) = claim(api)
        settle(api, {"id": job["id"], "token": job["token"], "outcome": "bury"})
        second = act(body | {"cursor": first["cursor"]})

        assert (first["count"], second["count"], second["cursor"]) == (2, 1, None)
        assert state(api, job["id"]) == "failed"

    def test_keep_to_one_rate(self, api, act, dead):
        body = {"action": "redrive", "filter": {}, "rate": 0.1}

        act(body | {"cursor": act(body)["cursor"]})

        due = sorted(job["run_at"] or 0.0 for job in api.get(JOBS)["jobs"])
        assert due[0] == 0.0
        assert due[2] - due[1] > 9

    def test_delete_the_failed_jobs_of_a_group(self, api, act, dead):
        [group] = api.get(f"{QUEUE}/dlq/groups")["groups"]
        body = {"action": "delete", "filter": {"fingerprint": group["fingerprint"]}}

        first = act(body)
        assert (first["count"], act(body | {"cursor": first["cursor"]})["count"]) == (2, 1)

    def test_end_when_the_service_stops(self, api, act, runtime, monkeypatch):
        monkeypatch.setattr(bulk, "TIME_LIMIT", 60.0)
        for n in range(3):
            add(api, {"n": n})
        runtime.draining = True

        done = act({"action": "cancel", "filter": {"text": "n"}})

        assert (done["count"], done["cursor"] is None) == (2, False)

    @pytest.mark.parametrize(
        "cursor", ["strange", "[]", "[1,-1]", '[1,0,"strange"]', "[1,0,null,2]"]
    )
    def test_an_invalid_cursor_is_refused(self, api, dead, cursor):
        body = {"action": "redrive", "filter": {}, "cursor": cursor}

        assert api.post(f"{QUEUE}/bulk", body, 422)["at"] == "$.cursor"


class TestTransfer:
    def send(self, api, *lines):
        body = b"".join(json.dumps(line).encode() + b"\n" for line in lines)
        return api("POST", f"{QUEUE}/import", content=body)

    def test_out_and_in_again(self, api):
        for n in range(3):
            add(api, {"n": n}, id=str(n))
        exported = api.client.get(f"/api{QUEUE}/export?state=queued").text.splitlines()
        lines = [json.loads(line) for line in exported]
        api.post(f"{QUEUE}/purge")

        counts = self.send(api, *({"id": x["id"], "payload": x["payload"]} for x in lines))

        assert (counts["lines"], counts["enqueued"]) == (3, 3)
        assert api.get(f"{JOBS}/1")["payload"] == {"n": 1}

    def test_only_jobs_with_the_text_are_exported(self, api):
        for n in range(3):
            add(api, {"n": n}, id=str(n))
        (line,) = api.client.get(f"/api{QUEUE}/export", params={"text": '"n":1'}).text.splitlines()
        assert json.loads(line)["id"] == "1"

    def test_stops_at_the_first_bad_line(self, api):
        counts = self.send(api, {"payload": 1}, {"payload": 2, "colour": 3}, {"payload": 4})

        assert (counts["enqueued"], counts["stopped_at"]) == (1, 2)
        assert "`colour`" in counts["problem"]["detail"]

    def test_more_lines_than_a_chunk(self, api):
        counts = self.send(api, *({"payload": n} for n in range(2500)))

        assert (counts["lines"], counts["enqueued"]) == (2500, 2500)


class TestSchedules:
    PATH = f"{QUEUE}/schedules"

    def test_made_listed_and_deleted(self, api):
        made = api.put(f"{self.PATH}/nightly", {"cron": "0 3 * * *", "payload": {"n": 1}})

        assert made["next_at"] > time.time()
        assert api.get(self.PATH)["schedules"] == [made]
        api.delete(f"{self.PATH}/nightly", status=204)
        api.delete(f"{self.PATH}/nightly", status=404)

    def test_of_all_queues_are_listed_even_if_their_queue_does_not_exist_yet(self, api):
        later = api.put("/v1/queues/later/schedules/yearly", {"cron": "0 0 1 1 *"})
        soon = api.put("/v1/queues/mail/schedules/often", {"cron": "* * * * *"})

        assert api.get("/v1/schedules")["schedules"] == [soon, later]
        assert api.get("/v1/queues/later/schedules")["schedules"] == [later]
        api.get("/v1/queues/later", status=404)

    def test_a_schedule_that_never_fires_is_refused(self, api):
        problem = api.put(f"{self.PATH}/never", {"cron": "0 0 30 2 *"}, 422)

        assert "'0 0 30 2 *'" in problem["detail"]
        assert api.get(self.PATH) == {"schedules": []}

    def test_one_more_than_the_limit_is_refused(self, api, monkeypatch):
        monkeypatch.setattr("ackline.service.schedules.MAX_PER_QUEUE", 3)
        names = ["a", "b", "c"]
        for name in names:
            api.put(f"{self.PATH}/{name}", {"cron": "* * * * *"})

        problem = api.put(f"{self.PATH}/d", {"cron": "* * * * *"}, 409)

        assert "already has the maximum of 3 schedules" in problem["detail"]
        assert [one["name"] for one in api.get(self.PATH)["schedules"]] == names
        api.put(f"{self.PATH}/a", {"cron": "0 * * * *"})
        api.put("/v1/queues/other/schedules/d", {"cron": "* * * * *"})
        api.delete(f"{self.PATH}/a", status=204)
        api.put(f"{self.PATH}/d", {"cron": "* * * * *"})

    def test_one_more_than_is_read_of_a_tenant_is_refused(self, api, monkeypatch):
        monkeypatch.setattr("ackline.service.schedules.MAX_PER_TENANT", 2)
        for queue in ("a", "b"):
            api.put(f"/v1/queues/{queue}/schedules/s", {"cron": "* * * * *"})

        api.put("/v1/queues/c/schedules/s", {"cron": "* * * * *"}, 409)

    def test_more_bytes_than_a_process_keeps_of_a_tenant_are_refused(self, api, monkeypatch):
        monkeypatch.setattr("ackline.service.schedules.MAX_BYTES_PER_TENANT", 2500)
        large = {"cron": "* * * * *", "payload": "x" * 1000}
        for name in ("a", "b"):
            api.put(f"{self.PATH}/{name}", large)

        problem = api.put("/v1/queues/other/schedules/c", large, 409)

        assert "2,500 bytes in all" in problem["detail"]
        api.put(f"{self.PATH}/a", {**large, "payload": "x" * 2000}, 409)
        api.put(f"{self.PATH}/a", {**large, "payload": "y"})
        api.put("/v1/queues/other/schedules/c", large)

    def test_of_merged_queues_are_all_listed_and_can_be_deleted(self, api, monkeypatch):
        monkeypatch.setattr("ackline.service.schedules.MAX_PER_QUEUE", 2)
        for queue, names in (("email", "ab"), ("mail", "cd")):
            api.post(f"/v1/queues/{queue}/jobs", {"payload": 1}, 201)
            for name in names:
                api.put(f"/v1/queues/{queue}/schedules/{name}", {"cron": "* * * * *"})
        api.post("/v1/queues/mail/rename", {"to": "email", "merge": True})

        assert [one["name"] for one in api.get(self.PATH)["schedules"]] == list("abcd")
        api.delete(f"{self.PATH}/d", status=204)
        api.get(f"{self.PATH}/d", status=404)

    def test_are_fired_by_the_service(self, api, runtime, monkeypatch):
        maintained: list[str] = []
        maintain = Scheduler.maintain

        def recorded(scheduler: Scheduler, queue: Any) -> float:
            maintained.extend(schedule.name for schedule in scheduler.schedules)
            return maintain(scheduler, queue)

        monkeypatch.setattr(Scheduler, "maintain", recorded)
        add(api, delay=60)
        api.put(f"{self.PATH}/tick", {"cron": "* * * * *", "payload": "tick", "kind": "tick"})
        runtime.background.loops[0].step()

        assert maintained == ["tick"]


class TestEvents:
    def test_pages_have_every_event_in_order(self, api):
        ids = [add(api, n) for n in range(3)]

        first = api.get("/v1/events", limit=2)
        rest = api.get("/v1/events", after=first["cursor"])

        events = [*first["events"], *rest["events"]]
        assert [one["id"] for one in events] == ids
        assert {one["act"] for one in events} == {"enqueue"}
        end = api.get("/v1/events", after=rest["cursor"])
        assert end == {"events": [], "sweeps": [], "cursor": rest["cursor"]}

    def test_of_one_queue(self, api):
        add(api)
        api.enqueue()

        assert {e["queue"] for e in api.get("/v1/events", queue="email")["events"]} == {"email"}

    def test_the_last_ones_after_a_bulk(self, api):
        for n in range(25):
            add(api, n, id=f"Old-{n}")
        bulk = [{"id": f"bulk-{n}"} for n in range(1000)]
        for start in range(3):
            jobs = [{"id": f"{start}-{job['id']}"} for job in bulk]
            api.post(f"{JOBS}/batch", {"jobs": jobs})
        add(api, id="new")

        page = api.get("/v1/events", last=1000)
        ids = [one["id"] for one in page["events"]]
        assert (ids[0], ids[-1], len(ids)) == ("2-bulk-1", "new", 1000)
        assert page["complete"]
        assert api.get("/v1/events", after=page["cursor"])["events"] == []

        # and what is rare is looked for further back
        api.post(f"{JOBS}/Old-24/cancel")
        assert [e["id"] for e in api.get("/v1/events", last=9, act="cancel")["events"]] == [
            "Old-24"
        ]
        old = api.get("/v1/events", last=3, text="old-", act="enqueue", queue="email")["events"]
        assert [one["id"] for one in old] == ["Old-22", "Old-23", "Old-24"]

    def test_pages_can_be_filtered_too(self, api):
        ids = [add(api, n) for n in range(3)]
        api.post(f"{JOBS}/{ids[1]}/cancel")

        page = api.get("/v1/events", text=ids[1])
        assert [one["act"] for one in page["events"]] == ["enqueue", "cancel"]
        assert "complete" not in page

    def test_last_and_after_exclude_each_other(self, api):
        assert api.get("/v1/events", status=422, last=1, after="1.0")["at"] == "after"

    def test_an_invalid_cursor(self, api):
        assert api.get("/v1/events", status=422, after="x")["at"] == "after"


class TestKeys:
    def test_are_apart_however_they_are_written(self, api):
        api.put("/keys/a/b", {"value": 1})
        api.put("/keys/a%2Fb", {"value": 2})
        api.put("/v1/keys/a%252Fb", {"value": 3})

        assert [k["key"] for k in api.get("/keys")] == [["a", "b"], ["a%2Fb"], ["a/b"]]
        assert api.get("/keys", prefix="a")[0]["value"] == 1
        assert api.get("/v1/keys", prefix=["a", "b"])[0]["value"] == 1
        assert api.get("/keys/a%2Fb")["value"] == 2
        api.delete("/keys/a/b")
        api.get("/keys/a/b", status=404)

    def test_versions_keep_two_writers_apart(self, api):
        first = api.put("/keys/k", {"value": 1, "version": 0})
        api.put("/keys/k", {"value": 2, "version": 0}, 409)
        assert api.put("/keys/k", {"value": 2, "version": first["version"]})["value"] == 2

    def test_ackline_s_own_are_not_there(self, api):
        api.put(f"{QUEUE}/schedules/x", {"cron": "0 3 * * *"})

        assert api.get("/keys") == []
        assert api.get("/keys", prefix="ackline") == []
        api.get("/keys/ackline/schedules/email/x", status=404)
        api.delete("/keys/ackline/schedules/email/x", status=404)
        api.put("/keys/ackline/x", {"value": 1}, 422)
