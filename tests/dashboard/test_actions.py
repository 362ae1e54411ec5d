"""Each action, by its button, against the real service: what it did, and who did it."""

from __future__ import annotations

import json
import re

import pytest
from playwright.sync_api import expect

from ackline.stores.contract import KeyWrite

pytestmark = pytest.mark.ci

BY = "http"
"""How the journal calls a page that needs no token."""


def fail(queue, id, error, max_attempts=1, **options):
    """A job in the DLQ, or failing."""
    queue.enqueue({"order": id}, id=id, max_attempts=max_attempts, **options)
    job = next(job for job in queue.claim(100) if job.id == id)
    queue.fail(job, error)


def open_job(tab, dashboard, id, queue="mail"):
    tab.goto(f"{dashboard.url}/queues/{queue}/jobs/{id}")
    expect(tab.get_by_role("heading", level=1)).to_contain_text(id)


def choose(tab, action):
    """From the menu of the page."""
    tab.get_by_role("button", name="More actions").click()
    tab.get_by_role("menuitem", name=action, exact=True).click()


def dialog(tab):
    return tab.get_by_role("dialog")


def confirm(tab, word, button):
    field = dialog(tab).get_by_label(re.compile("to confirm"))
    send = dialog(tab).get_by_role("button", name=button)
    expect(send).to_be_disabled()
    field.fill(word)
    send.click()


