import { expect, it } from "vitest";
import type { QueueOverview } from "../api/overview";
import { activeBuckets, sum, total } from "./overview";

it("sums over queues", () => {
  const queue = (n: number) =>
    ({ counts: { queued: n }, throughput: { enqueued: [n, 0, 9] } }) as unknown as QueueOverview;
  expect(sum([queue(1), queue(2)], "queued")).toBe(3);
  expect(total([queue(1), queue(2)], "enqueued")).toEqual([3, 0]);
});

it("shows the throughput since the first job, or half an hour", () => {
  const since = (at: number) =>
    [{ throughput: { enqueued: Array.from({ length: 181 }, (_, n) => Number(n >= at)) } }] as unknown as QueueOverview[];
  expect([since(0), since(100), since(175), since(999)].map(activeBuckets)).toEqual([180, 81, 6, 6]);
});
