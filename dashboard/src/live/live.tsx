/** Keeps the cache up to date with the event stream: only what changed is fetched again. */
import { type InfiniteData, type QueryClient, useQueryClient } from "@tanstack/react-query";
import {
  createContext,
  type ReactNode,
  useCallback,
  useContext,
  useEffect,
  useMemo,
  useRef,
  useState,
} from "react";
import { base, noteResponse, onUnresponsive, token } from "../api/client";
import { clock } from "../api/clock";
import type { JournalEvent } from "../api/events";
import { fetchRowsById, type JobQuery, type Rows } from "../api/jobs";
import { fetchMe } from "../api/session";
import { type Changes, scopedKey, summarize } from "./changes";
import { follow } from "./follow";
import { mergeRows, removeRows } from "./lists";
import type { Connection } from "./stream";
import { Throttle } from "./throttle";

type Listener = (events: JournalEvent[]) => void;

interface Live {
  connection: Connection;
  /** Call `listener` with events as they arrive. */
  listen: (listener: Listener) => () => void;
}

const Context = createContext<Live>({ connection: "connecting", listen: () => () => {} });

export const useLive = (): Live => useContext(Context);

interface LiveProps {
  cursor: string;
  /** Changes when the user signs in again: the stream is reopened at its cursor. */
  session: number;
  children: ReactNode;
}

export function LiveProvider({ cursor, session, children }: LiveProps) {
  const client = useQueryClient();
  const [connection, setConnection] = useState<Connection>("connecting");
  const [unresponsive, setUnresponsive] = useState(false);
  const listeners = useMemo(() => new Set<Listener>(), []);
  // The end of the journal when the page was loaded; afterwards the cursor of the last subscription.
  const start = useRef(cursor);

  useEffect(() => {
    const updater = new CacheUpdater(client);
    const subscription = follow({ base, token: token.read() }, start.current, {
      onEvents: (events) => {
        updater.apply(events);
        for (const listener of listeners) listener(events);
      },
      onGap: () => updater.refetchAll(),
      onConnection: (now) => {
        setConnection(now);
        if (now === "live") void fetchMe().catch(() => clock.reset());
      },
      onAlive: noteResponse,
      // This request fails as well, which makes the page ask for another token.
      onUnauthorized: () => void fetchMe().catch(() => clock.reset()),
    });
    return () => {
      start.current = subscription.cursor;
      subscription.close();
      updater.close();
    };
  }, [client, listeners, session]);
  // A hung service keeps its connections open: only requests without a response reveal it.
  useEffect(() => onUnresponsive(setUnresponsive), []);

  const listen = useCallback(
    (listener: Listener) => {
      listeners.add(listener);
      return () => void listeners.delete(listener);
    },
    [listeners],
  );
  const effective = unresponsive ? "lost" : connection;
  const live = useMemo<Live>(() => ({ connection: effective, listen }), [effective, listen]);
  return <Context value={live}>{children}</Context>;
}

/** Each list is refetched at most once a second, however many events there are. */
const LIST_INTERVAL = 1000;
const JOB_INTERVAL = 300;
/** Lists of up to this many pages are refetched as a whole; of longer ones only the jobs that changed. */
const MAX_REFETCHED_PAGES = 3;
/** Characters of ids that fit into an address. */
const MAX_ID_CHARACTERS = 4000;

export class CacheUpdater {
  private readonly throttle = new Throttle();
  /** Jobs that entered a list since it was last fetched. */
  private readonly entered = new Map<string, Set<string>>();

  constructor(private readonly client: QueryClient) {}

  apply(events: JournalEvent[]): void {
    const changes = summarize(events);
    this.removeLeft(changes);
    this.refetchLists(changes);
    this.refetchJobs(changes);
    this.refetchSoon(["overview"], LIST_INTERVAL);
  }

  refetchAll(): void {
    void this.client.invalidateQueries();
  }

  close(): void {
    this.throttle.close();
  }

  /** Remove jobs that left a state from its lists immediately, without a request. */
  private removeLeft(changes: Changes): void {
    for (const query of this.client.getQueryCache().findAll({ queryKey: ["rows"] })) {
      const [, queue, state] = query.queryKey as string[];
      const left = changes.left.get(scopedKey(queue!, state!));
      const data = query.state.data as InfiniteData<Rows> | undefined;
      if (left && data) this.client.setQueryData(query.queryKey, removeRows(data, left));
    }
  }

  private refetchLists(changes: Changes): void {
    for (const query of this.client.getQueryCache().findAll({ queryKey: ["rows"] })) {
      const [, queue, state] = query.queryKey as string[];
      const stale = [scopedKey(queue!, state!), scopedKey(queue!, "*")].some((one) => changes.stale.has(one));
      const ids = changes.entered.get(scopedKey(queue!, state!));
      const long = ((query.state.data as InfiniteData<Rows> | undefined)?.pages.length ?? 0) > MAX_REFETCHED_PAGES;
      if (stale || (ids?.size && !long)) this.refetchSoon(query.queryKey, LIST_INTERVAL);
      else if (ids?.size) this.fetchEntered(query.queryKey as string[], ids);
    }
    for (const queue of changes.queues) {
      const failed = scopedKey(queue, "failed");
      const touched = [changes.left, changes.entered, changes.stale].some((one) => one.has(failed));
      if (touched || changes.stale.has(scopedKey(queue, "*"))) this.refetchSoon(["dlq", queue], LIST_INTERVAL);
    }
  }

  /** Fetch the new jobs of a long list and insert them. */
  private fetchEntered(queryKey: string[], ids: Set<string>): void {
    const name = `entered ${JSON.stringify(queryKey)}`;
    this.entered.set(name, new Set([...(this.entered.get(name) ?? []), ...ids]));
    this.throttle.run(name, LIST_INTERVAL, async () => {
      const entered = [...(this.entered.get(name) ?? [])];
      this.entered.delete(name);
      if (entered.join("").length > MAX_ID_CHARACTERS) {
        await this.client.invalidateQueries({ queryKey }, { cancelRefetch: false });
        return;
      }
      const [, queue, state, kind, text] = queryKey as [string, string, JobQuery["state"], string, string];
      const { summaries } = await fetchRowsById({ queue, state, kind, text }, entered);
      this.client.setQueryData<InfiniteData<Rows>>(queryKey, (data) => data && mergeRows(data, summaries, entered, state));
    });
  }

  private refetchJobs(changes: Changes): void {
    for (const query of this.client.getQueryCache().findAll({ queryKey: ["job"] })) {
      const [, queue, id] = query.queryKey as string[];
      if (changes.jobs.has(scopedKey(queue!, id!))) this.refetchSoon(query.queryKey, JOB_INTERVAL);
    }
  }

  private refetchSoon(queryKey: readonly unknown[], interval: number): void {
    this.throttle.run(JSON.stringify(queryKey), interval, () =>
      this.client.invalidateQueries({ queryKey }, { cancelRefetch: false }),
    );
  }
}
