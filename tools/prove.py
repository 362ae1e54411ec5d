"""Run the long campaigns.

What has passed on this commit is not run again, so an interrupted run is resumed by the same
command. A campaign that fails while the machine stood still for longer than a lease of the
campaigns proves nothing: it is told as inconclusive, and is run again the next time.
"""

import argparse
import datetime
import json
import re
import signal
import subprocess
import sys
import threading
import time
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
PYTHON = str(ROOT / ".venv" / "bin" / "python")
STATE = ROOT / ".prove.json"
PAGE = ROOT / "docs" / "proof.md"
SLOW = ["-m", "pytest", "-q", "-m", "slow"]

# The shortest lease of a campaign: a longer stall expires leases that nobody lost.
LEASE_SECONDS = 1.0
TICK_SECONDS = 0.05

CAMPAIGNS = {
    "histories": [*SLOW, "tests/conformance/test_model.py"],
    "kills": ["-m", "ackline.testing.faults", "--faults", "200", "--seed", "7"],
    "kills of workers and relays": [*SLOW, "tests/faults/test_campaign.py", "tests/relay"],
    "Redis drills": [*SLOW, "tests/faults/redis"],
    "PostgreSQL drills": [*SLOW, "tests/faults/postgres"],
    "service": [*SLOW, "tests/service"],
    "mutants": ["-m", "tests.mutants"],
    "Spark kills": [*SLOW, "tests/spark/test_killed.py", "tests/spark/test_killed_lake.py"],
    "Spark cluster": [*SLOW, "tests/spark/test_cluster.py"],
    "five million events": [*SLOW, "tests/spark/test_audit_at_scale.py"],
}

Result = dict[str, str]


class StallMeter:
    """The longest time for which a thread that wanted to run did not."""

    def __init__(self) -> None:
        self.longest = 0.0
        self._stop = threading.Event()
        self._thread = threading.Thread(target=self._measure, daemon=True)

    def __enter__(self) -> "StallMeter":
        self._thread.start()
        return self

    def __exit__(self, *_error: object) -> None:
        self._stop.set()
        self._thread.join()

    def _measure(self) -> None:
        before = time.monotonic()
        while not self._stop.wait(TICK_SECONDS):
            now = time.monotonic()
            self.longest = max(self.longest, now - before - TICK_SECONDS)
            before = now


def main() -> int:
    """Run what has not passed on this commit, within the budget, and print the table."""
    parser = argparse.ArgumentParser(prog="prove", description=__doc__)
    parser.add_argument("--budget", type=float, default=240, help="minutes (default: 240)")
    parser.add_argument("--only", action="append", choices=CAMPAIGNS, help="one campaign")
    parser.add_argument("--again", action="store_true", help="also run what has passed")
    options = parser.parse_args()
    commit = git("rev-parse", "--short", "HEAD") + ("+" if git("status", "--porcelain") else "")
    end = time.monotonic() + options.budget * 60
    results = {} if options.again else read_state(commit)
    for name in options.only or CAMPAIGNS:
        left = end - time.monotonic()
        if results.get(name, {}).get("verdict") != "passed" and left > 0:
            print(f"{name} …", flush=True)
            results[name] = run(CAMPAIGNS[name], left)
            STATE.write_text(json.dumps({"commit": commit, "results": results}, indent=1))
    table = table_of(results)
    print(table)
    passed = all(results.get(name, {}).get("verdict") == "passed" for name in CAMPAIGNS)
    if passed and not commit.endswith("+"):
        today = datetime.datetime.now(datetime.UTC).date()
        PAGE.write_text(f"# Proof\n\nLast full pass of `./prove`: {today}, {commit}.\n\n{table}\n")
    verdicts = [results.get(name, {}).get("verdict") for name in options.only or CAMPAIGNS]
    return 1 if "failed" in verdicts else 0 if set(verdicts) == {"passed"} else 2


def run(arguments: list[str], seconds: float) -> Result:
    """Run one campaign, measuring how long the machine stood still beside it."""
    began = time.monotonic()
    with StallMeter() as stalls:
        output, status = call([PYTHON, *arguments], seconds)
    verdict = "out of time" if status is None else "failed" if status else "passed"
    if verdict == "failed":
        print(output[-6000:], flush=True)
        if stalls.longest > LEASE_SECONDS:
            verdict = "inconclusive"
    seeds = sorted(set(re.findall(r"seed[ =:]+(\d+)", " ".join([*arguments, output]))))
    return {
        "verdict": verdict,
        "minutes": f"{(time.monotonic() - began) / 60:.1f}",
        "longest stall": f"{stalls.longest:.2f} s",
        "seeds": " ".join(seeds[:5]),
        "figures": (output.strip().splitlines() or [""])[-1].strip("= ").replace("|", "/"),
    }


def call(command: list[str], seconds: float) -> tuple[str, int | None]:
    """Give output and exit status; no status when time ran out, and it was asked to clean up."""
    process = subprocess.Popen(
        command, cwd=ROOT, text=True, stdout=subprocess.PIPE, stderr=subprocess.STDOUT
    )
    try:
        return process.communicate(timeout=seconds)[0], process.returncode
    except subprocess.TimeoutExpired:
        process.send_signal(signal.SIGINT)
    try:
        return process.communicate(timeout=60)[0], None
    except subprocess.TimeoutExpired:
        process.kill()
        return process.communicate()[0], None


def read_state(commit: str) -> dict[str, Result]:
    """What an earlier run on the same commit has found."""
    try:
        state = json.loads(STATE.read_text())
    except (OSError, ValueError):
        return {}
    return state["results"] if state["commit"] == commit and not commit.endswith("+") else {}


def table_of(results: dict[str, Result]) -> str:
    """One row for each campaign, run or not."""
    columns = ["verdict", "minutes", "longest stall", "seeds", "figures"]
    rows = [["campaign", *columns], ["---"] * (len(columns) + 1)]
    for name in CAMPAIGNS:
        result = results.get(name, {"verdict": "not run"})
        rows.append([name, *(result.get(column, "") for column in columns)])
    return "\n".join(f"| {' | '.join(row)} |" for row in rows)


def git(*arguments: str) -> str:
    """What git says."""
    command = ["git", *arguments]
    return subprocess.run(
        command, cwd=ROOT, capture_output=True, text=True, check=True
    ).stdout.strip()


if __name__ == "__main__":
    sys.exit(main())
