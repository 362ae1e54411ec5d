/** What each state's table shows of a job. */
import type { ReactNode } from "react";
import type { State } from "../api/client";
import type { Row } from "../api/jobs";
import { bytes } from "../format/spans";
import type { Word } from "../i18n/en";
import { JobLink } from "../parts/id";
import { Countdown, Relative } from "../parts/times";

export interface Column {
  name: Word;
  /** Its share of the width, as a track of a grid. */
  width: string;
  /** Left out of a page that is narrower than this; by default it is always there. */
  from?: "md" | "xl";
  right?: boolean;
  cell: (row: Row, queue: string) => ReactNode;
}

const id: Column = {
  name: "column.id",
  width: "minmax(9rem, 1.2fr)",
  cell: (row, queue) => <JobLink queue={queue} id={row.id} className="font-medium" />,
};
const kind: Column = {
  name: "column.kind",
  width: "minmax(5rem, 0.7fr)",
  from: "md",
  cell: (row) => <span className="block truncate">{row.kind}</span>,
};
const payload: Column = {
  name: "column.payload",
  width: "minmax(8rem, 2fr)",
  from: "md",
  cell: (row) => (
    <span className="block truncate font-mono text-xs text-muted" title={bytes(row.size)}>
      {row.preview}
    </span>
  ),
};
const priority: Column = {
  name: "column.priority",
  width: "4.5rem",
  from: "md",
  right: true,
  cell: (row) => <span className="tabular-nums">{row.priority}</span>,
};
const attempts: Column = {
  name: "column.attempts",
  width: "5rem",
  right: true,
  from: "md",
  cell: (row) => (
    <span className="tabular-nums">
      {row.attempts}
      <span className="text-faint"> / {row.max_attempts}</span>
    </span>
  ),
};
const worker: Column = {
  name: "column.worker",
  width: "minmax(8rem, 1fr)",
  from: "md",
  cell: (row) => <span className="block truncate text-muted" title={row.worker}>{row.worker}</span>,
};
const error: Column = {
  name: "column.error",
  width: "minmax(10rem, 2.4fr)",
  from: "md",
  cell: (row) => (
    <span className="block truncate" title={row.error ?? ""}>
      {row.error}
    </span>
  ),
};
const remaining: Column = {
  name: "column.remaining",
  width: "6rem",
  right: true,
  cell: (row) => <Countdown deadline={row.deadline} />,
};

const moment = (name: Word, read: (row: Row) => number | null): Column => ({
  name,
  width: "7rem",
  right: true,
  cell: (row) => (
    <span className="text-muted">
      <Relative at={read(row)} />
    </span>
  ),
});
const created = moment("column.created", (row) => row.created_at);
const due = moment("column.due", (row) => row.run_at);
const started: Column = { ...moment("column.started", (row) => row.started_at), from: "md" };
const finished = moment("column.finished", (row) => row.finished_at);

export const COLUMNS: Record<State, readonly Column[]> = {
  queued: [id, kind, payload, priority, attempts, created],
  scheduled: [id, kind, payload, priority, due],
  processing: [id, kind, { ...payload, from: "xl" }, worker, attempts, started, remaining],
  failing: [id, kind, error, attempts, due],
  failed: [id, kind, error, attempts, finished],
  completed: [id, kind, { ...payload, from: "xl" }, worker, attempts, finished],
  cancelled: [id, kind, payload, attempts, finished],
};

/** Hides what the page is too narrow for. */
export const shownFrom = ({ from }: Column): string => (from === "md" ? "max-md:hidden" : from === "xl" ? "max-xl:hidden" : "");

/** The tracks of a grid for these columns: all of them, and those that narrower pages show. */
export function tracks(columns: readonly Column[], first: string): Record<"wide" | "medium" | "narrow", string> {
  const join = (some: readonly Column[]) => [first, ...some.map((one) => one.width)].filter(Boolean).join(" ");
  return {
    wide: join(columns),
    medium: join(columns.filter((one) => one.from !== "xl")),
    narrow: join(columns.filter((one) => !one.from)),
  };
}
