/** The stream of events: opened by a ticket, read on by cursor, and opened again when it breaks. */
import type { Schemas } from "../api/client";
import type { JournalEvent } from "../api/events";

export type Connection = "connecting" | "live" | "lost";

/** Whatever can happen, in the order in which a list of it is shown. */
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

/** The service says something at least each 15 seconds. */
const SILENCE = 40_000;
/** Milliseconds after which nobody waits any more for a ticket. */
const PATIENCE = 15_000;
const SHORTEST_PAUSE = 500;
const LONGEST_PAUSE = 5000;

/** Where the service is, and who asks. */
export interface Source {
  base: string;
  token: string | null;
}

export interface Listener {
  /** Events, and the cursor behind the last one. */
  onEvents: (events: JournalEvent[], cursor: string) => void;
  /** Events were missed up to the cursor: what is shown may be old. */
  onGap: (cursor: string) => void;
  onConnection: (connection: Connection) => void;
  /** The service has said something, whatever it was. */
  onAlive: () => void;
  /** Without a valid token nothing helps but a new one. */
  onRefused: () => void;
}

/** It runs in a page or in a worker, so it knows of neither. */
export class Stream {
  private source: EventSource | null = null;
  private timer: ReturnType<typeof setTimeout> | undefined;
  private watchdog: ReturnType<typeof setTimeout> | undefined;
  private pause = SHORTEST_PAUSE;
  private waiting: JournalEvent[] = [];
  private closed = false;

  /** It reads on behind the cursor: nothing is missed that happened since that was the end. */
  constructor(
    private readonly from: Source,
    public cursor: string,
    private readonly listener: Listener,
  ) {}

  async open(): Promise<void> {
    if (this.closed) return;
    try {
      const address = await addressOf(this.from, this.cursor);
      if (this.closed) return;
      if (address === null) this.refuse();
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
    source.addEventListener("ping", () => this.alive());
    source.addEventListener("dropped", (event) => {
      this.cursor = event.lastEventId || this.cursor;
      this.listener.onGap(this.cursor);
    });
    for (const act of ACTS) source.addEventListener(act, (event) => this.note(event));
    source.onopen = () => this.opened();
    source.onerror = () => this.retry();
  }

  private opened(): void {
    this.pause = SHORTEST_PAUSE;
    this.alive();
    this.listener.onConnection("live");
  }

  private note(event: MessageEvent<string>): void {
    this.alive();
    this.cursor = event.lastEventId;
    this.waiting.push(JSON.parse(event.data) as JournalEvent);
    if (this.waiting.length === 1) setTimeout(() => this.tell(), 200);
  }

  private tell(): void {
    const events = this.waiting;
    this.waiting = [];
    if (!this.closed) this.listener.onEvents(events, this.cursor);
  }

  private alive(): void {
    this.listener.onAlive();
    clearTimeout(this.watchdog);
    this.watchdog = setTimeout(() => this.retry(), SILENCE);
  }

  private refuse(): void {
    this.listener.onConnection("lost");
    this.listener.onRefused();
  }

  private retry(): void {
    this.source?.close();
    clearTimeout(this.timer);
    clearTimeout(this.watchdog);
    if (this.closed) return;
    this.listener.onConnection("lost");
    this.timer = setTimeout(() => void this.open(), this.pause);
    this.pause = Math.min(this.pause * 2, LONGEST_PAUSE);
  }
}

/** The address of the stream, with a ticket if callers must authenticate; null if the token is refused. */
async function addressOf({ base, token }: Source, cursor: string): Promise<string | null> {
  const query = new URLSearchParams({ after: cursor });
  if (token) {
    const answer = await fetch(`${base}/v1/tickets`, {
      method: "POST",
      headers: { authorization: `Bearer ${token}` },
      cache: "no-store",
      signal: AbortSignal.timeout(PATIENCE),
    });
    if (answer.status === 401) return null;
    if (!answer.ok) throw new Error(`The service answered ${answer.status}.`);
    query.set("ticket", ((await answer.json()) as Schemas["Ticket"]).ticket);
  }
  return `${base}/v1/events/stream?${query}`;
}
