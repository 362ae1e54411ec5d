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
  expect(attemptsOf(job).map(({ failure, waited }) => [failure.attempt, waited])).toEqual([
    [2, 5],
    [1, 2],
  ]);
});

it("does not guess where the journal is silent", () => {
  const job = { history: [{ attempt: 1, started_at: 12, at: 13 }], timeline: [] } as unknown as Job;
  expect(attemptsOf(job)[0]?.waited).toBeNull();
});
