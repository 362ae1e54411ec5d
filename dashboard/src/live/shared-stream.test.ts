import { beforeEach, describe, expect, it } from "vitest";
import type { JournalEvent } from "../api/events";
import { type OpenStream, type Port, SharedStreams, type WorkerMessage } from "./shared-stream";
import type { Listener, Source } from "./stream";

interface Opened {
  source: Source;
  cursor: string;
  listener: Listener;
  closed: boolean;
  close: () => void;
}

let opened: Opened[];
let streams: SharedStreams;
const open: OpenStream = (source, cursor, listener) => {
  const stream: Opened = { source, cursor, listener, closed: false, close: () => (stream.closed = true) };
  opened.push(stream);
  return stream;
};

beforeEach(() => {
  opened = [];
  streams = new SharedStreams(open);
});

const sourceOf = (token: string | null = null): Source => ({ base: "/api", token });
const event = { cursor: "2" } as JournalEvent;

function tab(source = sourceOf(), cursor = "1"): Port & { received: WorkerMessage[] } {
  const received: WorkerMessage[] = [];
  const port = { received, postMessage: (message: WorkerMessage) => void received.push(message) };
  streams.receive(port, { join: source, cursor });
  return port;
}

/** Deliver one event through a stream. */
function emitEvent(stream: Opened): void {
  stream.cursor = "2";
  stream.listener.onEvents([event], "2");
}

describe("the tabs of a user", () => {
  it("share one stream, and all receive its messages", () => {
    const tabs = Array.from({ length: 10 }, () => tab());
    expect(opened).toHaveLength(1);
    opened[0]!.listener.onConnection("live");
    emitEvent(opened[0]!);
    for (const { received } of tabs)
      expect(received).toEqual([{ connection: "connecting" }, { connection: "live" }, { events: [event], cursor: "2" }]);
  });

  it("use separate streams for different tokens", () => {
    const [first, second] = [tab(sourceOf("a")), tab(sourceOf("b"))];
    expect(opened.map(({ source }) => source.token)).toEqual(["a", "b"]);
    opened[0]!.listener.onUnauthorized();
    expect(first.received).toContain("unauthorized");
    expect(second.received).not.toContain("unauthorized");
  });

  it("get a gap if they join behind the cursor of the stream", () => {
    tab();
    emitEvent(opened[0]!);
    opened[0]!.listener.onConnection("live");
    expect(tab(sourceOf(), "1").received).toEqual([{ connection: "live" }, { gap: "2" }]);
    expect(tab(sourceOf(), "2").received).toEqual([{ connection: "live" }]);
  });

  it("close the stream with the last tab, and open it again", () => {
    const [first, second] = [tab(), tab()];
    streams.receive(first, "leave");
    expect(opened[0]!.closed).toBe(false);
    streams.receive(second, "leave");
    expect(opened[0]!.closed).toBe(true);
    tab();
    expect(opened).toHaveLength(2);
  });

  it("get a gap after being suspended, instead of every event meanwhile", () => {
    const [sleeping, awake] = [tab(), tab()];
    for (let n = 0; n < 1000; n += 1) {
      emitEvent(opened[0]!);
      streams.receive(awake, "ack");
    }
    expect(awake.received).toHaveLength(1001);
    expect(sleeping.received).toHaveLength(101);
    for (let n = 0; n < 100; n += 1) streams.receive(sleeping, "ack");
    expect(sleeping.received.at(-1)).toEqual({ gap: "2" });
    emitEvent(opened[0]!);
    expect(sleeping.received).toHaveLength(103);
  });
});
