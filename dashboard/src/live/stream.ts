/** The event stream: opened with a ticket, continued by cursor, and reopened when it breaks. */
import type { Schemas } from "../api/client";
import type { JournalEvent } from "../api/events";

export type Connection = "connecting" | "live" | "lost";

/** All acts, in the order of the filter. */
export const ACTS = [
  "enqueue",
  "claim",
  "complete",
  "fail",
  "snooze",
  "release",
  "expire",
  "extend",
  "progress",
  "promote",
  "cancel",
  "request_cancel",
  "redrive",
  "edit",
  "move",
  "prune",
  "purge",
  "pause",
  "resume",
  "configure",
  "drop",
] as const satisfies readonly JournalEvent["act"][];

/** The service sends a ping at least every 15 seconds. */
const SILENCE_TIMEOUT = 40_000;
/** Milliseconds to wait for a ticket. */
const TICKET_TIMEOUT = 15_000;
const MIN_RETRY_DELAY = 500;
const MAX_RETRY_DELAY = 5000;

/** The base path of the service, and the caller's token. */
export interface Source {
  base: string;
  token: string | null;
}

export interface Listener {
  /** Events, and the cursor after the last one. */
  onEvents: (events: JournalEvent[], cursor: string) => void;
  /** Events up to the cursor were missed: what is shown may be stale. */
  onGap: (cursor: string) => void;
  onConnection: (connection: Connection) => void;
  /** The service sent something, be it only a ping. */
  onAlive: () => void;
  /** The token was rejected; retrying does not help. */
  onUnauthorized: () => void;
}

/** Runs in a page or in a worker, so it uses the API of neither. */
export class Stream {
  private source: EventSource | null = null;
  private timer: ReturnType<typeof setTimeout> | undefined;
  private watchdog: ReturnType<typeof setTimeout> | undefined;
  private retryDelay = MIN_RETRY_DELAY;
  private buffered: JournalEvent[] = [];
  private closed = false;

  /** Continues after the cursor, so that no event since then is missed. */
  constructor(
    private readonly service: Source,
    public cursor: string,
    private readonly listener: Listener,
  ) {}

  async open(): Promise<void> {
    if (this.closed) return;
    try {
      const address = await addressOf(this.service, this.cursor);
      if (this.closed) return;
      if (address === null) this.reject();
      else this.listen(address);
    } catch {
      this.retry();
    }
  }

  close(): void {
    this.closed = true;
    this.source?.close();
    clearTimeout(this.timer);
    clearTimeout(this.watchdog);
  }

  private listen(address: string): void {
    const source = new EventSource(address);
    this.source = source;
    source.addEventListener("ping", () => this.resetWatchdog());
    source.addEventListener("dropped", (event) => {
      this.cursor = event.lastEventId || this.cursor;
      this.listener.onGap(this.cursor);
    });
    for (const act of ACTS) source.addEventListener(act, (event) => this.buffer(event));
    source.onopen = () => this.opened();
    source.onerror = () => this.retry();
  }

  private opened(): void {
    this.retryDelay = MIN_RETRY_DELAY;
    this.resetWatchdog();
    this.listener.onConnection("live");
  }

  private buffer(event: MessageEvent<string>): void {
    this.resetWatchdog();
    this.cursor = event.lastEventId;
    this.buffered.push(JSON.parse(event.data) as JournalEvent);
    if (this.buffered.length === 1) setTimeout(() => this.flush(), 200);
  }

  private flush(): void {
    const events = this.buffered;
    this.buffered = [];
    if (!this.closed) this.listener.onEvents(events, this.cursor);
  }

  private resetWatchdog(): void {
    this.listener.onAlive();
    clearTimeout(this.watchdog);
    this.watchdog = setTimeout(() => this.retry(), SILENCE_TIMEOUT);
  }

  private reject(): void {
    this.listener.onConnection("lost");
    this.listener.onUnauthorized();
  }

  private retry(): void {
    this.source?.close();
    clearTimeout(this.timer);
    clearTimeout(this.watchdog);
    if (this.closed) return;
    this.listener.onConnection("lost");
    this.timer = setTimeout(() => void this.open(), this.retryDelay);
    this.retryDelay = Math.min(this.retryDelay * 2, MAX_RETRY_DELAY);
  }
}

/** The address of the stream, with a ticket for the token; null if the token was rejected. */
async function addressOf({ base, token }: Source, cursor: string): Promise<string | null> {
  const query = new URLSearchParams({ after: cursor });
  if (token) {
    const response = await fetch(`${base}/v1/tickets`, {
      method: "POST",
      headers: { authorization: `Bearer ${token}` },
      cache: "no-store",
      signal: AbortSignal.timeout(TICKET_TIMEOUT),
    });
    if (response.status === 401) return null;
    if (!response.ok) throw new Error(`The service answered ${response.status}.`);
    query.set("ticket", ((await response.json()) as Schemas["Ticket"]).ticket);
  }
  return `${base}/v1/events/stream?${query}`;
}
