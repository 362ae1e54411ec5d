import { describe, expect, it } from "vitest";
import { jobFrom } from "../actions/enqueue-dialog";
import type { JournalEvent } from "../api/jobs";
import type { QueueFigures } from "../api/overview";
import type { Worker } from "../api/queues";
import { thinned } from "../parts/charts";
import { matches } from "./events";
import { partsOf } from "./keyspace";
import { sum, total } from "./overview";
import { chosenBy } from "./queue-bulk";
import { healthOf } from "./workers";

describe("a worker", () => {
  const worker = (alive: boolean, seen_at: number) => ({ alive, seen_at }) as Worker;
  it("is alive, hung when it misses heartbeats, and dead when the store says so", () => {
    expect(healthOf(worker(true, 99), 100)).toBe("alive");
    expect(healthOf(worker(true, 94), 100)).toBe("hung");
    expect(healthOf(worker(false, 99), 100)).toBe("dead");
  });
});

describe("a filter", () => {
  const which = { queue: "mail", state: "failed", kind: "a", text: "b" } as const;
  it("is the selection, or everything that the view shows", () => {
    expect(chosenBy(which, ["x"])).toEqual({ states: ["failed"], ids: ["x"] });
    expect(chosenBy(which, null)).toEqual({ states: ["failed"], kinds: ["a"], text: "b" });
  });
});

describe("events", () => {
  const event = { queue: "mail", act: "fail", id: "order-7", kind: "k", worker: "w", note: "", by: "" };
  it("are found by queue, act and any word", () => {
    const shown = (said: object) => matches(event as JournalEvent, { queue: "", act: "", text: "", ...said });
    expect([{}, { queue: "mail" }, { act: "fail" }, { text: "der-7" }].every(shown)).toBe(true);
    expect([{ queue: "x" }, { act: "claim" }, { text: "absent" }].some(shown)).toBe(false);
  });
});

it("adds queues up", () => {
  const queue = (n: number) =>
    ({ counts: { queued: n }, beats: { entered: [n, 0, 9] } }) as unknown as QueueFigures;
  expect(sum([queue(1), queue(2)], "queued")).toBe(3);
  expect(total([queue(1), queue(2)], "entered")).toEqual([3, 0]);
  expect(thinned([1, 1, 1, 1, 1], 2)).toEqual([3, 2]);
});

it("sends only what was typed", () => {
  const blank = { id: "", kind: "", priority: "", delay: "", max_attempts: "" };
  expect(jobFrom(blank)).toEqual({});
  expect(jobFrom({ ...blank, id: "1", priority: "0" })).toEqual({ id: "1", priority: 0 });
});

it("takes a typed key apart", () => expect(partsOf("/a//b c/")).toEqual(["a", "b c"]));
