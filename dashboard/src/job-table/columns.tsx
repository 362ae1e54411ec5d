/** The columns of the job table of each state. */
import type { ReactNode } from "react";
import type { State } from "../api/client";
import type { Row } from "../api/jobs";
import { JobLink } from "../components/id";
import { Countdown, RelativeTime } from "../components/time";
import { bytes } from "../format/numbers";
import type { MessageKey } from "../i18n/en";

export interface Column {
  name: MessageKey;
  /** A track of the CSS grid. */
  width: string;
  /** Hidden on pages narrower than this; by default it is always visible. */
  minWidth?: "md" | "xl";
  alignRight?: boolean;
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
  minWidth: "md",
  cell: (row) => <span className="block truncate">{row.kind}</span>,
};
const payload: Column = {
  name: "column.payload",
  width: "minmax(8rem, 2fr)",
  minWidth: "md",
  cell: (row) => (
    <span className="block truncate font-mono text-xs text-muted" title={bytes(row.size)}>
      {row.preview}
    </span>
  ),
};
const priority: Column = {
  name: "column.priority",
  width: "4.5rem",
  minWidth: "md",
  alignRight: true,
  cell: (row) => <span className="tabular-nums">{row.priority}</span>,
};
const attempts: Column = {
  name: "column.attempts",
  width: "5rem",
  alignRight: true,
  minWidth: "md",
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
  minWidth: "md",
  cell: (row) => <span className="block truncate text-muted" title={row.worker}>{row.worker}</span>,
};
const error: Column = {
  name: "column.error",
  width: "minmax(10rem, 2.4fr)",
  minWidth: "md",
  cell: (row) => (
    <span className="block truncate" title={row.error ?? ""}>
      {row.error}
    </span>
  ),
};
const remaining: Column = {
  name: "column.remaining",
  width: "6rem",
  alignRight: true,
  cell: (row) => <Countdown deadline={row.deadline} />,
};

const timeColumn = (name: MessageKey, read: (row: Row) => number | null): Column => ({
  name,
  width: "7rem",
  alignRight: true,
  cell: (row) => (
    <span className="text-muted">
      <RelativeTime at={read(row)} />
    </span>
  ),
});
const created = timeColumn("column.created", (row) => row.created_at);
const due = timeColumn("column.due", (row) => row.run_at);
const started: Column = { ...timeColumn("column.started", (row) => row.started_at), minWidth: "md" };
const finished = timeColumn("column.finished", (row) => row.finished_at);

export const COLUMNS: Record<State, readonly Column[]> = {
  queued: [id, kind, payload, priority, attempts, created],
  scheduled: [id, kind, payload, priority, due],
  processing: [id, kind, { ...payload, minWidth: "xl" }, worker, attempts, started, remaining],
  failing: [id, kind, error, attempts, due],
  failed: [id, kind, error, attempts, finished],
  completed: [id, kind, { ...payload, minWidth: "xl" }, worker, attempts, finished],
  cancelled: [id, kind, payload, attempts, finished],
};

/** The class that hides a column on narrow pages. */
export const columnVisibility = ({ minWidth }: Column): string => (minWidth === "md" ? "max-md:hidden" : minWidth === "xl" ? "max-xl:hidden" : "");

/** The grid tracks of these columns, for wide, medium and narrow pages. */
export function tracks(columns: readonly Column[], first: string): Record<"wide" | "medium" | "narrow", string> {
  const join = (some: readonly Column[]) => [first, ...some.map((one) => one.width)].filter(Boolean).join(" ");
  return {
    wide: join(columns),
    medium: join(columns.filter((one) => one.minWidth !== "xl")),
    narrow: join(columns.filter((one) => !one.minWidth)),
  };
}
