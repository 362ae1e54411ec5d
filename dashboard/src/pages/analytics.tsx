/** What the pipeline computed from the journal: the gold tables of the lake. */
import type { ReactNode } from "react";
import { type Analytics as AnalyticsData, type Hour, useAnalytics } from "../api/analytics";
import { cx, Empty, ErrorPanel, Loading, Title } from "../components/basics";
import { Chart } from "../components/charts";
import { Id, JobLink } from "../components/id";
import { QueueSelect } from "../components/queue-select";
import { RelativeTime, Timestamp } from "../components/time";
import { COMMANDS } from "../format/commands";
import { count, duration } from "../format/numbers";
import type { MessageKey } from "../i18n/en";
import { plural, useT } from "../i18n/i18n";
import { Link, setQuery, toQueue, useAddress, useTitle } from "../routing";

export function Analytics() {
  const t = useT();
  useTitle(t("analytics.title"));
  const { query } = useAddress();
  const [queue, days] = [query.get("queue") ?? "", query.get("days") ?? "7"];
  const analytics = useAnalytics(queue, days);
  return (
    <div className="min-h-0 flex-1 overflow-y-auto">
      <Title actions={<Filters queue={queue} days={days} />}>{t("analytics.title")}</Title>
      {analytics.isPending && <Loading />}
      {analytics.error && <ErrorPanel error={analytics.error} retry={() => void analytics.refetch()} />}
      {analytics.data && !analytics.data.available && <NoData lake={analytics.data.lake} />}
      {analytics.data?.available && <Report analytics={analytics.data} />}
    </div>
  );
}

/** How to get data: run the pipeline, and tell the service where its lake is. */
function NoData({ lake }: { lake: boolean }) {
  const t = useT();
  return (
    <Empty
      title={t("analytics.empty.title")}
      command={lake ? COMMANDS.pipeline : `${COMMANDS.pipeline}\n${COMMANDS.serve}`}
    >
      {t("analytics.empty.text")}
    </Empty>
  );
}

function Filters({ queue, days }: { queue: string; days: string }) {
  const t = useT();
  return (
    <div className="flex gap-2">
      <QueueSelect value={queue} />
      <select
        aria-label={t("analytics.days")}
        className="field w-28"
        value={days}
        onChange={(event) => setQuery({ days: event.target.value })}
      >
        {["1", "7", "30", "90"].map((one) => (
          <option key={one} value={one}>
            {plural(t, "analytics.lastDays", Number(one))}
          </option>
        ))}
      </select>
    </div>
  );
}

interface Plot {
  title: MessageKey;
  lines: { name: MessageKey; color: string; read: (hour: Hour) => number | null | undefined }[];
  durations?: boolean;
  dots?: boolean;
}

const PLOTS: readonly Plot[] = [
  {
    title: "analytics.throughput",
    lines: [
      { name: "overview.enqueued", color: "--queued", read: (hour) => hour.enqueued },
      { name: "overview.completed", color: "--completed", read: (hour) => hour.completed },
      { name: "state.failed.short", color: "--failed", read: (hour) => hour.failed },
    ],
  },
  {
    title: "analytics.wait",
    durations: true,
    lines: [
      { name: "analytics.p50", color: "--queued", read: (hour) => hour.wait_p50 },
      { name: "analytics.p99", color: "--scheduled", read: (hour) => hour.wait_p99 },
    ],
  },
  {
    title: "analytics.run",
    durations: true,
    lines: [
      { name: "analytics.p50", color: "--queued", read: (hour) => hour.run_p50 },
      { name: "analytics.p99", color: "--scheduled", read: (hour) => hour.run_p99 },
    ],
  },
  {
    title: "analytics.recovery",
    durations: true,
    dots: true,
    lines: [
      { name: "analytics.p50", color: "--failing", read: (hour) => hour.recovery_p50 },
      { name: "analytics.max", color: "--failed", read: (hour) => hour.recovery_max },
    ],
  },
];

function Report({ analytics }: { analytics: AnalyticsData }) {
  const t = useT();
  return (
    <div className="flex flex-col gap-4 px-4 pb-10 md:px-6">
      {analytics.as_of != null && (
        <p className="-mt-2 text-xs text-muted">
          {t("analytics.asOf")} <Timestamp at={analytics.as_of} /> (<RelativeTime at={analytics.as_of} />)
        </p>
      )}
      <div className="grid gap-4 xl:grid-cols-2">
        {PLOTS.map((plot) => (
          <PlotPanel key={plot.title} plot={plot} hours={analytics.hours ?? []} />
        ))}
      </div>
      <Objectives rows={analytics.objectives ?? []} />
      <Errors rows={analytics.errors ?? []} />
      <WorkerStats rows={analytics.workers ?? []} />
      <p className="text-xs text-muted">{t("analytics.quantiles")}</p>
    </div>
  );
}

