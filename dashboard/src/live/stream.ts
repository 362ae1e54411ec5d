/** The stream of events: opened by a ticket, read on by cursor, and opened again when it breaks. */
import { base, call, heard, Problem, type Schemas, token, withQuery } from "../api/client";
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
const SHORTEST_PAUSE = 500;
const LONGEST_PAUSE = 5000;

export interface Heard {
  onEvents: (events: JournalEvent[]) => void;
  /** Events were missed: what is shown may be old. */
  onGap: () => void;
  onConnection: (connection: Connection) => void;
}

export class Stream {
  private source: EventSource | null = null;
  private timer: ReturnType<typeof setTimeout> | undefined;
  private watchdog: ReturnType<typeof setTimeout> | undefined;
  private pause = SHORTEST_PAUSE;
  private waiting: JournalEvent[] = [];
  private closed = false;

  /** It reads on behind the cursor: nothing is missed that happened since that was the end. */
  constructor(
    public cursor: string,
    private readonly heard: Heard,
  ) {}

  async open(): Promise<void> {
    if (this.closed) return;
    try {
      const query = { after: this.cursor, ticket: token.read() ? await ticket() : null };
      if (!this.closed) this.listen(withQuery(`${base}/v1/events/stream`, query));
    } catch (error) {
      // Without a valid token nothing helps but a new one, and the page asks for it.
      if (error instanceof Problem && error.status === 401) this.heard.onConnection("lost");
      else this.retry();
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
      this.heard.onGap();
    });
    for (const act of ACTS) source.addEventListener(act, (event) => this.note(event));
    source.onopen = () => this.opened();
    source.onerror = () => this.retry();
  }

  private opened(): void {
    this.pause = SHORTEST_PAUSE;
    this.alive();
    this.heard.onConnection("live");
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
    if (!this.closed) this.heard.onEvents(events);
  }

  private alive(): void {
    heard();
    clearTimeout(this.watchdog);
    this.watchdog = setTimeout(() => this.retry(), SILENCE);
  }

  private retry(): void {
    this.source?.close();
    clearTimeout(this.timer);
    clearTimeout(this.watchdog);
    if (this.closed) return;
    this.heard.onConnection("lost");
    this.timer = setTimeout(() => void this.open(), this.pause);
    this.pause = Math.min(this.pause * 2, LONGEST_PAUSE);
  }
}

async function ticket(): Promise<string> {
  return (await call<Schemas["Ticket"]>("POST", "/v1/tickets")).ticket;
}
