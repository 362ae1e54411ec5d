/** Keeps what is shown in step with what happens: only what changed is fetched again. */
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
import { base, heard, onSilence, token } from "../api/client";
import { clock } from "../api/clock";
import type { JournalEvent } from "../api/events";
import { fetchSome, type Rows, type Which } from "../api/jobs";
import { fetchMe } from "../api/session";
import { type Changes, pair, summarize } from "./changes";
import { follow } from "./follow";
import { withRows, without } from "./lists";
import type { Connection } from "./stream";
import { Throttle } from "./throttle";

type Listener = (events: JournalEvent[]) => void;

interface Live {
  connection: Connection;
  /** Be told of events as they come. */
  listen: (listener: Listener) => () => void;
}

const Context = createContext<Live>({ connection: "connecting", listen: () => () => {} });

export const useLive = (): Live => useContext(Context);

interface LiveProps {
  from: string;
  /** Another one opens the stream anew, where it was: who calls has signed in again. */
  session: number;
  children: ReactNode;
}

export function LiveProvider({ from, session, children }: LiveProps) {
  const client = useQueryClient();
  const [connection, setConnection] = useState<Connection>("connecting");
  const [silent, setSilent] = useState(false);
  const listeners = useMemo(() => new Set<Listener>(), []);
  // The end of the journal when the page came; it moves on, and the stream by itself.
  const start = useRef(from);

  useEffect(() => {
    const follower = new Follower(client);
    const following = follow({ base, token: token.read() }, start.current, {
      onEvents: (events) => {
        follower.follow(events);
        for (const listener of listeners) listener(events);
      },
      onGap: () => follower.startOver(),
      onConnection: (now) => {
        setConnection(now);
        if (now === "live") void fetchMe().catch(() => clock.forget());
      },
      onAlive: heard,
      // The page learns the same way that it has to ask for another token.
      onRefused: () => void fetchMe().catch(() => clock.forget()),
    });
    return () => {
      start.current = following.cursor;
      following.close();
      follower.close();
    };
  }, [client, listeners, session]);
  // A service that hangs keeps its connections open: only requests that get no response show it.
  useEffect(() => onSilence(setSilent), []);

  const listen = useCallback(
    (listener: Listener) => {
      listeners.add(listener);
      return () => void listeners.delete(listener);
    },
    [listeners],
  );
  const shown = silent ? "lost" : connection;
  const live = useMemo<Live>(() => ({ connection: shown, listen }), [shown, listen]);
  return <Context value={live}>{children}</Context>;
}

/** Lists are fetched again at most once a second each, however much happens. */
const LIST_PAUSE = 1000;
const JOB_PAUSE = 300;
/** Pages that are fetched again as a whole; of a longer list only the jobs that changed. */
const FEW_PAGES = 3;
/** Characters of ids that fit into an address. */
const MOST_IDS = 4000;

export class Follower {
  private readonly throttle = new Throttle();
  /** What came to a list since it was looked at. */
  private readonly entered = new Map<string, Set<string>>();

  constructor(private readonly client: QueryClient) {}

  follow(events: JournalEvent[]): void {
    const changes = summarize(events);
    this.strikeOut(changes);
    this.refetchLists(changes);
    this.refetchJobs(changes);
    this.soon(["overview"], LIST_PAUSE);
  }

  startOver(): void {
    void this.client.invalidateQueries();
  }

  close(): void {
    this.throttle.close();
  }

  /** A job that left a state leaves its list at once, without a request. */
  private strikeOut(changes: Changes): void {
    for (const query of this.client.getQueryCache().findAll({ queryKey: ["rows"] })) {
      const [, queue, state] = query.queryKey as string[];
      const gone = changes.left.get(pair(queue!, state!));
      const data = query.state.data as InfiniteData<Rows> | undefined;
      if (gone && data) this.client.setQueryData(query.queryKey, without(data, gone));
    }
  }

  private refetchLists(changes: Changes): void {
    for (const query of this.client.getQueryCache().findAll({ queryKey: ["rows"] })) {
      const [, queue, state] = query.queryKey as string[];
      const stale = [pair(queue!, state!), pair(queue!, "*")].some((one) => changes.stale.has(one));
      const ids = changes.entered.get(pair(queue!, state!));
      const long = ((query.state.data as InfiniteData<Rows> | undefined)?.pages.length ?? 0) > FEW_PAGES;
      if (stale || (ids?.size && !long)) this.soon(query.queryKey, LIST_PAUSE);
      else if (ids?.size) this.fetchEntered(query.queryKey as string[], ids);
    }
    for (const queue of changes.queues) {
      const failed = pair(queue, "failed");
      const touched = [changes.left, changes.entered, changes.stale].some((one) => one.has(failed));
      if (touched || changes.stale.has(pair(queue, "*"))) this.soon(["dlq", queue], LIST_PAUSE);
    }
  }

  /** Of a long list, fetch what is new in it and put that in its place. */
  private fetchEntered(queryKey: string[], ids: Set<string>): void {
    const name = `entered ${JSON.stringify(queryKey)}`;
    this.entered.set(name, new Set([...(this.entered.get(name) ?? []), ...ids]));
    this.throttle.run(name, LIST_PAUSE, async () => {
      const asked = [...(this.entered.get(name) ?? [])];
      this.entered.delete(name);
      if (asked.join("").length > MOST_IDS) {
        await this.client.invalidateQueries({ queryKey }, { cancelRefetch: false });
        return;
      }
      const [, queue, state, kind, text] = queryKey as [string, string, Which["state"], string, string];
      const { summaries } = await fetchSome({ queue, state, kind, text }, asked);
      this.client.setQueryData<InfiniteData<Rows>>(queryKey, (data) => data && withRows(data, summaries, asked, state));
    });
  }

  private refetchJobs(changes: Changes): void {
    for (const query of this.client.getQueryCache().findAll({ queryKey: ["job"] })) {
      const [, queue, id] = query.queryKey as string[];
      if (changes.jobs.has(pair(queue!, id!))) this.soon(query.queryKey, JOB_PAUSE);
    }
  }

  private soon(queryKey: readonly unknown[], pause: number): void {
    this.throttle.run(JSON.stringify(queryKey), pause, () =>
      this.client.invalidateQueries({ queryKey }, { cancelRefetch: false }),
    );
  }
}
