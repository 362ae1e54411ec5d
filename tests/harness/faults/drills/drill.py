"""A drill repeats one fault of a server under load; a command runs drills."""

from __future__ import annotations

import argparse
import signal
import sys
import tempfile
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path

import msgspec

from tests.harness.faults.checks.report import Report, Rule


class DrillOptions(msgspec.Struct, frozen=True, kw_only=True):
    """How often to inject the fault, by which seed, and where to keep the histories."""

    count: int
    folder: Path
    seed: int = 1
    lease: float = 1.0


class Drill(msgspec.Struct, frozen=True):
    """A fault to repeat. A control names the rule that it must break, or several, of which one."""

    name: str
    run: Callable[[DrillOptions], Report]
    breaks: Rule | tuple[Rule, ...] | None = None
    slow: bool = False
    """Whether each fault takes seconds."""

    def passes(self, report: Report) -> bool:
        """Whether the report is as expected."""
        return any(rule in report.broken for rule in self.rules) if self.rules else report.ok

    @property
    def rules(self) -> tuple[Rule, ...]:
        """The rules of which a control must break one."""
        if self.breaks is None:
            return ()
        return (self.breaks,) if isinstance(self.breaks, Rule) else self.breaks


def by_name(*drills: Drill) -> Mapping[str, Drill]:
    """All drills of a server, by the names under which the command runs them."""
    return {drill.name: drill for drill in drills}


def run_command(
    program: str, drills: Mapping[str, Drill], arguments: Sequence[str] | None = None
) -> int:
    """Run one drill, or all, and print the reports; exit status 1 if one is not as expected."""
    options = _parser(program, drills).parse_args(arguments)
    # Exit by an exception, so that the started processes are ended.
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(1))
    passed = [_run(drills[name], options) for name in options.fault or drills]
    return 0 if all(passed) else 1


def _run(drill: Drill, options: argparse.Namespace) -> bool:
    with tempfile.TemporaryDirectory(prefix="ackline-faults-") as temporary:
        folder = Path(options.histories or temporary) / drill.name
        report = drill.run(DrillOptions(count=options.count, seed=options.seed, folder=folder))
    passes = drill.passes(report)
    if drill.breaks is not None:
        outcome = "did" if passes else "DID NOT"
        rules = " or ".join(rule.name for rule in drill.rules)
        sys.stdout.write(f"control, must break {rules} and {outcome}: ")
    sys.stdout.write(f"{report}\n")
    sys.stdout.flush()
    return passes


def _parser(program: str, drills: Mapping[str, Drill]) -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(prog=f"python -m {program}")
    parser.add_argument("--fault", action="append", choices=drills, help="(default: all)")
    parser.add_argument("--count", type=int, default=10)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--histories", help="a folder in which to keep the histories")
    return parser
