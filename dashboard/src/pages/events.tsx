import { useVirtualizer } from "@tanstack/react-virtual";
import { useEffect, useRef, useState } from "react";
import { call, Problem, type Schemas } from "../api/client";
import type { JournalEvent } from "../api/jobs";
import { useOverview } from "../api/overview";
import { useMe } from "../api/session";
import { useT } from "../i18n/i18n";
import type { Word } from "../i18n/en";
import { useLive } from "../live/live";
import { Button, cx, Dot, Empty, Title } from "../parts/basics";
import { Moment } from "../parts/times";
import { Link, setQuery, toJob, toQueue, useAddress } from "../routing";

const KEPT = 1000;
const HEIGHT = 32;

/** Which events are shown, as the address says. */
export interface Shown {
  queue: string;
  act: string;
  text: string;
}

export function matches(event: JournalEvent, { queue, act, text }: Shown): boolean {
  if (queue && event.queue !== queue) return false;
  if (act && event.act !== act) return false;
  return !text || [event.id, event.kind, event.worker, event.note, event.by].some((one) => one.includes(text));
}

export function Events() {
  const t = useT();
  const { query } = useAddress();
  const shown: Shown = {
    queue: query.get("queue") ?? "",
    act: query.get("act") ?? "",
    text: query.get("text") ?? "",
  };
  const [paused, setPaused] = useState(false);
  const events = useTail();
  const [held, setHeld] = useState<JournalEvent[]>([]);
  const source = paused ? held : events;
  const listed = source.filter((event) => matches(event, shown));
  const missed = paused ? newerThan(events, held[0]) : 0;
  const turn = () => {
    setHeld(events);
    setPaused(!paused);
  };
  return (
    <div className="flex min-h-0 flex-1 flex-col">
      <Title
        actions={
          <Button onClick={turn} aria-pressed={paused}>
            {t(paused ? "events.resume" : "events.pause")}
          </Button>
        }
      >
        {t("events.title")}
      </Title>
      <Filters shown={shown} />
      {missed > 0 && (
        <button
          type="button"
          onClick={turn}
          className="border-b border-line bg-accent-soft py-1.5 font-medium text-accent"
        >
          {t("events.waiting", { n: missed })}
        </button>
      )}
      {listed.length === 0 ? <Empty>{t("events.empty")}</Empty> : <Tail events={listed} />}
    </div>
  );
}

const newerThan = (events: JournalEvent[], last: JournalEvent | undefined): number =>
  last ? events.findIndex((event) => event.cursor === last.cursor) : events.length;

/** The last events, the newest first: those before the page came, and those since. */
function useTail(): JournalEvent[] {
  const { listen } = useLive();
  const end = useMe().data?.cursor;
  const [events, setEvents] = useState<JournalEvent[]>([]);
  useEffect(() => {
    const add = (more: JournalEvent[]) =>
      setEvents((before) => newest([...more.toReversed(), ...before]));
    const stop = listen(add);
    let here = true;
    void recent(end).then((past) => {
      if (here) setEvents((before) => newest([...before, ...past.toReversed()]));
    });
    return () => {
      here = false;
      stop();
    };
  }, [listen, end]);
  return events;
}

/** Each event once, as many as are kept. */
function newest(events: JournalEvent[]): JournalEvent[] {
  return [...new Map(events.map((event) => [event.cursor, event])).values()].slice(0, KEPT);
}

/** How many batches of the journal to step back: a few, and more where little is for this page. */
const STEPS_BACK = [20, 200, 2000];
const ENOUGH = 100;
const MOST_PAGES = 10;

const batchOf = (cursor: string): number => Number(cursor.split(".")[0]);

/** What happened shortly before: cursors are numbered, so one can step back a little. */
async function recent(end: string | undefined): Promise<JournalEvent[]> {
  if (!end) return [];
  let found: JournalEvent[] = [];
  let until = Infinity;
  for (const step of STEPS_BACK) {
    const start = Math.max(0, batchOf(end) - step);
    const older = await readUntil(`${start}.0`, until).catch(() => null);
    if (older === null) break;
    found = [...older, ...found].slice(-KEPT);
    until = start;
    if (found.length >= ENOUGH || start === 0) break;
  }
  return found;
}

/** The events from a cursor up to a batch; null if they are too many to look through. */
async function readUntil(after: string, until: number): Promise<JournalEvent[] | null> {
  const found: JournalEvent[] = [];
  for (let page = 0; page < MOST_PAGES; page += 1) {
    const { events, cursor } = await readPage(after);
    found.push(...events.filter((event) => batchOf(event.cursor) < until));
    // A page may have nothing for us, and yet there are more.
    if (cursor === null || cursor === after || batchOf(cursor) >= until) return found;
    after = cursor;
  }
  return null;
}

