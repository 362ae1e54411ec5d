"""What the dashboard is served with, and the routes that were made for it."""

from __future__ import annotations

import re

import pytest
from tests.service.conftest import client_for

from ackline.core.clock import ManualClock
from ackline.core.error_fingerprint import normalize_message
from ackline.core.job import QueueKey
from ackline.journal_views.seek import cursor_before
from ackline.journal_views.throughput import ThroughputReader
from ackline.queue import NewJob
from ackline.queues import Queues
from ackline.service import Settings
from ackline.service.routes.v1 import search
from ackline.stores.memory import MemoryStore

JOBS = "/v1/queues/mail/jobs"


def dead(queue, id, error):
    queue.enqueue({"order": id}, id=id, max_attempts=1)
    queue.fail(next(job for job in queue.claim(10) if job.id == id), error)


@pytest.fixture
def mail(runtime, api):
    return Queues(runtime.store, "default")["mail"]


class TestPage:
    VIEWS = ("/", "/queues/mail/failed", "/queues/a%2Fb/jobs/x?y=1", "/workers", "/search?text=a")

    @pytest.mark.parametrize("view", VIEWS)
    def test_every_view_is_the_same_page_under_a_strict_policy(self, api, view):
        answer = api.client.get(view)
        assert answer.status_code == 200
        assert answer.headers["content-type"].startswith("text/html")
        assert answer.headers["cache-control"] == "no-cache"
        policy = answer.headers["content-security-policy"]
        assert "default-src 'none'" in policy
        assert "unsafe" not in policy
        assert "script-src 'self';" in policy
        assert "frame-ancestors 'none'" in policy

    def test_its_assets_are_cached_forever(self, api):
        page = api.client.get("/").text
        for name in re.findall(r'"(/assets/[^"]+)"', page):
            answer = api.client.get(name)
            assert answer.status_code == 200
            assert "immutable" in answer.headers["cache-control"]
            assert answer.headers["x-content-type-options"] == "nosniff"

    def test_it_is_compressed_for_who_can_read_that(self, api):
        (name,) = re.findall(r'"(/assets/[^"]+\.js)"', api.client.get("/").text)
        encoded = api.client.get(name, headers={"accept-encoding": "gzip"})
        plain = api.client.get(name, headers={"accept-encoding": "identity"})
        assert encoded.headers["content-encoding"] == "gzip"
        assert int(encoded.headers["content-length"]) < 200_000 < len(plain.content)
        assert encoded.content == plain.content

    @pytest.mark.parametrize("path", ["/assets/absent.js", "/assets/..%2Findex.html", "/absent"])
    def test_an_absent_file_is_a_problem_and_not_the_page(self, api, path):
        answer = api.client.get(path)
        assert answer.status_code == 404
        assert answer.headers["content-type"] == "application/problem+json"

    @pytest.mark.parametrize(
        "path",
        [
            "",
            "/nope",
            "/nope/",
            "/nope.json",
            "/v1/nope",
            "/docs/nope",
            "/openapi.json/openapi.json",
            "/openapi.json/nope",
        ],
    )
    @pytest.mark.parametrize("base", ["/api", "/keyval/api"])
    def test_an_unknown_path_of_the_api_is_a_problem_and_not_a_page(self, base, path):
        with client_for(Settings(store="memory://", base_path=base)) as client:
            answer = client.get(base + path, headers={"accept": "text/html"})
            assert answer.status_code == 404
            assert answer.headers["content-type"] == "application/problem+json"
            assert answer.json()["type"] == "urn:ackline:problem:not-found"

    @pytest.mark.parametrize(("base", "prefix"), [("/", ""), ("/keyval/api", "/keyval/api")])
    def test_it_knows_the_base_path(self, base, prefix):
        with client_for(Settings(store="memory://", base_path=base)) as client:
            assert f'name="ackline-base" content="{prefix}"' in client.get("/keyspace").text
            assert client.get(f"{prefix}/v1/me").status_code == 200


