"""`ackline pipeline audit`, and what is said when Spark cannot run."""

from __future__ import annotations

import importlib
import json
import re
import sys
from pathlib import Path

import apsw
import pyspark
import pytest
from pyspark.sql.datasource import DataSource

import ackline
import pyspark_ackline
from ackline.cli.app import run
from ackline.cli.exits import CommandError
from ackline.cli.pipeline import audit as audit_command
from ackline.cli.pipeline import bulk as jobs_command
from ackline.cli.pipeline import preflight
from ackline.cli.pipeline import run as lake_command
from ackline.cli.session import CommonOptions, Session
from ackline.core.errors import ConfigError
from ackline.spark.audit import run as audit_run
from ackline.spark.audit.findings import FINDINGS
from ackline.spark.audit.run import AuditResult
from ackline.spark.java import SUPPORTED_JAVA, require_java
from ackline.spark.journal.gaps import Gap
from ackline.spark.runtime import session
from ackline.spark.version import require_spark

ROOT = Path(__file__).parents[3]


class KeptSpark:
    """The Spark of all tests, which a command must not stop."""

    def __init__(self, spark):
        self._spark = spark

    def __getattr__(self, name):
        return getattr(self._spark, name)

    def stop(self):
        pass


class NoSpark:
    def stop(self):
        pass


@pytest.fixture
def audit(spark, sqlite_url, monkeypatch, capsys):
    monkeypatch.setattr(audit_command, "start_spark", lambda session, master: KeptSpark(spark))
    with ackline.open(sqlite_url) as queues:
        queues["email"].enqueue_many(range(10))

    def call(*arguments):
        code = run(["--store", sqlite_url, *arguments[:1], "pipeline", "audit", *arguments[1:]])
        return code, capsys.readouterr()

    return call


def test_a_lost_job_ends_it_with_1(audit, sqlite_url):
    file = apsw.Connection(sqlite_url.removeprefix("sqlite:///"))
    file.execute("DELETE FROM job_state WHERE job = 1")
    file.execute("DELETE FROM job WHERE num = 1")
    file.close()

    code, output = audit("--tenant=default", "email")

    assert code == 1
    assert "last recorded as queued" in output.out
    assert "the audit failed: 1 finding" in output.err


class TestOfAnAudit:
    """What the command makes of what an audit found; Spark is not needed."""

    @pytest.fixture
    def of(self, sqlite_url, monkeypatch, capsys):
        monkeypatch.setattr(audit_command, "start_spark", lambda session, master: NoSpark())
        with ackline.open(sqlite_url) as queues:
            queues["email"].enqueue(1)

        def call(found, *arguments):
            monkeypatch.setattr(audit_run, "run_audit", lambda *_, **__: found)
            code = run(["--store", sqlite_url, "pipeline", "audit", *arguments])
            return code, capsys.readouterr()

        return call

    def test_a_journal_without_its_beginning_proves_nothing(self, of):
        gap = Gap(queue="email", after="0.0", until="7.1", retained_from=1000.0)
        found = AuditResult(events=2, jobs=11, counts={}, findings=[], gaps=(gap,))

        code, output = of(found, "--tenant=default")

        assert code == 0, "a journal is dropped by its age in the course of things"
        assert "No job was lost" in output.out
        assert "queue email: events after cursor 0.0" in output.out
        code, output = of(found, "--json", "--whole")
        assert code == 4
        assert "not proven" in output.err
        report = json.loads(output.out)
        assert (report["passed"], report["proven"]) == (True, False)
        assert [(gap["queue"], gap["retained_from"]) for gap in report["gaps"]] == [
            ("email", 1000.0)
        ]

    def test_a_whole_journal_is_a_proof(self, of):
        found = AuditResult(events=10, jobs=10, counts={}, findings=[], gaps=())

        code, output = of(found, "--tenant=default")

        assert code == 0
        assert "No job was lost" in output.out


class TestOfNothing:
    """An audit with a mistyped tenant, say, finds nothing and proves nothing."""

    @pytest.fixture
    def of_nothing(self, sqlite_url, monkeypatch, capsys):
        nothing = AuditResult(events=0, jobs=0, counts={}, findings=[], gaps=())
        monkeypatch.setattr(audit_command, "start_spark", lambda session, master: NoSpark())
        monkeypatch.setattr(audit_run, "run_audit", lambda *_, **__: nothing)
        with ackline.open(sqlite_url) as queues:
            queues["email"].enqueue(1)

        def call(*arguments):
            code = run(["--store", sqlite_url, "pipeline", "audit", "--tenant=nosuch", *arguments])
            return code, capsys.readouterr()

        return call

    def test_the_tenants_that_there_are_are_named(self, of_nothing):
        code, output = of_nothing()

        assert code == 4
        assert "existing tenants: default" in output.err
        assert "There are no events and no jobs to audit." in output.out
        assert "No job was lost" not in output.out

    def test_it_is_no_proof(self, of_nothing):
        code, output = of_nothing("--json", "--whole")

        assert code == 4
        assert "not proven" in output.err
        assert json.loads(output.out)["proven"] is False

    def test_programs_find_a_number_for_each_finding(self, of_nothing):
        _, output = of_nothing("--json")

        assert json.loads(output.out)["counts"] == dict.fromkeys(FINDINGS, 0)


