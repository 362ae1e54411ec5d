import { useVirtualizer } from "@tanstack/react-virtual";
import { useEffect, useMemo, useRef, useState } from "react";
import { useQuery } from "@tanstack/react-query";
import { details, fetchLastEvents, type JournalEvent } from "../api/events";
import { count } from "../format/spans";
import { plural, useT } from "../i18n/i18n";
import type { Word } from "../i18n/en";
import { useAnchor } from "../jobs/anchor";
import { useLive } from "../live/live";
import { ACTS } from "../live/stream";
import { Button, cx, Dot, Empty, Title, Trouble, Waiting } from "../parts/basics";
import { JobLink } from "../parts/id";
import { QueueSelect } from "../parts/queue-select";
import { Typed } from "../parts/typed";
import { ShortMoment } from "../parts/times";
import { Link, setQuery, toQueue, useAddress, useTitle } from "../routing";

const KEPT = 1000;
const HEIGHT = 32;

/** Which events are shown, as the address says. */
export interface Shown {
  queue: string;
  act: string;
  text: string;
}

/** As the service chooses: by queue, by act, and by a word in whatever case. */
export function matches(event: JournalEvent, { queue, act, text }: Shown): boolean {
  if (queue && event.queue !== queue) return false;
  if (act && event.act !== act) return false;
  const words = [event.id, event.kind, ...details(event)];
  return !text || words.some((one) => one.toLowerCase().includes(text.toLowerCase()));
}

export function Events() {
  const t = useT();
  useTitle(t("events.title"));
  const { query } = useAddress();
  const shown: Shown = {
    queue: query.get("queue") ?? "",
    act: query.get("act") ?? "",
    text: query.get("text") ?? "",
  };
  const [paused, setPaused] = useState(false);
  const { events, pending, error, complete, again } = useTail(shown);
  const [held, setHeld] = useState<JournalEvent[]>([]);
  const listed = paused ? held.filter((event) => matches(event, shown)) : events;
  const missed = paused ? newerThan(events, listed[0]) : 0;
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
          {t("events.waiting", { n: count(missed) })}
        </button>
      )}
      {error !== null && <Trouble error={error} retry={again} />}
      {listed.length > 0 && <Tail events={listed} complete={complete} />}
      {listed.length === 0 && pending && <Waiting />}
      {listed.length === 0 && !pending && error === null && <Nothing shown={shown} complete={complete} />}
    </div>
  );
}

function Nothing({ shown, complete }: { shown: Shown; complete: boolean }) {
  const t = useT();
  if (!shown.queue && !shown.act && !shown.text) return <Empty>{t("events.empty")}</Empty>;
  const clear = (
    <Button look="link" onClick={() => setQuery({ queue: "", act: "", text: "" })}>
      {t("queue.clear")}
    </Button>
  );
  return <Empty action={clear}>{t(complete ? "events.filtered" : "events.filteredSoFar")}</Empty>;
}

const newerThan = (events: JournalEvent[], last: JournalEvent | undefined): number =>
  last ? Math.max(0, events.findIndex((event) => event.cursor === last.cursor)) : events.length;

interface Tailing {
  events: JournalEvent[];
  pending: boolean;
  error: unknown;
  complete: boolean;
  again: () => void;
}

/** The last events that match, the newest first: those before the page came, and those since. */
function useTail(shown: Shown): Tailing {
  const { listen } = useLive();
  const { queue, act, text } = shown;
  const past = useQuery({
    queryKey: ["events", queue, act, text],
    queryFn: ({ signal }) => fetchLastEvents(KEPT, { queue, act, text }, signal),
    // What comes afterwards is heard of.
    staleTime: Infinity,
    gcTime: 0,
  });
  const [since, setSince] = useState<JournalEvent[]>([]);
  useEffect(() => listen((more) => setSince((before) => newest([...more.toReversed(), ...before]))), [listen]);
  const events = useMemo(() => {
    const fresh = since.filter((event) => matches(event, { queue, act, text }));
    return newest([...fresh, ...(past.data?.events.toReversed() ?? [])]);
  }, [since, past.data, queue, act, text]);
  return {
    events,
    pending: past.isPending,
    error: past.data ? null : past.error,
    complete: past.data?.complete ?? true,
    again: () => void past.refetch(),
  };
}

