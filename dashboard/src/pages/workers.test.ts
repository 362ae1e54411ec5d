import { describe, expect, it } from "vitest";
import type { JournalEvent } from "../api/events";
import type { Worker } from "../api/queues";
import { byUrgency, exitReason, expiryNote, groupWorkers, healthOf } from "./workers";

describe("a worker", () => {
  const worker = (alive: boolean, last_heartbeat_at: number) => ({ alive, last_heartbeat_at }) as Worker;
  it("is alive, unresponsive without heartbeats, dead with expired leases, and stopped without", () => {
    expect(healthOf(worker(true, 99), 1, 100)).toBe("alive");
    expect(healthOf(worker(true, 94), 1, 100)).toBe("unresponsive");
    expect(healthOf(worker(false, 99), 1, 100)).toBe("dead");
    expect(healthOf(worker(false, 99), 0, 100)).toBe("stopped");
  });
  it("is one group, however many queues it works for", () => {
    const entry = (id: string, queue: string, leases: number, last_heartbeat_at: number) =>
      ({ id, queue, leases, last_heartbeat_at, alive: true }) as Worker;
    const groups = groupWorkers([entry("a", "mail", 2, 90), entry("b", "mail", 0, 99), entry("a", "images", 1, 99)], 100);
    expect(groups.map(({ worker, health, leases }) => [worker.id, health, leases])).toEqual([
      ["a", "alive", 3],
      ["b", "alive", 0],
    ]);
    const expired = (id: string, leases: number, last_heartbeat_at: number) => ({ ...entry(id, "mail", leases, last_heartbeat_at), alive: false });
    const others = groupWorkers([expired("c", 0, 98), expired("d", 0, 99), expired("e", 1, 97)], 100);
    const order = [...others, ...groups].sort(byUrgency).map(({ worker }) => worker.id);
    expect(order).toEqual(["e", "a", "b", "d", "c"]);
    expect(groups[0]?.queues.map((one) => one.queue)).toEqual(["images", "mail"]);
  });
});

describe("a worker that is no longer alive", () => {
  it("exited, or its heartbeats expired", () => {
    expect(exitReason({ last_heartbeat_at: 100, alive_until: 100.001 } as Worker)).toBe("process");
    expect(exitReason({ last_heartbeat_at: 100, alive_until: 110 } as Worker)).toBe("heartbeat");
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
