/** One stream for all tabs of a caller, kept by a worker that they share: a browser opens only six
 * connections to a host over HTTP/1.1, and streams of their own would leave none for requests. */
import type { JournalEvent } from "../api/events";
import { type Connection, type Listener, type Source, Stream } from "./stream";

/** What a tab says to the hub. */
export type Ask = { join: Source; cursor: string } | "taken" | "leave";

/** What the hub says to a tab. */
export type Said =
  | { events: JournalEvent[]; cursor: string }
  | { gap: string }
  | { connection: Connection }
  | "alive"
  | "refused";

/** What the hub needs of a port. */
export interface Port {
  postMessage: (said: Said) => void;
}

/** Batches that a tab may be behind: then the browser has put it to sleep, and it starts over later. */
const MOST_BEHIND = 100;

interface Tab {
  /** Batches that it has not taken yet. */
  behind: number;
  missed: boolean;
}

export type OpenStream = (source: Source, cursor: string, listener: Listener) => Pick<Stream, "cursor" | "close">;

const openStream: OpenStream = (source, cursor, listener) => {
  const stream = new Stream(source, cursor, listener);
  void stream.open();
  return stream;
};

/** The tabs of one caller. */
class Hub {
  private readonly tabs = new Map<Port, Tab>();
  private readonly stream: Pick<Stream, "cursor" | "close">;
  private connection: Connection = "connecting";

  constructor(source: Source, cursor: string, open: OpenStream) {
    this.stream = open(source, cursor, {
      onEvents: (events, end) => this.tellEvents({ events, cursor: end }),
      onGap: (end) => this.tell({ gap: end }),
      onConnection: (connection) => {
        this.connection = connection;
        this.tell({ connection });
      },
      onAlive: () => this.tell("alive"),
      onRefused: () => this.tell("refused"),
    });
  }

  get empty(): boolean {
    return this.tabs.size === 0;
  }

  /** What happened between its cursor and that of the stream, a tab that joins later was not told. */
  join(port: Port, cursor: string): void {
    this.tabs.set(port, { behind: 0, missed: false });
    port.postMessage({ connection: this.connection });
    if (cursor !== this.stream.cursor) port.postMessage({ gap: this.stream.cursor });
  }

  leave(port: Port): void {
    this.tabs.delete(port);
  }

  taken(port: Port): void {
    const tab = this.tabs.get(port);
    if (!tab) return;
    tab.behind -= 1;
    if (tab.behind > 0 || !tab.missed) return;
    tab.missed = false;
    port.postMessage({ gap: this.stream.cursor });
  }

  close(): void {
    this.stream.close();
  }

  private tellEvents(said: Said): void {
    for (const [port, tab] of this.tabs) {
      if (tab.behind >= MOST_BEHIND) tab.missed = true;
      else {
        tab.behind += 1;
        port.postMessage(said);
      }
    }
  }

  private tell(said: Said): void {
    for (const [port, tab] of this.tabs) if (tab.behind < MOST_BEHIND) port.postMessage(said);
  }
}

/** A hub for each caller: tabs may be signed in with different tokens. */
export class Hubs {
  private readonly hubs = new Map<string, Hub>();
  private readonly homes = new Map<Port, string>();

  constructor(private readonly open: OpenStream = openStream) {}

  take(port: Port, ask: Ask): void {
    if (ask === "leave") this.leave(port);
    else if (ask === "taken") this.of(port)?.taken(port);
    else this.join(port, ask.join, ask.cursor);
  }

  private of(port: Port): Hub | undefined {
    return this.hubs.get(this.homes.get(port) ?? "");
  }

  private join(port: Port, source: Source, cursor: string): void {
    this.leave(port);
    const name = JSON.stringify([source.base, source.token]);
    const hub = this.hubs.get(name) ?? new Hub(source, cursor, this.open);
    this.hubs.set(name, hub);
    this.homes.set(port, name);
    hub.join(port, cursor);
  }

  private leave(port: Port): void {
    const hub = this.of(port);
    hub?.leave(port);
    if (hub?.empty) {
      hub.close();
      this.hubs.delete(this.homes.get(port)!);
    }
    this.homes.delete(port);
  }
}
