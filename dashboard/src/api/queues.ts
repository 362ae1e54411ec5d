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
  call<Schemas["Changed"]>("POST", v1`/queues/${queue}/purge`, { patient: true });

export const dropQueue = (queue: string) =>
  call<Schemas["Changed"]>("DELETE", v1`/queues/${queue}`, { query: { force: "true" }, patient: true });

/** A queue as it stands at this moment: asked anew each time, for what is about to be done to it. */
export function useQueueNow(queue: string) {
  return useQuery({
    queryKey: ["queue", queue],
    queryFn: ({ signal }) => call<QueueDocument>("GET", v1`/queues/${queue}`, { signal }),
    staleTime: 0,
    gcTime: 0,
    refetchInterval: 2000,
  });
}

export interface Chosen {
  states: State[];
  ids?: string[];
  kinds?: string[];
  text?: string;
  /** Of dead letters, only those of this group of errors. */
  fingerprint?: string;
}

/**
 * One act on all that match; with `dryRun` they are only counted. Each request stops after some
 * seconds, and the next one goes on where it stopped.
 */
export async function bulk(
  queue: string,
  action: BulkAction,
  filter: Chosen,
  options: { dryRun?: boolean; to?: string; rate?: number; asOf?: string } = {},
): Promise<Schemas["BulkDone"]> {
  const { dryRun = false, asOf, ...rest } = options;
  let count = 0;
  for (let cursor: string | undefined; ; ) {
    const body = { action, filter, dry_run: dryRun, as_of: asOf, cursor, ...rest };
    const done = await call<Schemas["BulkDone"]>("POST", v1`/queues/${queue}/bulk`, {
      patient: true,
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
    queryFn: ({ signal }) => call<Schemas["Workers"]>("GET", "/v1/workers", { signal }),
    // A heartbeat is not an event, so the stream does not tell of it.
    refetchInterval: 2000,
  });
}
