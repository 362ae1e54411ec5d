"""Faults made by hand in what Spark does with a store; none of these tests starts a Java."""

from __future__ import annotations

from tests.mutants.mutant import Mutant

_CLAIMS = "spark/claims"
_SHOWN = "tests/spark/test_claims.py"


def _claims(name: str, file: str, find: str, replace: str) -> Mutant:
    return Mutant(f"spark: {name}", f"{_CLAIMS}/{file}", find, replace, _SHOWN)


SPARK = [
    _claims(
        "a trigger that ends before its jobs are completed is accepted",
        "stream.py",
        "    if not isinstance(limit, ReadMaxRows):\n",
        "    if not isinstance(limit, ReadLimit):\n",
    ),
    _claims(
        "an idle stream does not settle its last micro-batch",
        "claims.py",
        "        self.settle(start)\n",
        "",
    ),
    _claims(
        "jobs are handed out before their manifest is saved",
        "claims.py",
        "                self.room.save(self.room.state, Manifest(batch, leases_of(records)))\n",
        "                self.room.manifests[batch] = Manifest(batch, leases_of(records))\n",
    ),
    _claims(
        "a new checkpoint is taken for the old one",
        "stream.py",
        '        if not start["batch"] and state.committed:\n',
        "        if False:\n",
    ),
    _claims(
        "who is refused takes the stream over nevertheless",
        "claims.py",
        "        self.room.begin(accept)\n",
        "        self.room.begin(lambda _state: None)\n        accept(self.room.state)\n",
    ),
    _claims(
        "an idle driver is not told that another has taken over",
        "claims.py",
        "        if self._keeper.fenced:\n",
        "        if False:\n",
    ),
    _claims(
        "beginning anew is not repeated",
        "claims.py",
        "            self._doubtful = True\n            self._keeper",
        "            self._keeper",
    ),
    _claims(
        "a micro-batch that kills its driver is begun for ever",
        "claims.py",
        "        if plans > self._options.max_replays and records:\n",
        "        if False:\n",
    ),
    _claims(
        "the other pieces of a micro-batch that was cut up are forgotten",
        "claims.py",
        "            return first, [*(Piece(leases_of(some)) for some in others), *waiting]\n",
        "            return first, waiting\n",
    ),
    _claims(
        "jobs are handed out whose leases are lost",
        "claims.py",
        "        if records is None or not self._keeper.keeps(manifest.leases):\n",
        "        if records is None:\n",
    ),
    _claims(
        "a driver that slept does not ask whether its leases are lost",
        "keeper.py",
        "        if abs(time.time() - self._heard_at) > 2 * self._pause:\n",
        "        if False:\n",
    ),
    _claims(
        "a poison job is left out instead of being buried",
        "claims.py",
        "            self._replay.bury(records[0], self._options.max_replays)\n",
        "            pass\n",
    ),
    _claims(
        "a job is blamed for a sink that is away",
        "claims.py",
        "        if 0 < manifest.suspected_in < self.room.state.proven:\n",
        "        if True:\n",
    ),
    _claims(
        "a job is blamed as soon as it was tried twice",
        "claims.py",
        "        if 0 < manifest.suspected_in < self.room.state.proven:\n",
        "        if 0 < manifest.suspected_in:\n",
    ),
    _claims(
        "a micro-batch without jobs proves that the sink works",
        "settling.py",
        "(one.batch for one in done if one.leases)",
        "(one.batch for one in done)",
    ),
    _claims(
        "a suspect keeps new jobs waiting",
        "claims.py",
        "            self._take_waiting(batch, suspects=False)\n",
        "            self._take_waiting(batch, suspects=True)\n",
    ),
    _claims(
        "what was claimed and never saved stays leased",
        "intake.py",
        "        return [job for job in ours if (job.id, job.token) not in held]\n",
        "        return []\n",
    ),
    _claims(
        "a failed save is not looked into",
        "claims.py",
        "            self._doubtful = True\n            raise\n",
        "            raise\n",
    ),
    _claims(
        "a driver that was taken over gives back what its successor has claimed",
        "intake.py",
        "            while (strays := self._strays(jobs)) and not self._room.confirm():\n",
        "            while (strays := self._strays(jobs)) and False:\n",
    ),
    _claims(
        "a write that comes late is not waited for",
        "manifests.py",
        "        if self._store.write_keys(self._tenant, [write]):\n            self._note",
        "        if not self.fenced():\n            self._note",
    ),
    _claims(
        "available now has no end",
        "intake.py",
        "            limit = min(limit, self._budget)\n",
        "            pass\n",
    ),
    _claims(
        "available now ends though what it claimed went back",
        "claims.py",
        "            if records:\n                self.room.save(",
        "            if records:\n                self._intake.spend(len(records))\n"
        "                self.room.save(",
    ),
    _claims(
        "available now claims more for a save that went unanswered",
        "claims.py",
        "        self._intake.spend(sum(len(manifest.leases) for manifest in arrived))\n",
        "",
    ),
    _claims(
        "more is kept in memory than was allowed",
        "intake.py",
        "            taken = fitting(found, room)\n",
        "            taken = len(found)\n",
    ),
    _claims(
        "what is too much in memory is kept from the queue",
        "intake.py",
        "                self.give_back(surplus)\n",
        "                pass\n",
    ),
    _claims(
        "a job's own short lease is left as it is",
        "intake.py",
        "            self._keeper.extend(leases_of(short))\n",
        "            pass\n",
    ),
    _claims(
        "a lapsed lease is not taken back before its micro-batch is repeated",
        "replay.py",
        "        self._expire(lost)\n",
        "",
    ),
    _claims(
        "a lease that cannot be taken back is tried for ever",
        "replay.py",
        "            if not any(verdict.applied for verdict in verdicts):\n",
        "            if False:\n",
    ),
    _claims(
        "whatever a manifest names is handed out again",
        "replay.py",
        "    if record.token == token and record.state in (State.PROCESSING, State.COMPLETED):\n",
        "    if record.token >= token:\n",
    ),
    _claims(
        "what failed in a micro-batch is missing when it is repeated",
        "replay.py",
        "    if ended := failed_under(lease, record):\n",
        "    if False:\n",
    ),
    _claims(
        "what lapsed is in its micro-batch when that is repeated",
        "leases.py",
        "if one.token == lease[1] and one.act == Act.FAIL)",
        "if one.token == lease[1])",
    ),
    _claims(
        "a driver does not look whether another has taken over before it settles",
        "settling.py",
        "        if self._room.fenced():\n",
        "        if False:\n",
    ),
    _claims(
        "a micro-batch that the store does not know is taken for settled",
        "settling.py",
        "            raise self.mismatch(batch)\n",
        "            return []\n",
    ),
    _claims(
        "jobs are settled under whatever lease they have",
        "settling.py",
        "        if held.token != lease[1]:\n",
        "        if False:\n",
    ),
    _claims(
        "completed jobs are not kept for a replay",
        "settling.py",
        "result_ttl=max(policy.result_ttl, keep_for)",
        "result_ttl=policy.result_ttl",
    ),
    _claims(
        "a job without an outcome stays leased",
        "settling.py",
        "        return lifecycle.fail(held, failure, policy, self._queue.random)\n",
        "        return None\n",
    ),
    _claims(
        "a driver that was taken over writes over its successor",
        "manifests.py",
        "            writes[0] = msgspec.structs.replace(writes[0], version=self._version)\n",
        "            writes[0] = msgspec.structs.replace(writes[0], version=None)\n",
    ),
    _claims(
        "manifests are dropped as soon as they are committed",
        "manifests.py",
        "if batch <= state.committed - KEPT]",
        "if batch <= state.committed]",
    ),
    _claims(
        "leases are not kept while the driver lives",
        "keeper.py",
        "        lost = self._extend(held)\n        self._heard",
        "        lost = set[Lease]()\n        self._heard",
    ),
    Mutant(
        "spark: the thread that keeps leases ends with whatever a store answers",
        "spark/claims/keeper.py",
        "        except Exception as error:\n",
        "        except ConnectionError as error:\n",
        "tests/spark/test_keeper.py",
    ),
    Mutant(
        "spark: what executors have settled is called lost",
        "spark/claims/leases.py",
        "record is not None and record.state in LIVE and not failed_under(lease, record)",
        "True",
        "tests/spark/test_keeper.py",
    ),
    Mutant(
        "spark: another outcome of a repeated micro-batch ends the query",
        "spark/writing/outcomes.py",
        '            if record is not None and _is_settled(record, row["token"]):\n',
        "            if False:\n",
        _SHOWN,
    ),
    Mutant(
        "spark: an outcome is written under whatever lease the job has",
        "spark/writing/outcomes.py",
        '    held = msgspec.structs.replace(record, token=row["token"])\n',
        "    held = record\n",
        "tests/spark/test_writing.py",
    ),
    Mutant(
        "spark: what the journal of all queues does not show yet is taken for nothing",
        "spark/events/journal.py",
        "            return News(frozenset(names), after)\n",
        "            return News(frozenset(names), end)\n",
        "tests/spark/test_many_queues.py",
    ),
    Mutant(
        "spark: queues that a limit has left behind are taken for idle",
        "spark/events/planning.py",
        "            names, end = [*start.unfinished, *sorted(news.names)], news.end\n",
        "            names, end = sorted(news.names), news.end\n",
        "tests/spark/test_many_queues.py",
    ),
]