class TestOneJob:
    def test_enqueue(self, tab, dashboard):
        tab.goto(f"{dashboard.url}/")
        tab.get_by_role("button", name="Enqueue").click()
        dialog(tab).get_by_label("Queue").fill("mail")
        dialog(tab).get_by_label("Payload (JSON)").fill('{"n": 12345678901234567890')
        expect(dialog(tab).get_by_text("Not JSON")).to_be_visible()
        expect(dialog(tab).get_by_role("button", name="Enqueue")).to_be_disabled()
        dialog(tab).get_by_label("Payload (JSON)").fill('{"n": 12345678901234567890}')
        dialog(tab).get_by_label("Id").fill("first")
        dialog(tab).get_by_label("Priority").fill("9")
        dialog(tab).get_by_role("button", name="Enqueue").click()

        expect(tab.get_by_text("Enqueued first")).to_be_visible()
        job = dashboard["mail"].status("first")
        assert (job.payload, job.priority) == ({"n": 12345678901234567890}, 9)

    def test_enqueue_of_an_id_that_is_there(self, tab, dashboard):
        dashboard["mail"].enqueue(1, id="first")
        tab.goto(f"{dashboard.url}/queues/mail")
        tab.get_by_role("button", name="Enqueue").click()
        dialog(tab).get_by_label("Id").fill("first")
        dialog(tab).get_by_role("button", name="Enqueue").click()

        expect(dialog(tab).get_by_text("already exists: Queued")).to_be_visible()

    def test_cancel_and_undo(self, tab, dashboard):
        dashboard["mail"].enqueue(
            {"to": "ann"},
            id="a",
            priority=7,
            delay=900,
            backoff=[1, 2],
            headers={"x": "y"},
            keys_if_undelivered=[("alerts", "7")],
            callback_url="https://example.com/done",
        )
        before = dashboard.runtime.store.get(dashboard["mail"].key, ["a"])[0]
        open_job(tab, dashboard, "a")
        choose(tab, "Cancel")

        expect(tab.get_by_text("Cancelled a")).to_be_visible()
        assert dashboard["mail"].status("a").state == "cancelled"
        assert ("cancel", BY) in dashboard.acts("mail", "a")

        tab.get_by_role("button", name="Undo").click()
        expect(tab.get_by_text("Undone")).to_be_visible()
        job = dashboard.runtime.store.get(dashboard["mail"].key, ["a"])[0]
        kept = ("state", "payload", "priority", "run_at", "options")
        assert [getattr(job, one) for one in kept] == [getattr(before, one) for one in kept]

    def test_no_undo_is_offered_where_it_would_not_be_one(self, tab, dashboard):
        fail(dashboard["mail"], "a", ValueError("boom"), max_attempts=3, backoff=[3600])
        open_job(tab, dashboard, "a")
        choose(tab, "Cancel")

        expect(tab.get_by_text("Cancelled a")).to_be_visible()
        expect(tab.get_by_role("button", name="Undo")).to_have_count(0)

    def test_a_job_that_is_not_json_keeps_its_payload(self, tab, dashboard):
        queue = dashboard.queues.queue("mail", serde="msgpack")
        queue.enqueue({"a": 1, "b": b"x"}, id="a")
        open_job(tab, dashboard, "a")
        expect(tab.get_by_text("Encoded as msgpack")).to_be_visible()
        tab.get_by_role("button", name="Edit", exact=True).click()
        expect(dialog(tab)).to_contain_text("cannot be edited here")
        dialog(tab).get_by_label("Priority").fill("8")
        dialog(tab).get_by_role("button", name="Save").click()
        expect(tab.get_by_text("Edited a")).to_be_visible()

        [job] = queue.claim()
        assert (job.payload, job.priority) == ({"a": 1, "b": b"x"}, 8)

    def test_cancel_of_a_running_job_asks_it_to_stop(self, tab, dashboard):
        dashboard["mail"].enqueue(1, id="a")
        dashboard["mail"].claim(1)
        open_job(tab, dashboard, "a")
        tab.get_by_role("button", name="Cancel", exact=True).click()

        expect(tab.get_by_text("Requested the cancellation of a")).to_be_visible()
        expect(tab.get_by_text("the handler was asked to stop")).to_be_visible()
        assert ("request_cancel", BY) in dashboard.acts("mail", "a")

    def test_run_now(self, tab, dashboard):
        fail(dashboard["mail"], "a", ValueError("boom"), max_attempts=3, backoff=[3600])
        open_job(tab, dashboard, "a")
        expect(tab.get_by_text("Next attempt due")).to_be_visible()
        tab.get_by_role("button", name="Run now").click()

        expect(tab.get_by_text("Waiting for a worker")).to_be_visible()
        assert dashboard["mail"].status("a").state == "queued"

    def test_edit_and_undo(self, tab, dashboard):
        dashboard["mail"].enqueue({"n": 12345678901234567890}, id="a")
        open_job(tab, dashboard, "a")
        tab.get_by_role("button", name="Edit", exact=True).click()
        expect(dialog(tab).get_by_label("Payload (JSON)")).to_have_value(
            '{\n  "n": 12345678901234567890\n}'
        )
        dialog(tab).get_by_label("Payload (JSON)").fill('{"n": 2}')
        dialog(tab).get_by_label("Priority").fill("1")
        dialog(tab).get_by_label("Delay").fill("3600")
        dialog(tab).get_by_role("button", name="Save").click()

        expect(tab.get_by_text("Edited a")).to_be_visible()
        job = dashboard["mail"].status("a")
        assert (job.payload, job.priority, job.state) == ({"n": 2}, 1, "scheduled")
        assert ("edit", BY) in dashboard.acts("mail", "a")

        tab.get_by_role("button", name="Undo").click()
        expect(tab.get_by_text("Undone")).to_be_visible()
        job = dashboard["mail"].status("a")
        assert (job.payload, job.priority) == ({"n": 12345678901234567890}, 5)
        [claimed] = dashboard["mail"].claim()
        assert claimed.id == "a"

    def test_move_and_undo(self, tab, dashboard):
        dashboard["mail"].enqueue(1, id="a")
        open_job(tab, dashboard, "a")
        choose(tab, "Move")
        dialog(tab).get_by_label("To queue").fill("slow")
        dialog(tab).get_by_role("button", name="Move").click()

        expect(tab).to_have_url(re.compile("/queues/slow/jobs/a$"))
        assert dashboard["slow"].status("a").state == "queued"
        assert ("move", BY) in dashboard.acts("slow", "a")

        tab.get_by_role("button", name="Undo").click()
        expect(tab.get_by_text("Undone")).to_be_visible()
        assert dashboard["mail"].status("a").state == "queued"

    def test_delete_needs_its_id_typed(self, tab, dashboard):
        dashboard["mail"].enqueue(1, id="a")
        open_job(tab, dashboard, "a")
        choose(tab, "Delete")
        confirm(tab, "a", "Delete")

        expect(tab.get_by_text("Deleted a")).to_be_visible()
        expect(tab).to_have_url(re.compile("/queues/mail/queued$"))
        assert dashboard["mail"].status("a") is None

    @pytest.mark.every_store
    def test_redrive(self, tab, dashboard):
        fail(dashboard["mail"], "a", ValueError("boom"))
        open_job(tab, dashboard, "a")
        expect(tab.get_by_text("ValueError: boom").first).to_be_visible()
        tab.get_by_role("button", name="Redrive", exact=True).click()

        expect(tab.get_by_text("Redrove a")).to_be_visible()
        assert dashboard["mail"].status("a").state == "queued"
        assert ("redrive", BY) in dashboard.acts("mail", "a")

    def test_edit_and_redrive(self, tab, dashboard):
        fail(dashboard["mail"], "a", ValueError("boom"))
        open_job(tab, dashboard, "a")
        choose(tab, "Edit and redrive")
        dialog(tab).get_by_label("Payload (JSON)").fill('{"order": "mended"}')
        dialog(tab).get_by_role("button", name="Redrive").click()

        expect(tab.get_by_text("Redrove a")).to_be_visible()
        job = dashboard["mail"].status("a")
        assert (job.state, job.payload) == ("queued", {"order": "mended"})