@pytest.mark.parametrize(
    "arguments", [["export", "jobs", "x"], ["redrive", "--where", "true"], ["run", "--lake", "x"]]
)
def test_of_a_tenant_without_queues_a_notice_tells(sqlite_url, monkeypatch, capsys, arguments):
    def start_spark(session, master):
        raise CommandError("as far as this")

    for module in (jobs_command, lake_command):
        monkeypatch.setattr(module, "start_spark", start_spark)
    with ackline.open(sqlite_url) as queues:
        queues["email"].enqueue(1)

    assert run(["--store", sqlite_url, "--tenant", "nosuch", "pipeline", *arguments]) == 1
    assert "existing tenants: default" in capsys.readouterr().err


def test_without_pyspark_it_says_what_to_install(monkeypatch):
    monkeypatch.setitem(sys.modules, "ackline.spark.runtime.session", None)

    with pytest.raises(ConfigError, match=r"ackline\[spark\]"):
        preflight.start_spark(Session(CommonOptions()), None)


def test_without_java_it_says_what_to_install(monkeypatch):
    monkeypatch.delenv("JAVA_HOME", raising=False)
    monkeypatch.setenv("PATH", "/nowhere")

    with pytest.raises(ConfigError, match="Java"):
        require_java()


def test_a_cluster_needs_java_here_too(monkeypatch):
    """Only Spark Connect has all of it elsewhere."""
    monkeypatch.setenv("JAVA_HOME", "/nowhere")

    with pytest.raises(ConfigError, match="Java"):
        session.spark_session("spark://127.0.0.1:1")


def test_an_old_spark_is_refused():
    with pytest.raises(ConfigError, match=r"4\.2"):
        require_spark("4.1.0")
    require_spark("4.10.1")


def test_an_old_spark_that_finds_the_format_is_told_so_when_it_uses_it(monkeypatch):
    """Not when it looks for formats: an error would hide all that it finds, of others too."""
    monkeypatch.setattr(pyspark, "__version__", "4.1.1")
    # Which 4.1 does not have.
    monkeypatch.setitem(sys.modules, "pyspark.sql.streaming.datasource", None)
    for name in [name for name in sys.modules if name.startswith(("ackline.spark.", "pyspark_"))]:
        monkeypatch.delitem(sys.modules, name)

    found = importlib.import_module(pyspark_ackline.__name__).DefaultSource

    assert (found.name(), issubclass(found, DataSource)) == ("ackline", True)
    with pytest.raises(ConfigError, match=r"4\.2"):
        found({})


@pytest.fixture
def java(monkeypatch, tmp_path):
    """Puts a Java in place that says this of itself."""

    def install(output):
        program = tmp_path / "bin" / "java"
        program.parent.mkdir()
        program.write_text(f"#!/bin/sh\necho '{output}' >&2\n")
        program.chmod(0o755)
        monkeypatch.setenv("JAVA_HOME", str(tmp_path))

    return install


@pytest.mark.parametrize(
    ("output", "why"),
    [
        ('openjdk version "1.8.0_392"', "8.0"),
        ('openjdk version "16.0.2" 2021-07-20', "16.0.2"),
        ('openjdk version "25" 2025-09-16', "25.0.3"),
        ('openjdk version "25.0.2" 2026-01-20', "25.0.3"),
        ("Unable to locate a Java Runtime.", "Unable to locate"),
        ("", "nothing"),
    ],
)
def test_a_java_that_will_not_do_is_refused(java, output, why):
    java(output)

    with pytest.raises(ConfigError, match=re.escape(why)):
        require_java()


@pytest.mark.parametrize(
    ("output", "tested"),
    [
        ('openjdk version "17.0.15" 2025-04-15', True),
        ('Picked up JAVA_TOOL_OPTIONS: -Xmx1g\nopenjdk version "21" 2023-09-19', True),
        ('openjdk version "25.0.3" 2026-04-21 LTS', True),
        ('openjdk version "26-ea" 2026-03-17', False),
        ('java version "23.0.1" 2024-10-15', False),
    ],
)
def test_a_java_that_spark_is_not_tested_on_is_warned_of(java, caplog, output, tested):
    java(output)

    require_java()

    assert (SUPPORTED_JAVA in caplog.text) != tested


def test_every_page_names_the_same_java():
    pages = [ROOT / "README.md", *(ROOT / "docs").rglob("*.md")]
    text = " ".join(" ".join(page.read_text() for page in pages).split())

    assert set(re.findall(r"Java \d+(?:, \d+)* or \d+", text)) == {SUPPORTED_JAVA}


@pytest.mark.parametrize(
    "command",
    [
        *(["audit"], ["run", "--lake", "x"], ["load", "x.json"], ["export", "jobs", "x"]),
        ["redrive", "--where", "true"],
    ],
)
def test_a_file_is_refused_on_a_cluster_before_anything_starts(command, sqlite_url, capsys):
    code = run(["--store", sqlite_url, "pipeline", *command, "--master", "spark://head:7077"])

    assert code == 2
    assert "--shared-files" in capsys.readouterr().err
