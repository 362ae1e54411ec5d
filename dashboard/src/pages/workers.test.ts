import { describe, expect, it } from "vitest";
import type { JournalEvent } from "../api/events";
import type { Worker } from "../api/queues";
import { byUrgency, exitReason, expiryNote, groupWorkers, healthOf } from "./workers";

describe("a worker", () => {
  const worker = (alive: boolean, seen_at: number) => ({ alive, seen_at }) as Worker;
  it("is alive, hung when it misses heartbeats, dead when the store says so", () => {
    expect(healthOf(worker(true, 99), 100)).toBe("alive");
    expect(healthOf(worker(true, 94), 100)).toBe("hung");
    expect(healthOf(worker(false, 99), 100)).toBe("dead");
  });
  it("is one group, however many queues it works for", () => {
    const entry = (id: string, queue: string, holds: number, seen_at: number) =>
      ({ id, queue, holds, seen_at, alive: true }) as Worker;
    const groups = groupWorkers([entry("a", "mail", 2, 90), entry("b", "mail", 0, 99), entry("a", "images", 1, 99)], 100);
    expect(groups.map(({ worker, health, holds }) => [worker.id, health, holds])).toEqual([
      ["a", "alive", 3],
      ["b", "alive", 0],
    ]);
    const dead = groupWorkers([{ ...entry("c", "mail", 0, 98), alive: false }, { ...entry("d", "mail", 0, 99), alive: false }], 100);
    expect([...dead, ...groups].sort(byUrgency).map(({ worker }) => worker.id)).toEqual(["a", "b", "d", "c"]);
    expect(groups[0]?.queues.map((one) => one.queue)).toEqual(["images", "mail"]);
  });
});

describe("a dead worker", () => {
  it("exited, or its heartbeats expired", () => {
    expect(exitReason({ seen_at: 100, alive_until: 100.001 } as Worker)).toBe("ended");
    expect(exitReason({ seen_at: 100, alive_until: 110 } as Worker)).toBe("silent");
  });
  it("has the reason in the journal", () => {
    const events = [
      { act: "expire", worker: "w1", note: "worker process was killed by SIGKILL" },
      { act: "claim", worker: "w1", note: "" },
      { act: "expire", worker: "w2", note: "lease expired" },
    ] as JournalEvent[];
    expect(expiryNote(events, "w1")).toBe("worker process was killed by SIGKILL");
    expect(expiryNote(events, "w3")).toBeNull();
  });
});
