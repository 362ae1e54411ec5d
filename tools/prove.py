"""Run the long campaigns: every test marked slow, except those of the configurations in `.ci/run`.

Tests that have passed on this commit are not run again, so the same command continues where an
last one stopped, at its budget or by Ctrl-C. A test that fails while the machine stalled for
longer than a lease of the campaigns is inconclusive, and is run again the next time.
"""

import argparse
import datetime
import json
import os
import signal
import subprocess
import sys
import time
from collections import Counter
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parent.parent
STATE = ROOT / ".prove.jsonl"
PAGE = ROOT / "docs" / "proof.md"

VARIABLE = "ACKLINE_PROVE"
LAST_PASS = "## The last full pass"

LEASE_SECONDS = 1.0
"""The shortest lease of a campaign: a longer stall makes leases of live workers expire."""

OPTIONS = ["-q", "-m", "slow", "-p", "tools.prove_plugin", "--timeout", "7200"]

TABLE_FIGURES = ("faults", "enqueues answered ok", "deliveries", "journal entries")
"""Figures of the reports that are added up in the table."""

CAMPAIGNS = {
    "histories": ["tests/conformance/test_model.py"],
    "kills of workers": ["tests/faults/test_campaign.py", "tests/faults/test_recovery_times.py"],
    "kills of relays": ["tests/relay"],
    "Redis drills": ["tests/faults/redis"],
    "PostgreSQL drills": ["tests/faults/postgres"],
    "stores and servers": [
        "tests/stores/postgres/test_query_plans.py",
        "tests/stores/postgres/transactions/test_late_commits.py",
        "tests/testing",
        "tests/cli",
    ],
    "service": ["tests/service"],
    "dashboard": ["tests/dashboard"],
    "mutants": ["tests/mutants"],
    "Spark": ["tests/spark", "--ignore=tests/spark/deployment/test_cluster.py"],
    "Spark cluster": ["tests/spark/deployment/test_cluster.py"],
}
"""The tests of each campaign, as arguments of pytest."""

Record = dict[str, Any]


@dataclass(frozen=True)
class ProveOptions:
    """What pytest records and which tests it skips; passed in the environment."""

    commit: str
    campaign: str
    state: str
    done: list[str]

    def to_environment(self) -> dict[str, str]:
        return {VARIABLE: json.dumps(asdict(self))}

    @classmethod
    def from_environment(cls) -> "ProveOptions | None":
        # Removed from the environment, so that a pytest started by a test records nothing.
        text = os.environ.pop(VARIABLE, None)
        return cls(**json.loads(text)) if text else None


def main() -> int:
    """Run what has not passed on this commit, within the budget, and print the table."""
    parser = argparse.ArgumentParser(prog="prove", description=__doc__)
    parser.add_argument("--budget", type=float, default=240, help="minutes (default: 240)")
    parser.add_argument("--only", action="append", choices=CAMPAIGNS, help="one campaign")
    parser.add_argument("--again", action="store_true", help="also run what has passed")
    options = parser.parse_args()
    commit = current_commit()
    campaigns = options.only or list(CAMPAIGNS)
    # Tests that passed with uncommitted changes may have passed because of other changes.
    if options.again or commit.endswith("+"):
        STATE.unlink(missing_ok=True)
    try:
        run_all(campaigns, commit, time.monotonic() + options.budget * 60)
    except KeyboardInterrupt:
        print("interrupted; the same command continues from here")
    records = read_records(STATE, commit)
    table = table_of(records)
    print(table)
    print_errors(records)
    verdicts = {name: verdict_of(name, records) for name in CAMPAIGNS}
    if set(verdicts.values()) == {"passed"} and not commit.endswith("+"):
        write_page(table, commit)
    found = {verdicts[name] for name in campaigns}
    return 1 if "failed" in found else 0 if found == {"passed"} else 2


def run_all(campaigns: list[str], commit: str, end: float) -> None:
    """Run one campaign after the other, until the time is up."""
    for name in campaigns:
        left = end - time.monotonic()
        if left > 0 and verdict_of(name, read_records(STATE, commit)) != "passed":
            print(f"{name} …", flush=True)
            run(name, CAMPAIGNS[name], commit, left)


def run(name: str, tests: list[str], commit: str, seconds: float, state: Path = STATE) -> None:
    """Run the rest of a campaign; each test is recorded when it ends."""
    options = ProveOptions(commit, name, str(state), passed_in(name, read_records(state, commit)))
    process = subprocess.Popen(
        [sys.executable, "-m", "pytest", *OPTIONS, *tests],
        cwd=ROOT,
        env={**os.environ, **options.to_environment()},
        start_new_session=True,  # Ctrl-C reaches it once, from here
    )
    try:
        process.wait(seconds)
    except subprocess.TimeoutExpired:
        end(process)
    except KeyboardInterrupt:
        end(process)
        raise


