import { type InfiniteData, useInfiniteQuery, useQuery, useQueryClient } from "@tanstack/react-query";
import { call, Problem, type Query, type Schemas, type State, send, v1 } from "./client";
import { timed } from "./clock";
import { fieldsOf } from "./raw";

export type Row = Schemas["JobSummary"];
export type Rows = Schemas["SummaryPage"];
export type Attempt = Schemas["Attempt"];
export type JobDocument = Schemas["JobDocument"];

/** A job with its payload and what came of it, each as it was written. */
export interface Job extends Omit<JobDocument, "payload" | "result" | "progress"> {
  payload: string;
  result: string;
  progress: string;
}

export interface Which {
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

/** Of what has ended, the newest comes first; what waits, in the order of its line. */
export const ENDED: readonly State[] = ["completed", "failed", "cancelled"];

export const PAGE = 200;

export const rowsKey = (which: Which) =>
  ["rows", which.queue, which.state, which.kind, which.text] as const;
export const jobKey = (queue: string, id: string) => ["job", queue, id] as const;

const listJobs = (queue: string, query: Query, at: { signal?: AbortSignal } = {}): Promise<Rows> =>
  timed(() => call("GET", v1`/queues/${queue}/jobs`, { query: { ...query, summary: "true" }, ...at }));

function fetchRows(which: Which, cursor: string | null, signal: AbortSignal): Promise<Rows> {
  const query = {
    state: which.state,
    kind: which.kind,
    text: which.text,
    order: ENDED.includes(which.state) ? "newest" : "",
    cursor,
    limit: PAGE,
  };
  return listJobs(which.queue, query, { signal });
}

export function useRows(which: Which) {
  return useInfiniteQuery({
    queryKey: rowsKey(which),
    queryFn: ({ pageParam, signal }) => fetchRows(which, pageParam, signal),
    initialPageParam: null as string | null,
    getNextPageParam: (last) => last.cursor,
    // Leases are extended without an event.
    refetchInterval: which.state === "processing" ? 2000 : false,
    placeholderData: (before) => before,
  });
}

/** The kinds of jobs that this page has seen of a queue: one of them is likely meant. */
export function useKinds(queue: string): string[] {
  const client = useQueryClient();
  const lists = client.getQueriesData<InfiniteData<Rows>>({ queryKey: ["rows", queue] });
  const rows = lists.flatMap(([, data]) => data?.pages.flatMap((page) => page.summaries) ?? []);
  return [...new Set(rows.map((row) => row.kind))].sort();
}

/** The rows of some jobs, as far as they belong to a list. */
export function fetchSome(which: Which, ids: string[]): Promise<Rows> {
  const query = { state: which.state, kind: which.kind, text: which.text, id: ids, limit: ids.length };
  return listJobs(which.queue, query);
}

/** The rows of all pages; one that moved from page to page in between is there once. */
export function rowsOf(data: InfiniteData<Rows> | undefined): Row[] {
  const seen = new Map<string, Row>();
  for (const page of data?.pages ?? []) for (const row of page.summaries) seen.set(row.id, row);
  return [...seen.values()];
}

async function fetchJob(queue: string, id: string, signal: AbortSignal): Promise<Job> {
  const answer = await send("GET", v1`/queues/${queue}/jobs/${id}`, { signal });
  return readJob(await answer.text());
}

export function readJob(text: string): Job {
  const written = fieldsOf(text);
  const { payload = "null", result = "null", progress = "null" } = written;
  return { ...(JSON.parse(text) as JobDocument), payload, result, progress };
}

export function useJob(queue: string, id: string) {
  return useQuery({
    queryKey: jobKey(queue, id),
    queryFn: ({ signal }) => fetchJob(queue, id, signal),
    refetchInterval: (query) => (query.state.data?.state === "processing" ? 2000 : false),
  });
}

export function useHeld(queue: string, worker: string) {
  return useQuery({
    queryKey: ["held", queue, worker],
    queryFn: ({ signal }) => listJobs(queue, { worker }, { signal }),
    refetchInterval: 2000,
  });
}

// --- acts on one job ---

const path = (queue: string, id: string) => v1`/queues/${queue}/jobs/${id}`;

export const cancelJob = (queue: string, id: string) =>
  call<Schemas["Stands"]>("POST", `${path(queue, id)}/cancel`);

export const redriveJob = (queue: string, id: string, delay = 0) =>
  call<Schemas["Stands"]>("POST", `${path(queue, id)}/redrive`, { body: { delay } });

export const moveJob = (queue: string, id: string, to: string) =>
  call<JobDocument>("POST", `${path(queue, id)}/move`, { body: { to } });

export const deleteJob = (queue: string, id: string) => call<void>("DELETE", path(queue, id));

export interface Edit {
  /** JSON, as it was typed. */
  payload?: string;
  priority?: number;
  delay?: number;
}

export function editJob(queue: string, id: string, { payload, ...rest }: Edit) {
  return call<JobDocument>("PATCH", path(queue, id), { raw: withPayload(rest, payload) });
}

/** A body with a payload that is sent as it was typed, so that no number of it is rounded. */
export function withPayload(rest: object, payload: string | undefined): string {
  const fields = JSON.stringify(rest).slice(1, -1);
  const said = payload === undefined ? [] : [`"payload":${payload}`];
  return `{${[...said, fields].filter(Boolean).join(",")}}`;
}

export type NewJob = Omit<Schemas["JobBody"], "payload">;

export const enqueueJob = (queue: string, job: Partial<NewJob>, payload: string) =>
  call<Schemas["EnqueuedDocument"]>("POST", v1`/queues/${queue}/jobs`, {
    raw: withPayload(job, payload),
  });

/** Whether a job can be put back as it was: one that has not begun, and whose payload is at hand. */
export const restorable = (job: Job): boolean =>
  job.codec === "json" && job.attempts === 0 && job.history.length === 0;

/** A job as an import takes it, its payload as it was written. */
export function lineOf(job: Job): string {
  const { payload, result: _result, progress: _progress, ...rest } = job;
  return withPayload(rest, payload);
}

/** Enqueue a cancelled job anew under its id, with everything that was said about it. */
export async function restoreJob(queue: string, job: Job): Promise<void> {
  const done = await importJobs(queue, new Blob([lineOf(job)]));
  if (done.problem) throw new Error(done.problem.detail);
  if (!done.enqueued) throw new Problem(409, "duplicate", `Job ${job.id} is there again already.`);
}

/** Enqueue a job for each line of a file, as it is; the first bad line ends it. */
export const importJobs = (queue: string, file: Blob) =>
  call<Schemas["Imported"]>("POST", v1`/queues/${queue}/import`, {
    raw: file,
    type: "application/x-ndjson",
    patient: true,
  });

/** The jobs that a view shows, a line each. */
export async function exportJobs(which: Which): Promise<Blob> {
  const query = { state: which.state, kind: which.kind, text: which.text };
  const answer = await send("GET", v1`/queues/${which.queue}/export`, { query, patient: true });
  return answer.blob();
}

/** How many lines a file has. */
export async function linesOf(file: Blob): Promise<number> {
  const bytes = new Uint8Array(await file.arrayBuffer());
  return bytes.reduce((lines, byte) => lines + Number(byte === 10), 0);
}
