import { afterEach, beforeEach, describe, expect, it, vi } from "vitest";
import { follow } from "./follow";
import type { Ask, Said } from "./hub";
import type { Listener } from "./stream";

class Sources extends EventTarget {
  static opened: string[] = [];
  static closed = 0;
  constructor(address: string) {
    super();
    Sources.opened.push(address);
  }
  close(): void {
    Sources.closed += 1;
  }
}

let asked: Ask[];
let port: { onmessage: (event: { data: Said }) => void; postMessage: (ask: Ask) => void; close: () => void };
const say = (data: Said) => port.onmessage({ data });
const listener = (): Listener => ({
  onEvents: vi.fn(),
  onGap: vi.fn(),
  onConnection: vi.fn(),
  onAlive: vi.fn(),
  onRefused: vi.fn(),
});

describe("a tab", () => {
  beforeEach(() => {
    vi.useFakeTimers();
    asked = [];
    Sources.opened = [];
    Sources.closed = 0;
    port = { onmessage: () => {}, postMessage: (ask) => void asked.push(ask), close: () => {} };
    vi.stubGlobal("EventSource", Sources);
    vi.stubGlobal("SharedWorker", class {
      port = port;
    });
  });
  afterEach(() => {
    vi.useRealTimers();
    vi.unstubAllGlobals();
  });
  const open = (heard = listener()) => follow({ base: "/api", token: null }, "1", heard);

  it("follows the stream that it shares, and opens none", async () => {
    const heard = listener();
    const following = open(heard);
    expect(asked).toEqual([{ join: { base: "/api", token: null }, cursor: "1" }]);
    say({ connection: "live" });
    say({ events: [], cursor: "5" });
    await vi.advanceTimersByTimeAsync(50_000);
    expect(heard.onConnection).toHaveBeenCalledWith("live");
    expect(asked.at(-1)).toBe("taken");
    expect(following.cursor).toBe("5");
    expect(Sources.opened).toEqual([]);
    following.close();
    expect(asked.at(-1)).toBe("leave");
  });

  it("has one of its own, from where it was, when the worker does not answer or dies", async () => {
    const following = open();
    await vi.advanceTimersByTimeAsync(3100);
    expect(Sources.opened).toEqual(["/api/v1/events/stream?after=1"]);
    following.close();

    const another = open();
    say({ events: [], cursor: "5" });
    await vi.advanceTimersByTimeAsync(61_000);
    expect(Sources.opened.at(-1)).toBe("/api/v1/events/stream?after=5");
    another.close();
  });

  it("gives it up again when the worker was only slow", async () => {
    const following = open();
    await vi.advanceTimersByTimeAsync(3100);
    say({ connection: "live" });
    expect(Sources.closed).toBe(1);
    following.close();
    await vi.advanceTimersByTimeAsync(120_000);
    expect(Sources.opened).toHaveLength(1);
  });

  it("has one of its own where no worker can be shared", async () => {
    vi.stubGlobal("SharedWorker", undefined);
    open().close();
    await vi.advanceTimersByTimeAsync(0);
    expect(asked).toEqual([]);
    const following = open();
    await vi.advanceTimersByTimeAsync(0);
    expect(Sources.opened).toEqual(["/api/v1/events/stream?after=1"]);
    following.close();
  });
});