def end(process: subprocess.Popen[bytes]) -> None:
    """Let pytest clean up, and kill it if it takes too long."""
    process.send_signal(signal.SIGINT)
    try:
        process.wait(60)
    except subprocess.TimeoutExpired:
        process.kill()
        process.wait()


def read_records(state: Path, commit: str) -> list[Record]:
    """The records of this commit; a line that was cut off by a kill is skipped."""
    records = []
    for line in state.read_text().splitlines() if state.exists() else []:
        try:
            record = json.loads(line)
        except ValueError:
            continue
        if record["commit"] == commit:
            records.append(record)
    return records


def passed_in(campaign: str, records: list[Record]) -> list[str]:
    """The tests of a campaign that have passed."""
    results = last_results(campaign, records)
    return [test for test, record in results.items() if record["outcome"] == "passed"]


def last_results(campaign: str, records: list[Record]) -> dict[str, Record]:
    """The last result of each test of a campaign."""
    own = [record for record in records if record["campaign"] == campaign]
    return {record["test"]: record for record in own if "test" in record}


def planned_in(campaign: str, records: list[Record]) -> list[str]:
    """The tests of a campaign, as they were last collected."""
    own = [record for record in records if record["campaign"] == campaign]
    return next((record["planned"] for record in reversed(own) if "planned" in record), [])


def verdict_of(campaign: str, records: list[Record]) -> str:
    """The verdict on a campaign, by the last results of its tests."""
    planned = planned_in(campaign, records)
    results = last_results(campaign, records)
    outcomes = [results[test]["outcome"] if test in results else "not run" for test in planned]
    for worst in ("failed", "inconclusive", "skipped"):
        if worst in outcomes:
            return worst
    if set(outcomes) <= {"not run"}:
        return "not run"
    return "unfinished" if "not run" in outcomes else "passed"


def table_of(records: list[Record]) -> str:
    """One row for each campaign, run or not."""
    columns = ["campaign", "verdict", "tests", "minutes", "longest stall", "seeds", "figures"]
    rows = [columns, ["---"] * len(columns)]
    for name in CAMPAIGNS:
        results = last_results(name, records).values()
        outcomes = Counter(record["outcome"] for record in results)
        tests = [f"{outcomes.pop('passed', 0)} of {len(planned_in(name, records))} passed"]
        tests += [f"{count} {outcome}" for outcome, count in sorted(outcomes.items())]
        minutes = sum(record["seconds"] for record in results) / 60
        stall = max((record["stall"] for record in results), default=0.0)
        seeds = sorted({seed for record in results for seed in record["seeds"]})
        figures = sum((Counter(record["figures"]) for record in results), Counter[str]())
        row = [name, verdict_of(name, records), ", ".join(tests), f"{minutes:.1f}"]
        row += [f"{stall:.2f} s", " ".join(map(str, seeds))]
        rows.append(
            [*row, ", ".join(f"{figures[key]:,} {key}" for key in TABLE_FIGURES if figures[key])]
        )
    return "\n".join(f"| {' | '.join(row)} |" for row in rows)


def print_errors(records: list[Record]) -> None:
    """Print the errors of tests that have not passed since."""
    for name in CAMPAIGNS:
        for test, record in last_results(name, records).items():
            if record["outcome"] in ("failed", "inconclusive"):
                print(f"\n{record['outcome']}: {test}\n{record['error']}")


def write_page(table: str, commit: str, path: Path = PAGE) -> None:
    """Write the table of a full pass into the page."""
    today = datetime.datetime.now(datetime.UTC).date()
    introduction = path.read_text().partition(LAST_PASS)[0]
    path.write_text(f"{introduction}{LAST_PASS}\n\n{today}, on commit {commit}.\n\n{table}\n")


def current_commit() -> str:
    """The commit, with a `+` if there are uncommitted changes."""
    changed = git("status", "--porcelain", "--", ".", ":!docs/proof.md")
    return git("rev-parse", "--short", "HEAD") + ("+" if changed else "")


def git(*arguments: str) -> str:
    """The output of a git command."""
    command = ["git", *arguments]
    return subprocess.run(
        command, cwd=ROOT, capture_output=True, text=True, check=True
    ).stdout.strip()


if __name__ == "__main__":
    sys.exit(main())
