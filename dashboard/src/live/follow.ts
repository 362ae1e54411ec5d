/** Follows the events: by the stream that all tabs share, or by one of this tab alone. */
import type { Ask, Said } from "./hub";
import { type Listener, type Source, Stream } from "./stream";

export interface Following {
  /** Behind the last event that was heard of. */
  readonly cursor: string;
  close: () => void;
}

export function follow(source: Source, cursor: string, listener: Listener): Following {
  try {
    return new Shared(source, cursor, listener);
  } catch {
    // No such workers, as on Android, or not for a page that may store nothing.
    return alone(source, cursor, listener);
  }
}

function alone(source: Source, cursor: string, listener: Listener): Following {
  const stream = new Stream(source, cursor, listener);
  void stream.open();
  return stream;
}

/** Milliseconds in which the worker answers a tab that joins, if it could be loaded. */
const ANSWER = 3000;
/** Milliseconds without a word after which it is taken for dead: a stream says something each 15 seconds. */
const SILENCE = 60_000;

/** Follows the worker's stream; and one of its own while the worker says nothing. */
class Shared implements Following {
  private readonly worker = new SharedWorker(new URL("./stream-worker.ts", import.meta.url), { type: "module" });
  private readonly closing = new AbortController();
  private watchdog: ReturnType<typeof setTimeout> | undefined;
  private own: Following | null = null;
  private seen: string;

  constructor(
    private readonly source: Source,
    cursor: string,
    private readonly listener: Listener,
  ) {
    this.seen = cursor;
    const { signal } = this.closing;
    this.worker.port.onmessage = ({ data }: MessageEvent<Said>) => this.take(data);
    // A tab that is closed does not say so by itself; one that comes back by Back joins again.
    addEventListener("pagehide", () => this.ask("leave"), { signal });
    addEventListener("pageshow", ({ persisted }) => persisted && this.join(), { signal });
    this.join();
  }

  get cursor(): string {
    return this.own?.cursor ?? this.seen;
  }

  close(): void {
    this.closing.abort();
    clearTimeout(this.watchdog);
    this.ask("leave");
    this.worker.port.close();
    this.own?.close();
  }

  private ask(ask: Ask): void {
    this.worker.port.postMessage(ask);
  }

  private join(): void {
    this.ask({ join: this.source, cursor: this.seen });
    this.expectWord(ANSWER);
  }

  private expectWord(within: number): void {
    clearTimeout(this.watchdog);
    this.watchdog = setTimeout(() => {
      this.own ??= alone(this.source, this.seen, this.listener);
    }, within);
  }

  private take(said: Said): void {
    this.expectWord(SILENCE);
    this.own?.close();
    this.own = null;
    if (said === "alive") this.listener.onAlive();
    else if (said === "refused") this.listener.onRefused();
    else if ("connection" in said) this.listener.onConnection(said.connection);
    else if ("gap" in said) {
      this.seen = said.gap;
      this.listener.onGap(said.gap);
    } else {
      this.seen = said.cursor;
      this.ask("taken");
      this.listener.onEvents(said.events, said.cursor);
    }
  }
}