class TestSummaries:
    def test_one_is_short_however_large_the_payload(self, api, mail):
        mail.enqueue({"text": "é" * 300_000}, id="a")
        (row,) = api.get(JOBS, summary=True)["summaries"]
        assert len(row["preview"]) == 160
        assert row["preview"].startswith('{"text":"ééé')
        assert row["size"] == len('{"text":""}') + 600_000
        assert row["max_attempts"] == 4

    def test_they_are_listed_with_the_stores_time(self, api, mail, runtime):
        mail.enqueue(1, id="a")
        mail.claim(1, lease=30)
        answer = api.get(JOBS, state="processing", summary=True)
        assert 29 < answer["summaries"][0]["deadline"] - answer["now"] <= 30

    def test_pages_and_filters(self, api, mail):
        mail.enqueue_many([{"n": n} for n in range(5)])
        first = api.get(JOBS, summary=True, limit=3)
        rest = api.get(JOBS, summary=True, limit=3, cursor=first["cursor"])
        assert len({row["id"] for row in first["summaries"] + rest["summaries"]}) == 5
        assert rest["cursor"] is None
        assert len(api.get(JOBS, text='"n":4')["jobs"]) == 1
        assert api.get(JOBS, state="failed")["jobs"] == []

    def test_by_their_tags(self, api, mail):
        mail.enqueue(1, id="a", tags=["vip", "eu"])
        mail.enqueue(1, id="b", tags="vip")

        def listed(*tags):
            found = api("GET", JOBS, params=[*(("tag", tag) for tag in tags), ("summary", True)])
            return {row["id"]: row["tags"] for row in found["summaries"]}

        assert listed("vip") == {"a": ["eu", "vip"], "b": ["vip"]}
        assert listed("vip", "eu") == {"a": ["eu", "vip"]}
        body = {"action": "delete", "filter": {"tags": ["eu"]}}
        assert api.post("/v1/queues/mail/bulk", body)["count"] == 1

    def test_by_their_ids_as_far_as_they_match(self, api, mail):
        for id in "abc":
            mail.enqueue({}, id=id)
        mail.cancel("b")
        jobs = api("GET", JOBS, params=[("id", "a"), ("id", "b"), ("id", "x"), ("state", "queued")])
        assert [job["id"] for job in jobs["jobs"]] == ["a"]

    def test_they_have_the_codec_of_the_payload(self, api, runtime, mail):
        mail.enqueue({}, id="plain")
        encoded = Queues(runtime.store, "default").queue("mail", serde="msgpack")
        encoded.enqueue({"b": b"x"}, id="packed")
        rows = api.get(JOBS, summary=True)["summaries"]
        assert {row["id"]: row["codec"] for row in rows} == {"plain": "json", "packed": "msgpack"}

    def test_they_have_the_rank_by_the_ageing_of_the_queue(self, api, mail):
        mail.configure(ageing=1.0)
        mail.enqueue(1, id="usual")
        mail.enqueue(1, id="urgent", priority=9)
        mail.enqueue(1, id="later", delay=60)
        rows = {row["id"]: row for row in api.get(JOBS, summary=True)["summaries"]}
        urgent, usual = rows["urgent"], rows["usual"]
        waited = urgent["created_at"] - usual["created_at"]
        assert urgent["rank"] - usual["rank"] == pytest.approx(waited - 4 * 1.0)
        assert rows["later"]["rank"] is None

    def test_the_leases_of_a_worker(self, api, mail):
        mail.enqueue_many([1, 2])
        job = api.post("/v1/queues/mail/claim", {"limit": 1, "worker": "node-1"})["jobs"][0]
        for short in (False, True):
            page = api.get(JOBS, worker="node-1", summary=short)
            assert [one["id"] for one in page["summaries" if short else "jobs"]] == [job["id"]]
        assert api.get(JOBS, worker="node-1", state="queued")["jobs"] == []
        assert api.get(JOBS, worker="node-2")["jobs"] == []


