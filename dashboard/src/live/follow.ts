/** Subscribes to events: through the shared stream of all tabs, or a stream of this tab if that fails. */
import type { TabMessage, WorkerMessage } from "./shared-stream";
import { type Listener, type Source, Stream } from "./stream";

export interface Subscription {
  /** The cursor after the last event received. */
  readonly cursor: string;
  close: () => void;
}

export function follow(source: Source, cursor: string, listener: Listener): Subscription {
  try {
    return new SharedFollower(source, cursor, listener);
  } catch {
    // Shared workers are missing on Android, and denied to pages without access to storage.
    return openOwnStream(source, cursor, listener);
  }
}

function openOwnStream(source: Source, cursor: string, listener: Listener): Subscription {
  const stream = new Stream(source, cursor, listener);
  void stream.open();
  return stream;
}

/** Milliseconds for the worker to respond to a tab that joins; it may fail to load. */
const JOIN_TIMEOUT = 3000;
/** Milliseconds without a message after which the worker counts as dead: the service pings every 15 seconds. */
const SILENCE_TIMEOUT = 60_000;

/** Follows the shared stream, and a stream of its own while the worker does not respond. */
class SharedFollower implements Subscription {
  private readonly worker = new SharedWorker(new URL("./stream-worker.ts", import.meta.url), { type: "module" });
  private readonly closing = new AbortController();
  private watchdog: ReturnType<typeof setTimeout> | undefined;
  private own: Subscription | null = null;
  private lastCursor: string;

  constructor(
    private readonly source: Source,
    cursor: string,
    private readonly listener: Listener,
  ) {
    this.lastCursor = cursor;
    const { signal } = this.closing;
    this.worker.port.onmessage = ({ data }: MessageEvent<WorkerMessage>) => this.receive(data);
    // A closed tab would not leave by itself; a tab restored by the Back button joins again.
    addEventListener("pagehide", () => this.send("leave"), { signal });
    addEventListener("pageshow", ({ persisted }) => persisted && this.join(), { signal });
    this.join();
  }

  get cursor(): string {
    return this.own?.cursor ?? this.lastCursor;
  }

  close(): void {
    this.closing.abort();
    clearTimeout(this.watchdog);
    this.send("leave");
    this.worker.port.close();
    this.own?.close();
  }

  private send(message: TabMessage): void {
    this.worker.port.postMessage(message);
  }

  private join(): void {
    this.send({ join: this.source, cursor: this.lastCursor });
    this.resetWatchdog(JOIN_TIMEOUT);
  }

  private resetWatchdog(timeout: number): void {
    clearTimeout(this.watchdog);
    this.watchdog = setTimeout(() => {
      this.own ??= openOwnStream(this.source, this.lastCursor, this.listener);
    }, timeout);
  }

  private receive(message: WorkerMessage): void {
    this.resetWatchdog(SILENCE_TIMEOUT);
    this.own?.close();
    this.own = null;
    if (message === "alive") this.listener.onAlive();
    else if (message === "unauthorized") this.listener.onUnauthorized();
    else if ("connection" in message) this.listener.onConnection(message.connection);
    else if ("gap" in message) {
      this.lastCursor = message.gap;
      this.listener.onGap(message.gap);
    } else {
      this.lastCursor = message.cursor;
      this.send("ack");
      this.listener.onEvents(message.events, message.cursor);
    }
  }
}
