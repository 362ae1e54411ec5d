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
}

/** Sends a request until all is done: the service stops after some seconds and tells how to go on. */
async function toTheEnd<Done extends { count: number; cursor: string | null }>(
  send: (more: { cursor?: string }) => Promise<Done>,
): Promise<Done> {
  let done = await send({});
  let count = done.count;
  while (done.cursor) {
    done = await send({ cursor: done.cursor });
    count += done.count;
  }
  return { ...done, count };
}

/** One act on all that match; with `dryRun` they are only counted. */
export const bulk = (
  queue: string,
  action: BulkAction,
  filter: Chosen,
  options: { dryRun?: boolean; to?: string; asOf?: string } = {},
) =>
  toTheEnd((more) =>
    call<Schemas["BulkDone"]>("POST", v1`/queues/${queue}/bulk`, {
      patient: true,
      body: {
        action,
        filter,
        dry_run: options.dryRun ?? false,
        ...(options.to === undefined ? {} : { to: options.to }),
        ...(options.asOf === undefined ? {} : { as_of: options.asOf }),
        ...more,
      },
    }),
  );

export interface Letters {
  fingerprint?: string;
  kinds?: string[];
  text?: string;
  rate?: number;
}

/** Redrive or delete dead letters: of a group, or all that match. */
export const remedy = (
  queue: string,
  action: "redrive" | "delete",
  letters: Letters,
  options: { dryRun?: boolean; asOf?: string } = {},
) =>
  toTheEnd((more) =>
    call<Schemas["RemedyDone"]>("POST", v1`/queues/${queue}/dlq`, {
      patient: true,
      body: {
        action,
        dry_run: options.dryRun ?? false,
        ...(options.asOf === undefined ? {} : { as_of: options.asOf }),
        ...letters,
        ...more,
      },
    }),
  );

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
