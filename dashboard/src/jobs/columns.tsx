/** What each state's table shows of a job. */
import type { ReactNode } from "react";
import type { State } from "../api/client";
import type { Row } from "../api/jobs";
import { bytes } from "../format/spans";
import type { Word } from "../i18n/en";
import { Countdown, Relative } from "../parts/times";
import { Link, toJob } from "../routing";

export interface Column {
  name: Word;
  /** Its share of the width, as a track of a grid. */
  width: string;
  /** Left out where there is little room. */
  wide?: boolean;
  right?: boolean;
  cell: (row: Row, queue: string) => ReactNode;
}

const id: Column = {
  name: "column.id",
  width: "minmax(9rem, 1.2fr)",
  cell: (row, queue) => (
    <Link href={toJob(queue, row.id)} title={row.id} className="block truncate font-mono text-xs font-medium hover:underline">
      {row.id}
    </Link>
  ),
};
const kind: Column = {
  name: "column.kind",
  width: "minmax(5rem, 0.7fr)",
  wide: true,
  cell: (row) => <span className="block truncate">{row.kind}</span>,
};
const payload: Column = {
  name: "column.payload",
  width: "minmax(8rem, 2fr)",
  wide: true,
  cell: (row) => (
    <span className="block truncate font-mono text-xs text-muted" title={bytes(row.size)}>
      {row.preview}
    </span>
  ),
};
const priority: Column = {
  name: "column.priority",
  width: "4.5rem",
  wide: true,
  right: true,
  cell: (row) => <span className="tabular-nums">{row.priority}</span>,
};
const attempts: Column = {
  name: "column.attempts",
  width: "5rem",
  right: true,
  wide: true,
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
  wide: true,
  cell: (row) => <span className="block truncate text-muted" title={row.worker}>{row.worker}</span>,
};
const error: Column = {
  name: "column.error",
  width: "minmax(10rem, 2.4fr)",
  wide: true,
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
const started = { ...moment("column.started", (row) => row.started_at), wide: true };
const finished = moment("column.finished", (row) => row.finished_at);

export const COLUMNS: Record<State, readonly Column[]> = {
  queued: [id, kind, payload, priority, attempts, created],
  scheduled: [id, kind, payload, priority, due],
  processing: [id, kind, payload, worker, attempts, started, remaining],
  failing: [id, kind, error, attempts, due],
  failed: [id, kind, error, attempts, finished],
  completed: [id, kind, payload, worker, attempts, finished],
  cancelled: [id, kind, payload, attempts, finished],
};

/** The tracks of a grid for these columns: all of them, and those that a narrow page shows. */
export function tracks(columns: readonly Column[], first: string): { wide: string; narrow: string } {
  const join = (some: readonly Column[]) => [first, ...some.map((one) => one.width)].filter(Boolean).join(" ");
  return { wide: join(columns), narrow: join(columns.filter((one) => !one.wide)) };
}