class TestDlq:
    def test_errors_that_differ_in_names_and_numbers_are_one_group(self, api, mail):
        for n in range(3):
            dead(mail, f"a{n}", KeyError(f"user-{n}"))
        dead(mail, "b", ConnectionError("10.0.0.1:5432 refused"))
        answer = api.get("/v1/queues/mail/dlq/groups")
        assert answer["complete"] is True
        assert [(one["type"], one["count"]) for one in answer["groups"]] == [
            ("KeyError", 3),
            ("ConnectionError", 1),
        ]
        assert answer["groups"][0]["sample"] == "a2"
        assert answer["groups"][0]["first_at"] <= answer["groups"][0]["last_at"]

    def test_a_group_shows_what_its_errors_have_in_common(self, api, mail):
        for n in range(3):
            dead(mail, f"a{n}", KeyError("template_id"))
            dead(mail, f"b{n}", ValueError(f"no field 'city' in order {n} of 'shop-1'"))
            dead(mail, f"d{n}", LookupError(f"no customer 'c-{n}', no 'zip {n}', no {'xyz'[n]!r}"))
        dead(mail, "c", ConnectionError("10.0.0.1:5432 refused"))
        groups = api.get("/v1/queues/mail/dlq/groups")["groups"]
        assert {one["type"]: one["message"] for one in groups} == {
            "KeyError": "'template_id'",
            "ValueError": "no field 'city' in order # of 'shop-1'",
            "LookupError": "no customer 'c-#', no 'zip #', no '…'",
            "ConnectionError": "10.0.0.1:5432 refused",
        }

    def test_messages_that_differ_where_none_counts_are_shown_as_they_are_compared(self, api, mail):
        same = "x" * 200
        for n in range(2):
            dead(mail, f"a{n}", ValueError(f"{same}{'yz'[n]}"))
        (group,) = api.get("/v1/queues/mail/dlq/groups")["groups"]
        assert group["message"] == same

    def test_a_group_is_counted_redriven_and_deleted_alone(self, api, mail):
        for n in range(3):
            dead(mail, f"a{n}", KeyError(f"user-{n}"))
        dead(mail, "b", ConnectionError("refused"))
        keys, refused = (
            one["fingerprint"] for one in api.get("/v1/queues/mail/dlq/groups")["groups"]
        )

        def act(action, group, **more):
            body = {"action": action, "filter": {"fingerprint": group}, **more}
            return api.post("/v1/queues/mail/bulk", body)["count"]

        assert act("redrive", keys, dry_run=True) == 3
        assert mail.counts()["failed"] == 4
        assert act("redrive", keys, rate=0.1) == 3
        assert (mail.counts()["queued"], mail.counts()["scheduled"]) == (1, 2)
        assert mail.status("b").state == "failed"
        assert act("delete", refused) == 1
        assert mail.counts()["failed"] == 0

    def test_a_rate_belongs_to_a_redrive(self, api, mail):
        body = {"action": "delete", "filter": {}, "rate": 1}
        assert api.post("/v1/queues/mail/bulk", body, 422)["at"] == "$.rate"

    def test_shapes(self):
        assert normalize_message("KeyError: 'a' 12") == normalize_message('KeyError: "b" 3.5')
        assert normalize_message("at 0xdeadbeef") == normalize_message("at 0x1")
        assert normalize_message("timeout") != normalize_message("refused")


class TestOverview:
    def test_the_overview_of_all_queues(self, api, mail):
        mail.enqueue_many([1, 2, 3])
        mail.complete(mail.claim(1)[0])
        mail.pause()
        (queue,) = api.get("/v1/overview")["queues"]
        assert (queue["queue"], queue["paused"]) == ("mail", True)
        assert (queue["counts"]["queued"], queue["counts"]["completed"]) == (2, 1)
        assert queue["oldest"] >= 0
        assert sum(queue["throughput"]["enqueued"]) == 3
        assert sum(queue["throughput"]["completed"]) == 1

    def test_the_callers_identity(self, api):
        me = api.get("/v1/me")
        assert (me["tenant"], me["name"], me["auth"]) == ("default", "http", False)
        assert me["scopes"] == ["admin", "consume", "produce", "read"]