/** A page of the journal; if it does not go back so far any more, from its beginning. */
async function readPage(after: string): Promise<Schemas["EventPage"]> {
  const read = (from: string) =>
    call<Schemas["EventPage"]>("GET", "/v1/events", { query: { after: from, limit: KEPT } });
  return read(after).catch((error: unknown) => {
    if (error instanceof Problem && error.cursor) return read(error.cursor);
    throw error;
  });
}

const ACTS = ["enqueue", "claim", "complete", "fail", "expire", "promote", "cancel", "redrive", "edit", "move", "purge", "prune", "pause", "resume", "configure", "release", "snooze", "drop"] as const;

function Filters({ shown }: { shown: Shown }) {
  const t = useT();
  const queues = useOverview().data?.queues ?? [];
  return (
    <div className="flex flex-wrap gap-2 border-y border-line bg-surface px-4 py-2 md:px-6">
      <select
        aria-label={t("column.queue")}
        className="field w-40"
        value={shown.queue}
        onChange={(event) => setQuery({ queue: event.target.value })}
      >
        <option value="">{t("events.anyQueue")}</option>
        {queues.map((one) => (
          <option key={one.queue}>{one.queue}</option>
        ))}
      </select>
      <select
        aria-label={t("column.act")}
        className="field w-36"
        value={shown.act}
        onChange={(event) => setQuery({ act: event.target.value })}
      >
        <option value="">{t("events.anyAct")}</option>
        {ACTS.map((act) => (
          <option key={act} value={act}>
            {t(`act.${act}`)}
          </option>
        ))}
      </select>
      <input
        type="search"
        aria-label={t("events.filter")}
        placeholder={t("events.filter")}
        className="field w-52 max-sm:flex-1"
        value={shown.text}
        onChange={(event) => setQuery({ text: event.target.value })}
      />
    </div>
  );
}

const ROW =
  "grid items-center gap-x-4 px-4 md:px-6 grid-cols-[4.5rem_6rem_minmax(0,1fr)] md:grid-cols-[4.5rem_7rem_8rem_minmax(8rem,1.2fr)_7rem_minmax(8rem,1.6fr)]";

function Tail({ events }: { events: JournalEvent[] }) {
  const t = useT();
  const scroller = useRef<HTMLDivElement>(null);
  const virtual = useVirtualizer({
    count: events.length,
    getScrollElement: () => scroller.current,
    estimateSize: () => HEIGHT,
    overscan: 10,
  });
  const heads: Word[] = ["column.time", "column.act", "column.queue", "column.id", "column.state", "column.by"];
  return (
    <div ref={scroller} role="table" aria-label={t("events.title")} tabIndex={0} className="min-h-0 flex-1 overflow-y-auto bg-surface outline-offset-[-2px]">
      <div role="rowgroup" className="sticky top-0 z-10 border-b border-line bg-surface">
        <div role="row" className={cx(ROW, "head h-8")}>
          {heads.map((head) => (
            <span key={head} role="columnheader" className={cx(WIDE.has(head) && "max-md:hidden")}>
              {t(head)}
            </span>
          ))}
        </div>
      </div>
      <div role="rowgroup" className="relative" style={{ height: virtual.getTotalSize() }}>
        {virtual.getVirtualItems().map((item) => (
          <EventLine key={item.key} event={events[item.index]!} top={item.start} />
        ))}
      </div>
    </div>
  );
}

const WIDE = new Set<Word>(["column.queue", "column.state", "column.by"]);

function EventLine({ event, top }: { event: JournalEvent; top: number }) {
  const t = useT();
  const said = [event.worker, event.by, event.note].filter(Boolean).join(" · ");
  return (
    <div
      role="row"
      data-act={event.act}
      style={{ height: HEIGHT, transform: `translateY(${top}px)` }}
      className={cx(ROW, "absolute inset-x-0 top-0 border-b border-line")}
    >
      <span role="cell" className="text-muted">
        <Moment at={event.at} />
      </span>
      <span role="cell" className="truncate font-medium">
        {t(`act.${event.act}`)}
      </span>
      <span role="cell" className="truncate max-md:hidden">
        <Link href={toQueue(event.queue)} className="text-muted hover:underline">
          {event.queue}
        </Link>
      </span>
      <span role="cell" className="truncate font-mono text-xs">
        {event.id && (
          <Link href={toJob(event.queue, event.id)} className="hover:underline">
            {event.id}
          </Link>
        )}
      </span>
      <span role="cell" className="flex items-center gap-1.5 truncate text-muted max-md:hidden">
        {event.to && (
          <>
            <Dot state={event.to} />
            {t(`state.${event.to}`)}
          </>
        )}
      </span>
      <span role="cell" className="truncate text-muted max-md:hidden" title={said}>
        {said}
      </span>
    </div>
  );
}