class TestManyJobs:
    @pytest.mark.every_store
    def test_a_selection(self, tab, dashboard):
        dashboard["mail"].enqueue_many([{"n": n} for n in range(5)])
        ids = [job.id for job in dashboard["mail"].jobs().jobs]
        tab.goto(f"{dashboard.url}/queues/mail")
        for id in ids[:2]:
            tab.get_by_role("checkbox", name=f"Select {id}").check()
        tab.get_by_role("region", name="2 selected").get_by_role("button", name="Cancel").click()
        expect(dialog(tab).get_by_text("2 jobs match now")).to_be_visible()
        confirm(tab, "mail", "Cancel: 2 jobs")

        expect(tab.locator("[data-id]")).to_have_count(3)
        assert {job.id for job in dashboard["mail"].jobs(states=["cancelled"]).jobs} == set(ids[:2])
        assert ("cancel", BY) in dashboard.acts("mail", ids[0])

    @pytest.mark.every_store
    def test_everything_that_matches(self, tab, dashboard):
        dashboard["mail"].enqueue_many(
            [{"n": n, "to": "ann" if n % 2 else "bob"} for n in range(20)]
        )
        tab.goto(f"{dashboard.url}/queues/mail?text=ann")
        expect(tab.locator("[data-id]")).to_have_count(10)
        tab.get_by_role("checkbox", name=re.compile("Select")).first.check()
        tab.get_by_role("button", name="Select all matching jobs").click()
        tab.get_by_role("button", name="Delete").click()
        expect(dialog(tab).get_by_text("10 jobs match now")).to_be_visible()
        confirm(tab, "mail", "Delete: 10 jobs")

        expect(tab.get_by_text("No job matches this filter.")).to_be_visible()
        assert {job.payload["to"] for job in dashboard["mail"].jobs().jobs} == {"bob"}

    def test_a_group_of_errors_is_redriven_at_a_rate(self, tab, dashboard):
        for n in range(3):
            fail(dashboard["mail"], f"order-{n}", KeyError(f"no row {n}"))
        fail(dashboard["mail"], "other", ConnectionError("refused"))
        tab.goto(f"{dashboard.url}/queues/mail/failed")
        groups = tab.get_by_role("list", name="Errors").get_by_role("listitem")
        expect(groups).to_have_count(2)
        expect(groups.first).to_contain_text("KeyError")
        groups.first.locator("summary").click()
        groups.first.get_by_role("button", name="Redrive").click()
        expect(dialog(tab).get_by_text("3 jobs match now")).to_be_visible()
        dialog(tab).get_by_label(re.compile("per second")).fill("0.5")
        dialog(tab).get_by_role("button", name="Redrive: 3 jobs").click()

        expect(groups).to_have_count(1)
        expect(groups.first).to_contain_text("ConnectionError")
        states = [dashboard["mail"].status(f"order-{n}").state for n in range(3)]
        assert sorted(states) == ["queued", "scheduled", "scheduled"]
        assert dashboard["mail"].status("other").state == "failed"

    def test_payloads_are_compared(self, tab, dashboard):
        for n in range(2):
            fail(dashboard["mail"], f"order-{n}", KeyError("x"))
        tab.goto(f"{dashboard.url}/queues/mail/failed?by=job")
        for n in range(2):
            tab.get_by_role("checkbox", name=f"Select order-{n}").check()
        tab.get_by_role("button", name="Compare").click()

        differing = dialog(tab).locator("[data-differs]")
        expect(differing).to_have_text(['  "order": "order-1"', '  "order": "order-0"'])


