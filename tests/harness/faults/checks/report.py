"""The report of a campaign."""

from __future__ import annotations

import enum
from collections import Counter
from collections.abc import Mapping

import msgspec

MAX_LISTED = 5
"""Violations listed for each rule."""


class Rule(enum.StrEnum):
    """What must hold despite faults; the value describes a violation."""

    LOST = "enqueue answered ok, but gone; or completed without having run"
    STUCK = "still not finished after the final drain"
    UNEXPECTED = "delivered or stored, but never enqueued"
    COMPLETIONS = "not exactly one accepted completion"
    STALE = "settled under a token that was not the current one"
    REUSED = "two deliveries under one token"
    DISAGREEMENT = "the answers and the journal disagree"
    ATTEMPTS = "more or fewer deliveries than max_attempts allows"
    ILLEGAL = "a transition that the lifecycle does not allow"
    EXTRA = "more redeliveries than leases were in flight at faults"
    SKIPPED = "a reader of the journal missed or repeated entries"
    ORPHANED = "a worker outlived its supervisor"
    BLOCKED = "no progress after a fault"
    UNDRAINED = "the final drain did not happen"


class Violation(msgspec.Struct, frozen=True):
    """One broken rule."""

    rule: Rule
    subject: str
    detail: str = ""

    def __str__(self) -> str:
        return f"{self.subject}: {self.detail}" if self.detail else self.subject


class Report(msgspec.Struct, frozen=True, kw_only=True):
    """Violations and figures of a campaign; `str` formats them."""

    violations: tuple[Violation, ...]
    figures: Mapping[str, int]
    faults: Mapping[str, int]
    seed: int | None = None
    title: str = ""

    @property
    def ok(self) -> bool:
        return not self.violations

    @property
    def broken(self) -> frozenset[Rule]:
        """The rules that were broken."""
        return frozenset(violation.rule for violation in self.violations)

    def __str__(self) -> str:
        injected = sum(self.faults.values())
        lines = [f"{self.title or 'faults'}: {'ok' if self.ok else 'NOT OK'}"]
        if self.seed is not None:
            lines.append(f"  seed {self.seed}")
        lines.append(f"  {injected} faults")
        lines += [f"    {count:7,}  {name}" for name, count in sorted(self.faults.items())]
        lines += [f"  {count:9,}  {name}" for name, count in self.figures.items()]
        lines += self._broken_lines()
        return "\n".join(lines)

    def _broken_lines(self) -> list[str]:
        lines: list[str] = []
        for rule, count in Counter(violation.rule for violation in self.violations).items():
            lines.append(f"  {rule.name}, {count} times: {rule.value}")
            found = [each for each in self.violations if each.rule is rule]
            lines += [f"    {violation}" for violation in found[:MAX_LISTED]]
        return lines
