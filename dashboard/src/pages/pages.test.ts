import { describe, expect, it } from "vitest";
import { before } from "../actions/edit-dialog";
import { jobFrom } from "../actions/enqueue-dialog";
import type { JournalEvent } from "../api/events";
import type { Job } from "../api/jobs";
import type { QueueFigures } from "../api/overview";
import type { Worker } from "../api/queues";
import { moment, thinned } from "../parts/charts";
import { matches } from "./events";
import { partsOf, prefixOf } from "./keyspace";
import { awake, sum, total } from "./overview";
import { chosenBy } from "./queue-bulk";
import { crewsOf, deathOf, healthOf, inOrder, noteOnDeath } from "./workers";

describe("a worker", () => {
  const worker = (alive: boolean, seen_at: number) => ({ alive, seen_at }) as Worker;
  it("is alive, hung when it misses heartbeats, and dead when the store says so", () => {
    expect(healthOf(worker(true, 99), 100)).toBe("alive");
    expect(healthOf(worker(true, 94), 100)).toBe("hung");
    expect(healthOf(worker(false, 99), 100)).toBe("dead");
  });
  it("is one, however many queues it works for", () => {
    const post = (id: string, queue: string, holds: number, seen_at: number) =>
      ({ id, queue, holds, seen_at, alive: true }) as Worker;
    const crews = crewsOf([post("a", "mail", 2, 90), post("b", "mail", 0, 99), post("a", "images", 1, 99)], 100);
    expect(crews.map(({ worker, health, holds }) => [worker.id, health, holds])).toEqual([
      ["a", "alive", 3],
      ["b", "alive", 0],
    ]);
    const dead = crewsOf([{ ...post("c", "mail", 0, 98), alive: false }, { ...post("d", "mail", 0, 99), alive: false }], 100);
    expect([...dead, ...crews].sort(inOrder).map(({ worker }) => worker.id)).toEqual(["a", "b", "d", "c"]);
    expect(crews[0]?.posts.map((one) => one.queue)).toEqual(["images", "mail"]);
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
    expect([{}, { queue: "mail" }, { act: "fail" }, { text: "DER-7" }].every(shown)).toBe(true);
    expect([{ queue: "x" }, { act: "claim" }, { text: "absent" }].some(shown)).toBe(false);
  });
});

describe("a dead worker", () => {
  it("was seen to end, or fell silent", () => {
    expect(deathOf({ seen_at: 100, alive_until: 100.001 } as Worker)).toBe("ended");
    expect(deathOf({ seen_at: 100, alive_until: 110 } as Worker)).toBe("silent");
  });
  it("has left in the journal why", () => {
    const events = [
      { act: "expire", worker: "w1", note: "worker process was killed by SIGKILL" },
      { act: "claim", worker: "w1", note: "" },
      { act: "expire", worker: "w2", note: "lease expired" },
    ] as JournalEvent[];
    expect(noteOnDeath(events, "w1")).toBe("worker process was killed by SIGKILL");
    expect(noteOnDeath(events, "w3")).toBeNull();
  });
});

it("adds queues up", () => {
  const queue = (n: number) =>
    ({ counts: { queued: n }, throughput: { entered: [n, 0, 9] } }) as unknown as QueueFigures;
  expect(sum([queue(1), queue(2)], "queued")).toBe(3);
  expect(total([queue(1), queue(2)], "entered")).toEqual([3, 0]);
  expect(thinned([1, 1, 1, 1, 1], 2)).toEqual([3, 2]);
});

it("shows what a young store has, and half an hour of an old one", () => {
  const since = (at: number) =>
    [{ throughput: { entered: Array.from({ length: 181 }, (_, n) => Number(n >= at)) } }] as unknown as QueueFigures[];
  expect([since(0), since(100), since(175), since(999)].map(awake)).toEqual([180, 81, 6, 6]);
});

it("sends only what was typed", () => {
  const blank = { id: "", kind: "", priority: "", delay: "", max_attempts: "" };
  expect(jobFrom(blank)).toEqual({});
  expect(jobFrom({ ...blank, id: "1", priority: "0" })).toEqual({ id: "1", priority: 0 });
});

it("takes a typed key apart", () => expect(partsOf("/a//b c/")).toEqual(["a", "b c"]));

it("looks for whole parts of a key, and for the beginning of the last one", () => {
  expect(prefixOf("undelivered/nor")).toEqual({ parts: ["undelivered"], rest: "nor" });
  expect(prefixOf("undelivered/")).toEqual({ parts: ["undelivered"], rest: "" });
  expect(prefixOf("")).toEqual({ parts: [], rest: "" });
});

describe("an undo of an edit", () => {
  const job = { payload: "[1]", priority: 5, run_at: 1060 } as Job;
  it("puts back what was changed, and nothing else", () => {
    expect(before(job, { priority: 8 }, 1000)).toEqual({ priority: 5 });
    expect(before(job, { payload: "[2]", delay: 3600 }, 1000)).toEqual({ payload: "[1]", delay: 60 });
    expect(before({ ...job, run_at: null }, { delay: 3600 }, 1000)).toEqual({ delay: 0 });
  });
});

it("names a moment of a chart by what tells it from its neighbours", () => {
  const noon = new Date(2026, 10, 16, 0, 0).getTime() / 1000;
  expect(moment(noon, [noon, noon + 10])).toBe("00:00:00");
  expect(moment(noon, [noon, noon + 3600])).toBe("Nov 16, 00:00");
});
