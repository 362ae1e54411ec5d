import { afterEach, beforeEach, describe, expect, it, vi } from "vitest";
import { follow } from "./follow";
import type { TabMessage, WorkerMessage } from "./shared-stream";
import type { Listener } from "./stream";

class FakeEventSource extends EventTarget {
  static opened: string[] = [];
  static closed = 0;
  constructor(address: string) {
    super();
    FakeEventSource.opened.push(address);
  }
  close(): void {
    FakeEventSource.closed += 1;
  }
}

let sent: TabMessage[];
let port: { onmessage: (event: { data: WorkerMessage }) => void; postMessage: (message: TabMessage) => void; close: () => void };
const receive = (data: WorkerMessage) => port.onmessage({ data });
const listener = (): Listener => ({
  onEvents: vi.fn(),
  onGap: vi.fn(),
  onConnection: vi.fn(),
  onAlive: vi.fn(),
  onUnauthorized: vi.fn(),
});

describe("a tab", () => {
  beforeEach(() => {
    vi.useFakeTimers();
    sent = [];
    FakeEventSource.opened = [];
    FakeEventSource.closed = 0;
    port = { onmessage: () => {}, postMessage: (message) => void sent.push(message), close: () => {} };
    vi.stubGlobal("EventSource", FakeEventSource);
    vi.stubGlobal("SharedWorker", class {
      port = port;
    });
  });
  afterEach(() => {
    vi.useRealTimers();
    vi.unstubAllGlobals();
  });
  const open = (callbacks = listener()) => follow({ base: "/api", token: null }, "1", callbacks);

  it("follows the shared stream, and opens none of its own", async () => {
    const callbacks = listener();
    const subscription = open(callbacks);
    expect(sent).toEqual([{ join: { base: "/api", token: null }, cursor: "1" }]);
    receive({ connection: "live" });
    receive({ events: [], cursor: "5" });
    await vi.advanceTimersByTimeAsync(50_000);
    expect(callbacks.onConnection).toHaveBeenCalledWith("live");
    expect(sent.at(-1)).toBe("ack");
    expect(subscription.cursor).toBe("5");
    expect(FakeEventSource.opened).toEqual([]);
    subscription.close();
    expect(sent.at(-1)).toBe("leave");
  });

  it("opens its own stream at its cursor if the worker does not respond or dies", async () => {
    const subscription = open();
    await vi.advanceTimersByTimeAsync(3100);
    expect(FakeEventSource.opened).toEqual(["/api/v1/events/stream?after=1"]);
    subscription.close();

    const second = open();
    receive({ events: [], cursor: "5" });
    await vi.advanceTimersByTimeAsync(61_000);
    expect(FakeEventSource.opened.at(-1)).toBe("/api/v1/events/stream?after=5");
    second.close();
  });

  it("closes its own stream again if the worker was only slow", async () => {
    const subscription = open();
    await vi.advanceTimersByTimeAsync(3100);
    receive({ connection: "live" });
    expect(FakeEventSource.closed).toBe(1);
    subscription.close();
    await vi.advanceTimersByTimeAsync(120_000);
    expect(FakeEventSource.opened).toHaveLength(1);
  });

  it("opens its own stream where there are no shared workers", async () => {
    vi.stubGlobal("SharedWorker", undefined);
    open().close();
    await vi.advanceTimersByTimeAsync(0);
    expect(sent).toEqual([]);
    const subscription = open();
    await vi.advanceTimersByTimeAsync(0);
    expect(FakeEventSource.opened).toEqual(["/api/v1/events/stream?after=1"]);
    subscription.close();
  });
});
