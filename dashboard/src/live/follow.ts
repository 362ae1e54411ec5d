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

class Shared implements Following {
  private readonly worker = new SharedWorker(new URL("./stream-worker.ts", import.meta.url), { type: "module" });
  private readonly unheard = new AbortController();
  private own: Following | null = null;
  private seen: string;

  constructor(
    private readonly source: Source,
    cursor: string,
    private readonly listener: Listener,
  ) {
    this.seen = cursor;
    const { signal } = this.unheard;
    this.worker.port.onmessage = ({ data }: MessageEvent<Said>) => this.take(data);
    this.worker.addEventListener("error", () => this.goAlone(), { signal });
    // A tab that is closed does not say so by itself; one that comes back by Back joins again.
    addEventListener("pagehide", () => this.ask("leave"), { signal });
    addEventListener("pageshow", ({ persisted }) => persisted && this.join(), { signal });
    this.join();
  }

  get cursor(): string {
    return this.own?.cursor ?? this.seen;
  }

  close(): void {
    this.unheard.abort();
    this.ask("leave");
    this.worker.port.close();
    this.own?.close();
  }

  private ask(ask: Ask): void {
    this.worker.port.postMessage(ask);
  }

  private join(): void {
    this.ask({ join: this.source, cursor: this.seen });
  }

  /** The worker could not be loaded. */
  private goAlone(): void {
    this.own ??= alone(this.source, this.seen, this.listener);
  }

  private take(said: Said): void {
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
