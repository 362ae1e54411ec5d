import { beforeEach, describe, expect, it } from "vitest";
import type { JournalEvent } from "../api/events";
import { Hubs, type OpenStream, type Port, type Said } from "./hub";
import type { Listener, Source } from "./stream";

interface Opened {
  source: Source;
  cursor: string;
  listener: Listener;
  closed: boolean;
  close: () => void;
}

let opened: Opened[];
let hubs: Hubs;
const open: OpenStream = (source, cursor, listener) => {
  const stream: Opened = { source, cursor, listener, closed: false, close: () => (stream.closed = true) };
  opened.push(stream);
  return stream;
};

beforeEach(() => {
  opened = [];
  hubs = new Hubs(open);
});

const someone = (token: string | null = null): Source => ({ base: "/api", token });
const event = { cursor: "2" } as JournalEvent;

function tab(source = someone(), cursor = "1"): Port & { said: Said[] } {
  const said: Said[] = [];
  const port = { said, postMessage: (one: Said) => void said.push(one) };
  hubs.take(port, { join: source, cursor });
  return port;
}

/** An event as a stream tells of it. */
function happen(stream: Opened): void {
  stream.cursor = "2";
  stream.listener.onEvents([event], "2");
}

describe("the tabs of a caller", () => {
  it("share one stream, and all hear of what it says", () => {
    const tabs = Array.from({ length: 10 }, () => tab());
    expect(opened).toHaveLength(1);
    opened[0]!.listener.onConnection("live");
    happen(opened[0]!);
    for (const { said } of tabs)
      expect(said).toEqual([{ connection: "connecting" }, { connection: "live" }, { events: [event], cursor: "2" }]);
  });

  it("have another one where they are signed in with another token", () => {
    const [mine, other] = [tab(someone("a")), tab(someone("b"))];
    expect(opened.map(({ source }) => source.token)).toEqual(["a", "b"]);
    opened[0]!.listener.onRefused();
    expect(mine.said).toContain("refused");
    expect(other.said).not.toContain("refused");
  });

  it("are told when they join behind what the others have heard", () => {
    tab();
    happen(opened[0]!);
    opened[0]!.listener.onConnection("live");
    expect(tab(someone(), "1").said).toEqual([{ connection: "live" }, { gap: "2" }]);
    expect(tab(someone(), "2").said).toEqual([{ connection: "live" }]);
  });

  it("close it when the last one leaves, and open it again", () => {
    const [first, second] = [tab(), tab()];
    hubs.take(first, "leave");
    expect(opened[0]!.closed).toBe(false);
    hubs.take(second, "leave");
    expect(opened[0]!.closed).toBe(true);
    tab();
    expect(opened).toHaveLength(2);
  });

  it("start over after a sleep, instead of being told of all that happened meanwhile", () => {
    const [asleep, awake] = [tab(), tab()];
    for (let n = 0; n < 1000; n += 1) {
      happen(opened[0]!);
      hubs.take(awake, "taken");
    }
    expect(awake.said).toHaveLength(1001);
    expect(asleep.said).toHaveLength(101);
    for (let n = 0; n < 100; n += 1) hubs.take(asleep, "taken");
    expect(asleep.said.at(-1)).toEqual({ gap: "2" });
    happen(opened[0]!);
    expect(asleep.said).toHaveLength(103);
  });
});
