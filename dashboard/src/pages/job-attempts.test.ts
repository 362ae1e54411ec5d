import { expect, it } from "vitest";
import type { Job } from "../api/jobs";
import { attemptRows } from "./job-attempts";

it("has the wait time of each attempt, latest first", () => {
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
  expect(attemptRows(job).map(({ number, waited }) => [number, waited])).toEqual([
    [2, 5],
    [1, 2],
  ]);
});

it("includes the attempt that completed or is running", () => {
  const timeline = [{ at: 10, to: "queued" }];
  const job = (more: object) =>
    ({ history: [], timeline, attempts: 1, worker: "w", started_at: 12, finished_at: null, ...more }) as unknown as Job;
  const done = attemptRows(job({ state: "completed", finished_at: 15 }));
  expect(done).toMatchObject([{ number: 1, act: "complete", worker: "w", waited: 2, startedAt: 12, endedAt: 15 }]);
  expect(attemptRows(job({ state: "processing" }))).toMatchObject([{ act: null, endedAt: null }]);
  expect(attemptRows(job({ state: "queued" }))).toEqual([]);
});

it("has no wait time if the journal has no events", () => {
  const job = { history: [{ attempt: 1, started_at: 12, at: 13 }], timeline: [] } as unknown as Job;
  expect(attemptRows(job)[0]?.waited).toBeNull();
});