class TestThroughput:
    KEY = QueueKey("default", "mail")

    @pytest.fixture
    def clock(self):
        return ManualClock(1_000_000.0)

    @pytest.fixture
    def store(self, clock):
        store = MemoryStore(clock=clock)
        store.open()
        return store

    def test_it_counts_by_the_bucket_and_forgets(self, store, clock):
        queue, reader = Queues(store, "default")["mail"], ThroughputReader(store)
        queue.enqueue_many([1, 2])
        clock.advance(reader.bucket)
        queue.enqueue(3)
        assert reader.catch_up(clock.now())
        assert reader.of(self.KEY, clock.now()).enqueued[-2:] == [2, 1]

        clock.advance(reader.bucket * reader.bucket_count)
        reader.catch_up(clock.now())
        assert sum(reader.of(self.KEY, clock.now()).enqueued) == 0

    def test_nothing_is_counted_twice(self, store, clock):
        queue, reader = Queues(store, "default")["mail"], ThroughputReader(store)
        queue.enqueue(1)
        for _ in range(3):
            reader.catch_up(clock.now())
        assert sum(reader.of(self.KEY, clock.now()).enqueued) == 1

    def test_a_new_process_counts_what_the_journal_still_has(self, store, clock):
        queue = Queues(store, "default")["mail"]
        for _ in range(50):
            queue.enqueue(1)
            clock.advance(120)
        reader = ThroughputReader(store)
        reader.catch_up(clock.now())
        # The oldest of them is just leaving.
        assert (
            sum(reader.of(self.KEY, clock.now()).enqueued)
            == reader.bucket * reader.bucket_count // 120 - 1
        )

    def test_it_does_not_read_what_is_too_old(self, store, clock):
        queue = Queues(store, "default")["mail"]
        for _ in range(50):
            queue.enqueue(1)
            clock.advance(120)
        since = clock.now() - 1800
        behind = store.events(None, cursor_before(store, since), 1000)
        old = [event for event in behind if event.at < since]
        assert len(old) <= 1
        assert sum(event.at >= since for event in behind) == 1800 // 120


class TestSearch:
    def test_by_id_then_kind_then_payload_in_all_queues(self, api, mail, runtime):
        other = Queues(runtime.store, "default")["other"]
        mail.enqueue({"to": "ann"}, id="x1", kind="welcome")
        other.enqueue({"say": "welcome"}, id="welcome")
        hits = api.get("/v1/search", text="welcome")["hits"]
        assert [(hit["queue"], hit["by"], hit["job"]["id"]) for hit in hits] == [
            ("other", "id", "welcome"),
            ("mail", "kind", "x1"),
        ]
        assert api.get("/v1/search", text="ann")["hits"][0]["by"] == "payload"
        assert api.get("/v1/search", text="nobody") == {"hits": [], "complete": True}

    def test_by_a_tag(self, api, mail):
        mail.enqueue(1, id="x1", tags=["vip"])
        mail.enqueue(1, id="x2", headers={"vip": "vip"})
        hits = api.get("/v1/search", text="vip")["hits"]
        assert [(hit["by"], hit["job"]["id"]) for hit in hits] == [("tag", "x1")]

    def test_a_search_without_enough_time_is_incomplete(self, api, mail, monkeypatch):
        mail.enqueue_many([NewJob(1, id=f"job-{n}") for n in range(9)])
        monkeypatch.setattr(search, "PAGE", 2)
        assert api.get("/v1/search", text="job-8")["complete"] is True
        assert api.get("/v1/search", text="job-9")["complete"] is True
        monkeypatch.setattr(search, "ID_TIME_LIMIT", 0.0)
        assert api.get("/v1/search", text="job-9") == {"hits": [], "complete": False}

    def test_all_ids_are_searched(self, api, mail, monkeypatch):
        mail.enqueue_many([NewJob(1, id=f"job-{n}") for n in range(9)])
        monkeypatch.setattr(search, "PAGE", 2)
        hits = api.get("/v1/search", text="JOB-8")["hits"]
        assert [hit["job"]["id"] for hit in hits] == ["job-8"]

    @pytest.mark.parametrize("text", ["job-", "note", "ann"])
    def test_says_when_a_queue_has_more_than_it_shows(self, api, mail, text):
        jobs = [NewJob({"to": "ann"}, id=f"job-{n:02}", kind="note") for n in range(11)]
        mail.enqueue_many(jobs[:10])
        assert api.get("/v1/search", text=text)["complete"] is True
        mail.enqueue_many(jobs[10:])

        found = api.get("/v1/search", text=text)

        assert (len(found["hits"]), found["complete"]) == (10, False)

    def test_by_the_beginning_of_an_id(self, api, mail):
        mail.enqueue_many([NewJob(1, id=id) for id in ("Boom-1", "boom-12", "a-boom-1")])
        hits = api.get("/v1/search", text="boom-1")["hits"]
        assert {hit["job"]["id"] for hit in hits} == {"Boom-1", "boom-12"}
