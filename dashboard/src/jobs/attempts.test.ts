import { expect, it } from "vitest";
import type { Job } from "../api/jobs";
import { attemptsOf } from "./attempts";

it("tells how long each attempt had waited, the last one first", () => {
  const job = {
    history: [
      { attempt: 1, started_at: 12, at: 13 },
      { attempt: 2, started_at: 30, at: 31 },
    ],
    timeline: [
      { at: 10, to: "queued" },
      { at: 12, to: "processing" },
      { at: 13, to: "failing" },
      { at: 25, to: "queued" },
    ],
  } as Job;
  expect(attemptsOf(job).map(({ number, waited }) => [number, waited])).toEqual([
    [2, 5],
    [1, 2],
  ]);
});

it("tells of the attempt that completed, and of one that runs", () => {
  const timeline = [{ at: 10, to: "queued" }];
  const job = (more: object) =>
    ({ history: [], timeline, attempts: 1, worker: "w", started_at: 12, finished_at: null, ...more }) as unknown as Job;
  const done = attemptsOf(job({ state: "completed", finished_at: 15 }));
  expect(done).toMatchObject([{ number: 1, act: "complete", worker: "w", waited: 2, startedAt: 12, endedAt: 15 }]);
  expect(attemptsOf(job({ state: "processing" }))).toMatchObject([{ act: null, endedAt: null }]);
  expect(attemptsOf(job({ state: "queued" }))).toEqual([]);
});

it("does not guess where the journal is silent", () => {
  const job = { history: [{ attempt: 1, started_at: 12, at: 13 }], timeline: [] } as unknown as Job;
  expect(attemptsOf(job)[0]?.waited).toBeNull();
});
