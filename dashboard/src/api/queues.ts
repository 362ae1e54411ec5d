import { useQuery } from "@tanstack/react-query";
import { call, type Schemas, type State, v1 } from "./client";

export type QueueDocument = Schemas["QueueDocument"];
export type Worker = Schemas["WorkerDocument"];
export type BulkAction = Schemas["BulkBody"]["action"];
export type ErrorGroup = Schemas["ErrorGroup"];

export const dlqKey = (queue: string) => ["dlq", queue] as const;

export const pauseQueue = (queue: string) =>
  call<QueueDocument>("POST", v1`/queues/${queue}/pause`);
export const resumeQueue = (queue: string) =>
  call<QueueDocument>("POST", v1`/queues/${queue}/resume`);
export const purgeQueue = (queue: string) =>
  call<Schemas["ChangedCount"]>("POST", v1`/queues/${queue}/purge`, { noTimeout: true });

export const dropQueue = (queue: string) =>
  call<Schemas["ChangedCount"]>("DELETE", v1`/queues/${queue}`, { query: { force: "true" }, noTimeout: true });

/** A queue as it is now: never cached, for actions that cannot be undone. */
export function useFreshQueue(queue: string) {
  return useQuery({
    queryKey: ["queue", queue],
    queryFn: ({ signal }) => call<QueueDocument>("GET", v1`/queues/${queue}`, { signal }),
    staleTime: 0,
    gcTime: 0,
    refetchInterval: 2000,
  });
}

export interface BulkFilter {
  states: State[];
  ids?: string[];
  kinds?: string[];
  text?: string;
  /** Only failed jobs of this error group. */
  fingerprint?: string;
}

/**
 * A bulk action on all matching jobs; with `dryRun` they are only counted. Each request stops after
 * some seconds, and the next one continues from its cursor.
 */
export async function bulk(
  queue: string,
  action: BulkAction,
  filter: BulkFilter,
  options: { dryRun?: boolean; to?: string; rate?: number; asOf?: string } = {},
): Promise<Schemas["BulkResult"]> {
  const { dryRun = false, asOf, ...rest } = options;
  let count = 0;
  for (let cursor: string | undefined; ; ) {
    const body = { action, filter, dry_run: dryRun, as_of: asOf, cursor, ...rest };
    const done = await call<Schemas["BulkResult"]>("POST", v1`/queues/${queue}/bulk`, {
      noTimeout: true,
      body,
    });
    count += done.count;
    if (!done.cursor) return { ...done, count };
    cursor = done.cursor;
  }
}

export function useErrorGroups(queue: string, kind: string, text: string) {
  return useQuery({
    queryKey: [...dlqKey(queue), kind, text],
    queryFn: ({ signal }) =>
      call<Schemas["ErrorGroups"]>("GET", v1`/queues/${queue}/dlq/groups`, {
        query: { kind, text },
        signal,
      }),
  });
}

export function useWorkers() {
  return useQuery({
    queryKey: ["workers"],
    queryFn: ({ signal }) => call<Schemas["WorkerList"]>("GET", "/v1/workers", { signal }),
    // Heartbeats are not events, so the stream does not send them.
    refetchInterval: 2000,
  });
}