/** Each event once, as many as are kept. */
function newest(events: JournalEvent[]): JournalEvent[] {
  return [...new Map(events.map((event) => [event.cursor, event])).values()].slice(0, KEPT);
}

function Filters({ shown }: { shown: Shown }) {
  const t = useT();
  return (
    <div className="flex flex-wrap gap-2 border-y border-line bg-surface px-4 py-2 md:px-6">
      <QueueSelect value={shown.queue} />
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
      <Typed name="text" value={shown.text} label={t("events.filter")} className="w-52 max-sm:flex-1" />
    </div>
  );
}

const ROW =
  "grid items-center gap-x-4 px-4 md:px-6 grid-cols-[4.5rem_6rem_minmax(0,1fr)] md:grid-cols-[7.5rem_7rem_7rem_minmax(9rem,1fr)_minmax(8rem,1fr)] xl:grid-cols-[7.5rem_7rem_8rem_minmax(9rem,1.2fr)_7rem_minmax(8rem,1.6fr)]";

function Tail({ events, complete }: { events: JournalEvent[]; complete: boolean }) {
  const t = useT();
  const scroller = useRef<HTMLDivElement>(null);
  const cursors = useMemo(() => events.map((event) => event.cursor), [events]);
  const virtual = useVirtualizer({
    count: events.length,
    getScrollElement: () => scroller.current,
    estimateSize: () => HEIGHT,
    overscan: 10,
    getItemKey: (at) => cursors[at] ?? at,
  });
  useAnchor(scroller, cursors, HEIGHT);
  const heads: Word[] = ["column.time", "column.act", "column.queue", "column.id", "column.state", "column.by"];
  return (
    <div ref={scroller} role="table" aria-label={t("events.title")} tabIndex={0} className="min-h-0 flex-1 overflow-y-auto bg-surface outline-offset-[-2px]">
      <div role="rowgroup" className="sticky top-0 z-10 border-b border-line bg-surface">
        <div role="row" className={cx(ROW, "head h-8")}>
          {heads.map((head) => (
            <span key={head} role="columnheader" className={SHOWN_FROM[head]}>
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
      {(events.length >= KEPT || !complete) && (
        <p className="px-4 py-3 text-xs text-muted md:px-6">
          {plural(t, complete ? "events.kept" : "events.searched", events.length)}
        </p>
      )}
    </div>
  );
}

const SHOWN_FROM: Partial<Record<Word, string>> = {
  "column.queue": "max-md:hidden",
  "column.state": "max-xl:hidden",
  "column.by": "max-md:hidden",
};

function EventLine({ event, top }: { event: JournalEvent; top: number }) {
  const t = useT();
  const said = details(event).join(" · ");
  return (
    <div
      role="row"
      data-act={event.act}
      style={{ height: HEIGHT, transform: `translateY(${top}px)` }}
      className={cx(ROW, "absolute inset-x-0 top-0 border-b border-line")}
    >
      <span role="cell" className="text-muted">
        <ShortMoment at={event.at} />
      </span>
      <span role="cell" className="truncate font-medium">
        {t(`act.${event.act}`)}
      </span>
      <span role="cell" className="truncate max-md:hidden">
        <Link href={toQueue(event.queue)} className="text-muted hover:underline">
          {event.queue}
        </Link>
      </span>
      <span role="cell" className="min-w-0">
        {event.id && <JobLink queue={event.queue} id={event.id} />}
      </span>
      <span role="cell" className="flex items-center gap-1.5 truncate text-muted max-xl:hidden">
        {event.to && (
          <>
            <Dot state={event.to} />
            {t(`one.${event.to}`)}
          </>
        )}
      </span>
      <span role="cell" className="truncate text-muted max-md:hidden" title={said}>
        {said}
      </span>
    </div>
  );
}
