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
        "another checkpoint shares the first micro-batch and its generation",
        "claims.py",
        "replace(self.room.state, offered=new_id())",
        "replace(self.room.state)",
    ),
    _claims(
        "two checkpoints stay accepted when one has handed out jobs",
        "claims.py",
        "        if state.offered:\n",
        "        if False:\n",
    ),
    _claims(
        "the checkpoint that was first is refused before the other has handed out jobs",
        "claims.py",
        "offered=new_id())",
        "generation=new_id())",
    ),
    _claims(
        "a checkpoint with a first micro-batch without jobs cannot have the next",
        "stream.py",
        '(not offset["batch"] or offset.get(part) == state.offered)',
        "offset.get(part) == state.offered",
    ),
    _claims(
        "a first micro-batch without jobs takes the stream over",
        "stream.py",
        '        if start["batch"] == end["batch"]:\n',
        "        if start == end:\n",
    ),
    _claims(
        "a poison job is in a row of the lake, too",
        "replay.py",
        'delivered if options.ack == "outcome" else unfailed',
        "delivered",
    ),
    _claims(
        "what an unanswered write made wait stays beside what waits",
        "manifest_room.py",
        "            changes = changes + self._undo_additions(changes)\n",
        "",
    ),
    _claims(
        "parts of a split wait behind those of an earlier one",
        "claims.py",
        "            number = -min(ready)[1]\n",
        "            number = min((suspected, -last) for suspected, last in ready)[1]\n",
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
        "the other jobs of a micro-batch that was split are forgotten",
        "replay.py",
        "            return first, [WaitingJobs(leases_of(some)) for some in others]\n",
        "            return first, []\n",
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
        "replay.py",
        "            self._bury(records[0])\n",
        "            pass\n",
    ),
    _claims(
        "a job is blamed for a sink that is away",
        "replay.py",
        "        if 0 < manifest.suspected_in < proven:\n",
        "        if True:\n",
    ),
    _claims(
        "a job is blamed as soon as it was tried twice",
        "replay.py",
        "        if 0 < manifest.suspected_in < proven:\n",
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
        "manifest_room.py",
        "        if self._keys.write(self.state, self._version):\n            self._note",
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
        "        if records:\n            try:\n",
        "        if records:\n            self._intake.spend(len(records))\n            try:\n",
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
        "    if record is None or record.token != lease[1]:\n        return None\n"
        "    return record if record.state in (State.PROCESSING, State.COMPLETED) else None\n",
        "    return record if record is not None and record.token >= lease[1] else None\n",
    ),
    _claims(
        "what failed in a micro-batch is missing when it is repeated",
        "replay.py",
        "    if record is not None and (ended := failed_under(lease, record)):\n",
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
        "stream_keys.py",
        "        guard = KeyWrite(key=self._state_path, value=value, version=version)\n",
        "        guard = KeyWrite(key=self._state_path, value=value, version=None)\n",
    ),
    _claims(
        "manifests are dropped as soon as they are committed",
        "manifest_room.py",
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
        "spark: a lake's gaps are known only when the run has ended",
        "spark/lake/lake.py",
        "        return known + added(batches[-1].gaps, known) if batches else known\n",
        "        return known\n",
        "tests/spark/test_gaps_of_a_lake.py::TestAsSoonAsTheBatchIsThere",
    ),
    Mutant(
        "spark: gaps that were found when a batch was repeated are left to the next offset",
        "spark/lake/skipped.py",
        "    return [*offset.skipped, *(gap for gap in noted if gap not in offset.skipped)]\n",
        "    return offset.skipped\n",
        "tests/spark/test_gaps_of_a_lake.py::TestAsSoonAsTheBatchIsThere",
    ),
    Mutant(
        "spark: a run that slept removes the table that another has put there",
        "spark/lake/placing.py",
        "    if _identity(files, aside) != expected:\n",
        "    if False:\n",
        "tests/spark/test_lake_folder.py",
    ),
    Mutant(
        "spark: a run that slept puts old gold over new",
        "spark/lake/placing.py",
        "        if _identity(files, path) != before:\n            check()\n",
        "",
        "tests/spark/test_lake_folder.py",
    ),
    Mutant(
        "spark: a run that slept adds a batch to a Delta table again",
        "spark/lake/delta.py",
        "                self._at(name) if table is None else table,\n",
        "                self._at(name),\n",
        "tests/spark/test_delta.py::test_one_that_slept_right_before_its_commit_adds_nothing",
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
