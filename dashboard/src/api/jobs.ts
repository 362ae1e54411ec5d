import { type InfiniteData, useInfiniteQuery, useQuery, useQueryClient } from "@tanstack/react-query";
import { call, Problem, type Query, type Schemas, send, type State, v1 } from "./client";
import { syncClock } from "./clock";
import { fieldsOf } from "./raw-json";

export type Row = Schemas["JobSummary"];
export type Rows = Schemas["JobSummaryPage"];
export type Attempt = Schemas["Attempt"];
export type JobDocument = Schemas["JobDocument"];

/** A job with its payload, result and progress as JSON text, as written. */
export interface Job extends Omit<JobDocument, "payload" | "result" | "progress"> {
  payload: string;
  result: string;
  progress: string;
}

export interface JobQuery {
  queue: string;
  state: State;
  kind: string;
  text: string;
}

export const STATES: readonly State[] = [
  "queued",
  "scheduled",
  "processing",
  "failing",
  "failed",
  "completed",
  "cancelled",
];

/** Terminal jobs are listed newest first, all others in the order in which they will be claimed or are due. */
export const TERMINAL: readonly State[] = ["completed", "failed", "cancelled"];

export const PAGE = 200;

export const rowsKey = (query: JobQuery) =>
  ["rows", query.queue, query.state, query.kind, query.text] as const;
export const jobKey = (queue: string, id: string) => ["job", queue, id] as const;

const listJobs = (queue: string, query: Query, options: { signal?: AbortSignal } = {}): Promise<Rows> =>
  syncClock(() => call("GET", v1`/queues/${queue}/jobs`, { query: { ...query, summary: "true" }, ...options }));

function fetchRows(
  { queue, state, kind, text }: JobQuery,
  cursor: string | null,
  signal: AbortSignal,
): Promise<Rows> {
  const order = TERMINAL.includes(state) ? "newest" : "";
  return listJobs(queue, { state, kind, text, order, cursor, limit: PAGE }, { signal });
}

export function useRows(query: JobQuery) {
  return useInfiniteQuery({
    queryKey: rowsKey(query),
    queryFn: ({ pageParam, signal }) => fetchRows(query, pageParam, signal),
    initialPageParam: null as string | null,
    getNextPageParam: (last) => last.cursor,
    // Leases are extended without an event.
    refetchInterval: query.state === "processing" ? 2000 : false,
    placeholderData: (before) => before,
  });
}

/** The kinds of the jobs of a queue that are loaded, as suggestions for the filter. */
export function useKinds(queue: string): string[] {
  const client = useQueryClient();
  const lists = client.getQueriesData<InfiniteData<Rows>>({ queryKey: ["rows", queue] });
  const rows = lists.flatMap(([, data]) => data?.pages.flatMap((page) => page.summaries) ?? []);
  return [...new Set(rows.map((row) => row.kind))].sort();
}

/** The rows of these jobs, without those that the query does not match. */
export function fetchRowsById({ queue, state, kind, text }: JobQuery, ids: string[]): Promise<Rows> {
  return listJobs(queue, { state, kind, text, id: ids, limit: ids.length });
}

/** The rows of all pages; a job that moved between pages while they were loaded appears once. */
export function rowsOf(data: InfiniteData<Rows> | undefined): Row[] {
  const byId = new Map<string, Row>();
  for (const page of data?.pages ?? []) for (const row of page.summaries) byId.set(row.id, row);
  return [...byId.values()];
}

async function fetchJob(queue: string, id: string, signal: AbortSignal): Promise<Job> {
  const response = await send("GET", v1`/queues/${queue}/jobs/${id}`, { signal });
  return readJob(await response.text());
}

export function readJob(text: string): Job {
  const { payload = "null", result = "null", progress = "null" } = fieldsOf(text);
  return { ...(JSON.parse(text) as JobDocument), payload, result, progress };
}

export function useJob(queue: string, id: string) {
  return useQuery({
    queryKey: jobKey(queue, id),
    queryFn: ({ signal }) => fetchJob(queue, id, signal),
    refetchInterval: (query) => (query.state.data?.state === "processing" ? 2000 : false),
  });
}

export function useLeasedJobs(queue: string, worker: string) {
  return useQuery({
    queryKey: ["leased", queue, worker],
    queryFn: ({ signal }) => listJobs(queue, { worker }, { signal }),
    refetchInterval: 2000,
  });
}

// --- actions on one job ---

const path = (queue: string, id: string) => v1`/queues/${queue}/jobs/${id}`;

export const cancelJob = (queue: string, id: string) =>
  call<Schemas["JobStateDocument"]>("POST", `${path(queue, id)}/cancel`);

export const redriveJob = (queue: string, id: string, delay = 0) =>
  call<Schemas["JobStateDocument"]>("POST", `${path(queue, id)}/redrive`, { body: { delay } });

export const moveJob = (queue: string, id: string, to: string) =>
  call<JobDocument>("POST", `${path(queue, id)}/move`, { body: { to } });

export const deleteJob = (queue: string, id: string) => call<void>("DELETE", path(queue, id));

export interface Edit {
  /** JSON as typed. */
  payload?: string;
  priority?: number;
  delay?: number;
}

export function editJob(queue: string, id: string, { payload, ...rest }: Edit) {
  return call<JobDocument>("PATCH", path(queue, id), { raw: withPayload(rest, payload) });
}

/** A request body whose payload is sent as typed, so that no number is rounded. */
export function withPayload(rest: object, payload: string | undefined): string {
  const fields = JSON.stringify(rest).slice(1, -1);
  const payloadField = payload === undefined ? [] : [`"payload":${payload}`];
  return `{${[...payloadField, fields].filter(Boolean).join(",")}}`;
}

export type NewJob = Omit<Schemas["JobBody"], "payload">;

export const enqueueJob = (queue: string, job: Partial<NewJob>, payload: string) =>
  call<Schemas["EnqueuedDocument"]>("POST", v1`/queues/${queue}/jobs`, {
    raw: withPayload(job, payload),
  });

/** Whether a cancelled job can be restored: it never ran, and its payload is JSON. */
export const restorable = (job: Job): boolean =>
  job.codec === "json" && job.attempts === 0 && job.history.length === 0;

/** A job as a line of an import, its payload as written. */
export function importLine(job: Job): string {
  const { payload, result: _result, progress: _progress, ...rest } = job;
  return withPayload(rest, payload);
}

/** Enqueue a cancelled job again with its id and options. */
export async function restoreJob(queue: string, job: Job): Promise<void> {
  const result = await importJobs(queue, new Blob([importLine(job)]));
  if (result.problem) throw new Error(result.problem.detail);
  if (!result.enqueued) throw new Problem(409, "duplicate", `Job ${job.id} exists again already.`);
}

/** Enqueue a job for each line of a file; stops at the first invalid line. */
export const importJobs = (queue: string, file: Blob) =>
  call<Schemas["ImportResult"]>("POST", v1`/queues/${queue}/import`, {
    raw: file,
    type: "application/x-ndjson",
    noTimeout: true,
  });

/** The jobs that match, as JSON lines. */
export async function exportJobs({ queue, state, kind, text }: JobQuery): Promise<Blob> {
  const query = { state, kind, text };
  const response = await send("GET", v1`/queues/${queue}/export`, { query, noTimeout: true });
  return response.blob();
}

export async function countLines(file: Blob): Promise<number> {
  const bytes = new Uint8Array(await file.arrayBuffer());
  return bytes.reduce((lines, byte) => lines + Number(byte === 10), 0);
}
