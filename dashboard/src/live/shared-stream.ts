/** One event stream for all tabs of a user, kept by a shared worker: over HTTP/1.1 a browser opens only
 * six connections to a host, and one stream per tab would leave none for requests. */
import type { JournalEvent } from "../api/events";
import { type Connection, type Listener, type Source, Stream } from "./stream";

/** A message from a tab to the worker. */
export type TabMessage = { join: Source; cursor: string } | "ack" | "leave";

/** A message from the worker to a tab. */
export type WorkerMessage =
  | { events: JournalEvent[]; cursor: string }
  | { gap: string }
  | { connection: Connection }
  | "alive"
  | "unauthorized";

/** The part of a MessagePort that is used here. */
export interface Port {
  postMessage: (message: WorkerMessage) => void;
}

/** Batches a tab may leave unacknowledged: then the browser has suspended it, and it refetches everything later. */
const MAX_UNACKED = 100;

interface Tab {
  /** Batches sent to it that it has not acknowledged. */
  unacked: number;
  missed: boolean;
}

export type OpenStream = (source: Source, cursor: string, listener: Listener) => Pick<Stream, "cursor" | "close">;

const openStream: OpenStream = (source, cursor, listener) => {
  const stream = new Stream(source, cursor, listener);
  void stream.open();
  return stream;
};

/** The stream of one user, and the tabs that follow it. */
class SharedStream {
  private readonly tabs = new Map<Port, Tab>();
  private readonly stream: Pick<Stream, "cursor" | "close">;
  private connection: Connection = "connecting";

  constructor(source: Source, cursor: string, open: OpenStream) {
    this.stream = open(source, cursor, {
      onEvents: (events, end) => this.broadcastEvents({ events, cursor: end }),
      onGap: (end) => this.broadcast({ gap: end }),
      onConnection: (connection) => {
        this.connection = connection;
        this.broadcast({ connection });
      },
      onAlive: () => this.broadcast("alive"),
      onUnauthorized: () => this.broadcast("unauthorized"),
    });
  }

  get empty(): boolean {
    return this.tabs.size === 0;
  }

  /** A tab that joins behind the cursor of the stream has missed events: it gets a gap. */
  join(port: Port, cursor: string): void {
    this.tabs.set(port, { unacked: 0, missed: false });
    port.postMessage({ connection: this.connection });
    if (cursor !== this.stream.cursor) port.postMessage({ gap: this.stream.cursor });
  }

  leave(port: Port): void {
    this.tabs.delete(port);
  }

  ack(port: Port): void {
    const tab = this.tabs.get(port);
    if (!tab) return;
    tab.unacked -= 1;
    if (tab.unacked > 0 || !tab.missed) return;
    tab.missed = false;
    port.postMessage({ gap: this.stream.cursor });
  }

  close(): void {
    this.stream.close();
  }

  private broadcastEvents(message: WorkerMessage): void {
    for (const [port, tab] of this.tabs) {
      if (tab.unacked >= MAX_UNACKED) tab.missed = true;
      else {
        tab.unacked += 1;
        port.postMessage(message);
      }
    }
  }

  private broadcast(message: WorkerMessage): void {
    for (const [port, tab] of this.tabs) if (tab.unacked < MAX_UNACKED) port.postMessage(message);
  }
}

/** One stream per user: tabs may be signed in with different tokens. */
export class SharedStreams {
  private readonly streams = new Map<string, SharedStream>();
  private readonly streamOfPort = new Map<Port, string>();

  constructor(private readonly open: OpenStream = openStream) {}

  receive(port: Port, message: TabMessage): void {
    if (message === "leave") this.leave(port);
    else if (message === "ack") this.of(port)?.ack(port);
    else this.join(port, message.join, message.cursor);
  }

  private of(port: Port): SharedStream | undefined {
    return this.streams.get(this.streamOfPort.get(port) ?? "");
  }

  private join(port: Port, source: Source, cursor: string): void {
    this.leave(port);
    const name = JSON.stringify([source.base, source.token]);
    const shared = this.streams.get(name) ?? new SharedStream(source, cursor, this.open);
    this.streams.set(name, shared);
    this.streamOfPort.set(port, name);
    shared.join(port, cursor);
  }

  private leave(port: Port): void {
    const shared = this.of(port);
    shared?.leave(port);
    if (shared?.empty) {
      shared.close();
      this.streams.delete(this.streamOfPort.get(port)!);
    }
    this.streamOfPort.delete(port);
  }
}
