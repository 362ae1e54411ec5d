import { useQuery } from "@tanstack/react-query";
import { useVirtualizer } from "@tanstack/react-virtual";
import { useEffect, useMemo, useRef, useState } from "react";
import { eventDetails, fetchLastEvents, type JournalEvent } from "../api/events";
import { Button, cx, Dot, Empty, ErrorPanel, Loading, Title } from "../components/basics";
import { JobLink } from "../components/id";
import { QueueSelect } from "../components/queue-select";
import { useScrollAnchor } from "../components/scroll-anchor";
import { SearchInput } from "../components/search-input";
import { ShortTimestamp } from "../components/time";
import { count } from "../format/numbers";
import type { MessageKey } from "../i18n/en";
import { plural, useT } from "../i18n/i18n";
import { useLive } from "../live/live";
import { ACTS } from "../live/stream";
import { Link, setQuery, toQueue, useAddress, useTitle } from "../routing";

const MAX_EVENTS = 1000;
const HEIGHT = 32;

/** The filter of the events, from the address. */
export interface EventQuery {
  queue: string;
  act: string;
  text: string;
}

/** The filter of the service applied to streamed events; text matches in any case. */
export function matches(event: JournalEvent, { queue, act, text }: EventQuery): boolean {
  if (queue && event.queue !== queue) return false;
  if (act && event.act !== act) return false;
  const texts = [event.id, event.kind, ...eventDetails(event)];
  return !text || texts.some((one) => one.toLowerCase().includes(text.toLowerCase()));
}

export function Events() {
  const t = useT();
  useTitle(t("events.title"));
  const { query } = useAddress();
  const filter: EventQuery = {
    queue: query.get("queue") ?? "",
    act: query.get("act") ?? "",
    text: query.get("text") ?? "",
  };
  const [paused, setPaused] = useState(false);
  const { events, pending, error, complete, retry } = useLatestEvents(filter);
  const [pausedEvents, setPausedEvents] = useState<JournalEvent[]>([]);
  const listed = paused ? pausedEvents.filter((event) => matches(event, filter)) : events;
  const newCount = paused ? newerThan(events, listed[0]) : 0;
  const togglePause = () => {
    setPausedEvents(events);
    setPaused(!paused);
  };
  return (
    <div className="flex min-h-0 flex-1 flex-col">
      <Title
        actions={
          <Button onClick={togglePause} aria-pressed={paused}>
            {t(paused ? "events.resume" : "events.pause")}
          </Button>
        }
      >
        {t("events.title")}
      </Title>
      <Filters filter={filter} />
      {newCount > 0 && (
        <button
          type="button"
          onClick={togglePause}
          className="border-b border-line bg-accent-soft py-1.5 font-medium text-accent"
        >
          {t("events.newer", { n: count(newCount) })}
        </button>
      )}
      {error !== null && <ErrorPanel error={error} retry={retry} />}
      {listed.length > 0 && <EventTable events={listed} complete={complete} />}
      {listed.length === 0 && pending && <Loading />}
      {listed.length === 0 && !pending && error === null && <NoEvents filter={filter} complete={complete} />}
    </div>
  );
}

function NoEvents({ filter, complete }: { filter: EventQuery; complete: boolean }) {
  const t = useT();
  if (!filter.queue && !filter.act && !filter.text) return <Empty>{t("events.empty")}</Empty>;
  const clear = (
    <Button variant="link" onClick={() => setQuery({ queue: "", act: "", text: "" })}>
      {t("queue.clear")}
    </Button>
  );
  return <Empty action={clear}>{t(complete ? "events.filtered" : "events.filteredIncomplete")}</Empty>;
}

const newerThan = (events: JournalEvent[], last: JournalEvent | undefined): number =>
  last ? Math.max(0, events.findIndex((event) => event.cursor === last.cursor)) : events.length;

interface LatestEvents {
  events: JournalEvent[];
  pending: boolean;
  error: unknown;
  complete: boolean;
  retry: () => void;
}