function PlotPanel({ plot, hours }: { plot: Plot; hours: Hour[] }) {
  const t = useT();
  const lines = plot.lines.map((line) => ({
    label: t(line.name),
    color: line.color,
    values: hours.map((hour) => line.read(hour) ?? null),
    dots: plot.dots ?? false,
  }));
  return (
    <Chart
      title={t(plot.title)}
      times={hours.map((hour) => hour.at)}
      lines={lines}
      format={plot.durations ? duration : count}
      sparseNote={t("analytics.few")}
    />
  );
}

interface TableProps {
  title: string;
  headings: string[];
  /** The columns of the grid. */
  tracks: string;
  rows: { key: string; cells: ReactNode[] }[];
  /** Columns of text besides the first; all others are numbers and aligned right. */
  textColumns?: readonly number[];
}

/** A small table. */
function Table({ title, headings, tracks, rows, textColumns = [] }: TableProps) {
  if (rows.length === 0) return null;
  const number = (at: number) => at > 0 && !textColumns.includes(at);
  const grid = cx("grid items-center gap-x-3 px-4", tracks);
  return (
    <section>
      <h2 className="mb-2 font-semibold">{title}</h2>
      <div role="table" aria-label={title} className="panel overflow-x-auto" tabIndex={0}>
        <div role="row" className={cx(grid, "head h-9 min-w-[45rem] border-b border-line")}>
          {headings.map((heading, at) => (
            <span key={heading} role="columnheader" className={number(at) ? "text-right" : ""}>
              {heading}
            </span>
          ))}
        </div>
        {rows.map(({ key, cells }) => (
          <div key={key} role="row" className={cx(grid, "min-h-10 min-w-[45rem] border-b border-line py-1 last:border-0")}>
            {cells.map((cell, at) => (
              <span key={headings[at]} role="cell" className={cx("min-w-0", number(at) && "text-right tabular-nums")}>
                {cell}
              </span>
            ))}
          </div>
        ))}
      </div>
    </section>
  );
}

export const percent = (part: number | null): string =>
  part === null ? "—" : `${(Math.floor(part * 10_000) / 100).toFixed(2)} %`;

function Objectives({ rows }: { rows: NonNullable<AnalyticsData["objectives"]> }) {
  const t = useT();
  return (
    <Table
      title={t("analytics.slo")}
      headings={[t("column.queue"), t("analytics.objective"), t("analytics.target"), t("analytics.deliveries"), t("analytics.attained")]}
      tracks="grid-cols-[minmax(8rem,1fr)_repeat(4,7rem)]"
      rows={rows.map((row) => ({
        key: row.queue,
        cells: [
          <Link key="queue" href={toQueue(row.queue)} className="hover:underline">
            {row.queue}
          </Link>,
          duration(row.objective),
          percent(row.target),
          count(row.deliveries),
          <span key="attained" className={cx("font-medium", (row.attained ?? 1) < row.target ? "text-danger" : "text-good")}>
            {percent(row.attained)}
          </span>,
        ],
      }))}
    />
  );
}

function Errors({ rows }: { rows: NonNullable<AnalyticsData["errors"]> }) {
  const t = useT();
  return (
    <Table
      title={t("analytics.errors")}
      headings={[t("column.error"), t("column.queue"), t("queue.jobs"), t("dlq.first"), t("dlq.last"), t("dlq.sample")]}
      textColumns={[1, 5]}
      tracks="grid-cols-[minmax(9.5rem,1fr)_6rem_3.5rem_6.5rem_6.5rem_7rem]"
      rows={rows.map((row) => ({
        key: `${row.queue} ${row.kind} ${row.fingerprint}`,
        cells: [
          <span key="error" className="block">
            <span className="block truncate font-medium">{row.exception}</span>
            <span className="block truncate text-muted">{row.message}</span>
          </span>,
          <span key="queue" className="block truncate" title={row.queue}>{row.queue}</span>,
          count(row.jobs),
          <RelativeTime key="first" at={row.first_at} />,
          <RelativeTime key="last" at={row.last_at} />,
          row.example && <JobLink key="example" queue={row.queue} id={row.example} className="text-accent" />,
        ],
      }))}
    />
  );
}

function WorkerStats({ rows }: { rows: NonNullable<AnalyticsData["workers"]> }) {
  const t = useT();
  return (
    <Table
      title={t("workers.title")}
      headings={[t("column.worker"), t("column.queue"), t("analytics.deliveries"), t("overview.failed"), t("analytics.expired"), t("analytics.reliability")]}
      textColumns={[1]}
      tracks="grid-cols-[minmax(9rem,1.4fr)_minmax(7rem,1fr)_6rem_6.5rem_5rem_5.5rem]"
      rows={rows.map((row) => ({
        key: row.worker,
        cells: [
          <Id key="worker" className="text-xs">{row.worker}</Id>,
          <span key="queues" className="block truncate" title={row.queue}>
            {row.queue}
          </span>,
          count(row.deliveries),
          count(row.errors),
          count(row.stalled),
          percent(row.reliability),
        ],
      }))}
    />
  );
}
