/** Keeps what is shown in step with what happens: only what changed is fetched again. */
import { type InfiniteData, type QueryClient, useQueryClient } from "@tanstack/react-query";
import { createContext, type ReactNode, useContext, useEffect, useMemo, useRef, useState } from "react";
import { clock } from "../api/clock";
import type { JournalEvent, Rows } from "../api/jobs";
import { fetchMe } from "../api/session";
import { type Changes, pair, summarize } from "./changes";
import { type Connection, Stream } from "./stream";
import { Throttle } from "./throttle";

type Listener = (events: JournalEvent[]) => void;

interface Live {
  connection: Connection;
  /** Hear of events as they come. */
  listen: (listener: Listener) => () => void;
}

const Context = createContext<Live>({ connection: "connecting", listen: () => () => {} });

export const useLive = (): Live => useContext(Context);

export function LiveProvider({ from, children }: { from: string; children: ReactNode }) {
  const client = useQueryClient();
  const [connection, setConnection] = useState<Connection>("connecting");
  const listeners = useMemo(() => new Set<Listener>(), []);
  // The end of the journal when the page came; it moves on, and the stream by itself.
  const start = useRef(from);

  useEffect(() => {
    const follower = new Follower(client);
    const stream = new Stream(start.current, {
      onEvents: (events) => {
        follower.follow(events);
        for (const listener of listeners) listener(events);
      },
      onGap: () => follower.startOver(),
      onConnection: (now) => {
        setConnection(now);
        if (now === "live") void fetchMe().catch(() => clock.forget());
      },
    });
    void stream.open();
    return () => {
      stream.close();
      follower.close();
    };
  }, [client, listeners]);

  const live = useMemo<Live>(
    () => ({
      connection,
      listen: (listener) => {
        listeners.add(listener);
        return () => listeners.delete(listener);
      },
    }),
    [connection, listeners],
  );
  return <Context value={live}>{children}</Context>;
}

/** Lists are fetched again at most once a second each, however much happens. */
const LIST_PAUSE = 1000;
const JOB_PAUSE = 300;

export class Follower {
  private readonly throttle = new Throttle();

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
      if (stale) this.soon(query.queryKey, LIST_PAUSE);
    }
    for (const queue of changes.queues) {
      const failed = pair(queue, "failed");
      const touched = changes.left.has(failed) || changes.stale.has(failed);
      if (touched || changes.stale.has(pair(queue, "*"))) this.soon(["dlq", queue], LIST_PAUSE);
    }
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

function without(data: InfiniteData<Rows>, gone: Set<string>): InfiniteData<Rows> {
  const keep = (page: Rows): Rows => ({
    ...page,
    rows: page.rows.filter((row) => !gone.has(row.id)),
  });
  return { ...data, pages: data.pages.map(keep) };
}