/** The latest matching events, newest first: fetched ones, and those streamed since. */
function useLatestEvents(filter: EventQuery): LatestEvents {
  const { listen } = useLive();
  const { queue, act, text } = filter;
  const history = useQuery({
    queryKey: ["events", queue, act, text],
    queryFn: ({ signal }) => fetchLastEvents(MAX_EVENTS, { queue, act, text }, signal),
    // Later events come from the stream.
    staleTime: Infinity,
    gcTime: 0,
  });
  const [recent, setRecent] = useState<JournalEvent[]>([]);
  useEffect(() => listen((more) => setRecent((before) => latest([...more.toReversed(), ...before]))), [listen]);
  const events = useMemo(() => {
    const fresh = recent.filter((event) => matches(event, { queue, act, text }));
    return latest([...fresh, ...(history.data?.events.toReversed() ?? [])]);
  }, [recent, history.data, queue, act, text]);
  return {
    events,
    pending: history.isPending,
    error: history.data ? null : history.error,
    complete: history.data?.complete ?? true,
    retry: () => void history.refetch(),
  };
}

/** Without duplicates, at most `MAX_EVENTS`. */
function latest(events: JournalEvent[]): JournalEvent[] {
  return [...new Map(events.map((event) => [event.cursor, event])).values()].slice(0, MAX_EVENTS);
}

function Filters({ filter }: { filter: EventQuery }) {
  const t = useT();
  return (
    <div className="flex flex-wrap gap-2 border-y border-line bg-surface px-4 py-2 md:px-6">
      <QueueSelect value={filter.queue} />
      <select
        aria-label={t("column.event")}
        className="field w-36"
        value={filter.act}
        onChange={(event) => setQuery({ act: event.target.value })}
      >
        <option value="">{t("events.anyAct")}</option>
        {ACTS.map((act) => (
          <option key={act} value={act}>
            {t(`act.${act}`)}
          </option>
        ))}
      </select>
      <SearchInput name="text" value={filter.text} label={t("events.filter")} className="w-52 max-sm:flex-1" />
    </div>
  );
}

const ROW =
  "grid items-center gap-x-4 px-4 md:px-6 grid-cols-[4.5rem_6rem_minmax(0,1fr)] md:grid-cols-[7.5rem_7rem_7rem_minmax(9rem,1fr)_minmax(8rem,1fr)] xl:grid-cols-[7.5rem_7.5rem_7rem_minmax(10rem,1fr)_6.5rem_minmax(10rem,2fr)]";

function EventTable({ events, complete }: { events: JournalEvent[]; complete: boolean }) {
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
  useScrollAnchor(scroller, cursors, HEIGHT);
  const headings: MessageKey[] = ["column.time", "column.event", "column.queue", "column.id", "column.state", "column.details"];
  return (
    <div ref={scroller} role="table" aria-label={t("events.title")} tabIndex={0} className="min-h-0 flex-1 overflow-y-auto bg-surface outline-offset-[-2px]">
      <div role="rowgroup" className="sticky top-0 z-10 border-b border-line bg-surface">
        <div role="row" className={cx(ROW, "head h-8")}>
          {headings.map((head) => (
            <span key={head} role="columnheader" className={COLUMN_VISIBILITY[head]}>
              {t(head)}
            </span>
          ))}
        </div>
      </div>
      <div role="rowgroup" className="relative" style={{ height: virtual.getTotalSize() }}>
        {virtual.getVirtualItems().map((item) => (
          <EventRow key={item.key} event={events[item.index]!} top={item.start} />
        ))}
      </div>
      {(events.length >= MAX_EVENTS || !complete) && (
        <p className="px-4 py-3 text-xs text-muted md:px-6">
          {plural(t, complete ? "events.kept" : "events.searched", events.length)}
        </p>
      )}
    </div>
  );
}

const COLUMN_VISIBILITY: Partial<Record<MessageKey, string>> = {
  "column.queue": "max-md:hidden",
  "column.state": "max-xl:hidden",
  "column.details": "max-md:hidden",
};

function EventRow({ event, top }: { event: JournalEvent; top: number }) {
  const t = useT();
  const text = eventDetails(event).join(" · ");
  return (
    <div
      role="row"
      data-act={event.act}
      style={{ height: HEIGHT, transform: `translateY(${top}px)` }}
      className={cx(ROW, "absolute inset-x-0 top-0 border-b border-line")}
    >
      <span role="cell" className="text-muted">
        <ShortTimestamp at={event.at} />
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
      <span role="cell" className="truncate text-muted max-md:hidden" title={text}>
        {text}
      </span>
    </div>
  );
}