class TestWholeQueue:
    def test_pause_and_resume(self, tab, dashboard):
        dashboard["mail"].enqueue(1)
        tab.goto(f"{dashboard.url}/queues/mail")
        tab.get_by_role("button", name="Pause", exact=True).click()
        expect(tab.get_by_text("Paused", exact=True)).to_be_visible()
        assert dashboard["mail"].settings().paused

        tab.get_by_role("button", name="Resume").click()
        expect(tab.get_by_text("Paused", exact=True)).to_have_count(0)
        events = dashboard.api.get("/v1/events", queue="mail")["events"]
        acts = [(event["act"], event["by"]) for event in events]
        assert acts[-2:] == [("pause", BY), ("resume", BY)]

    @pytest.mark.every_store
    def test_purge_says_what_it_deletes_and_needs_a_name_typed(self, tab, dashboard):
        fail(dashboard["mail"], "dead", ValueError("boom"))
        dashboard["mail"].enqueue_many(range(3))
        tab.goto(f"{dashboard.url}/queues/mail")
        choose(tab, "Purge")
        expect(dialog(tab)).to_contain_text("Currently 4:")
        dashboard["mail"].enqueue("one more")
        expect(dialog(tab)).to_contain_text("Currently 5:")
        expect(dialog(tab).get_by_role("listitem")).to_have_text(["4Queued", "1Failed (DLQ)"])
        expect(dialog(tab)).to_contain_text("its settings and its schedules are kept")
        confirm(tab, "mail", "Purge")

        expect(tab.get_by_text("Deleted 5 jobs")).to_be_visible()
        assert not dashboard["mail"].jobs().jobs

    def test_drop_needs_its_name_typed(self, tab, dashboard):
        dashboard["mail"].enqueue_many(range(3))
        tab.goto(f"{dashboard.url}/queues/mail")
        choose(tab, "Drop queue")
        expect(dialog(tab)).to_contain_text("Currently 3:")
        confirm(tab, "mail", "Drop queue")

        expect(tab.get_by_text("Dropped mail")).to_be_visible()
        expect(tab.get_by_role("heading", level=1)).to_have_text("Overview")
        assert "mail" not in list(dashboard.queues)

    def test_export_and_import(self, tab, dashboard, tmp_path):
        dashboard["mail"].enqueue({"to": "ann"}, id="a")
        tab.goto(f"{dashboard.url}/queues/mail")
        with tab.expect_download() as download:
            choose(tab, "Export")
        file = tmp_path / "jobs.jsonl"
        download.value.save_as(file)
        (line,) = file.read_text().splitlines()
        assert json.loads(line)["id"] == "a"

        tab.goto(f"{dashboard.url}/queues/copy")
        choose(tab, "Import")
        dialog(tab).locator("input[type=file]").set_input_files(file)
        dialog(tab).get_by_role("button", name="Import").click()
        expect(tab.get_by_text("1 job imported")).to_be_visible()
        assert dashboard["copy"].status("a").payload == {"to": "ann"}

    def test_a_view_is_exported_as_it_is_and_a_bad_line_is_named(self, tab, dashboard, tmp_path):
        dashboard["mail"].enqueue_many([{"n": n} for n in range(9)])
        tab.goto(f"{dashboard.url}/queues/mail?text=%22n%22%3A7")
        expect(tab.locator("[data-id]")).to_have_count(1)
        with tab.expect_download() as download:
            choose(tab, "Export")
        expect(tab.get_by_text("1 job exported")).to_be_visible()
        (line,) = download.value.path().read_text().splitlines()
        assert json.loads(line)["payload"] == {"n": 7}

        file = tmp_path / "bad.jsonl"
        file.write_text('{"payload": 1}\n\n{"payload": 2, "nonsense": 3}\n')
        choose(tab, "Import")
        dialog(tab).locator("input[type=file]").set_input_files(file)
        dialog(tab).get_by_role("button", name="Import").click()
        expect(dialog(tab).get_by_role("alert")).to_contain_text("Line 3 was rejected")
        expect(dialog(tab).get_by_role("alert")).to_contain_text("1 job before it was imported")

    def test_schedules_of_a_queue_that_does_not_exist_yet(self, tab, dashboard):
        tab.goto(f"{dashboard.url}/schedules")
        tab.get_by_role("button", name="New schedule").click()
        dialog(tab).get_by_label("Queue").fill("mail")
        dialog(tab).get_by_label("Name").fill("nightly")
        dialog(tab).get_by_label("Cron").fill("not a cron")
        dialog(tab).get_by_role("button", name="Save").click()
        expect(dialog(tab).get_by_role("alert")).to_be_visible()
        dialog(tab).get_by_label("Cron").fill("0 3 * * *")
        dialog(tab).get_by_role("button", name="Save").click()
        expect(tab.get_by_role("row", name=re.compile("nightly"))).to_be_visible()

        tab.get_by_role("button", name="Delete nightly").click()
        confirm(tab, "nightly", "Delete")
        expect(tab.get_by_text("No schedules")).to_be_visible()

    def test_keys(self, tab, dashboard):
        tab.goto(f"{dashboard.url}/keyspace")
        tab.get_by_role("button", name="New key").click()
        dialog(tab).get_by_label(re.compile("separated by")).fill("alerts/7")
        dialog(tab).get_by_label("Value").fill('{"seen": false}')
        dialog(tab).get_by_role("button", name="Save").click()
        row = tab.get_by_role("row", name="alerts / 7")
        expect(row).to_contain_text('{"seen": false}')

        row.get_by_role("button").click()
        tab.get_by_role("menuitem", name="Edit").click()
        dialog(tab).get_by_label("Value").fill('{"seen": true}')
        dialog(tab).get_by_role("button", name="Save").click()
        expect(row).to_contain_text('{"seen": true}')
        assert json.loads(dashboard.queues.read_keys("alerts")[0].value) == {"seen": True}

    def test_a_key_keeps_its_text_where_it_is_not_edited(self, tab, dashboard):
        number = "123456789012345678901234567890"
        text = f'{{"b": 1.0,\n\t"a": {number},   "c": "x" }}'
        key = KeyWrite(key=("alerts", "8"), value=text.encode())
        dashboard.runtime.store.write_keys(dashboard.tenant, [key])
        tab.goto(f"{dashboard.url}/keyspace")
        row = tab.get_by_role("row", name="alerts / 8")
        row.get_by_role("button").click()
        tab.get_by_role("menuitem", name="Edit").click()
        expect(dialog(tab).get_by_label("Value")).to_have_value(text)
        dialog(tab).get_by_label("Value").fill(text.replace('"x"', '"y"'))
        dialog(tab).get_by_role("button", name="Save").click()

        expect(row).to_contain_text('"y"')
        assert bytes(dashboard.queues.read_keys("alerts")[0].value).decode() == text.replace(
            '"x"', '"y"'
        )

    def test_a_key_that_is_saved_as_it_was_is_not_touched(self, tab, dashboard):
        # The service refuses such numbers; a program may have stored one.
        text = ' {"a": 1e400}\r\n'
        key = KeyWrite(key=("alerts", "9"), value=text.encode())
        dashboard.runtime.store.write_keys(dashboard.tenant, [key])
        before = dashboard.queues.read_keys("alerts")
        tab.goto(f"{dashboard.url}/keyspace")
        row = tab.get_by_role("row", name="alerts / 9")
        row.get_by_role("button").click()
        tab.get_by_role("menuitem", name="Edit").click()
        expect(dialog(tab).get_by_label("Value")).to_have_value('{"a": 1e400}')
        dialog(tab).get_by_role("button", name="Save").click()

        expect(dialog(tab)).to_have_count(0)
        assert dashboard.queues.read_keys("alerts") == before
