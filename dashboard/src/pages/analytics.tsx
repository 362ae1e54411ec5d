/** What the pipeline has made of the journal: the gold tables of the lake. */
import type { ReactNode } from "react";
import { type Analytics as Figures, type Hour, useAnalytics } from "../api/analytics";
import { COMMANDS } from "../format/commands";
import { count, span } from "../format/spans";
import type { Word } from "../i18n/en";
import { plural, useT } from "../i18n/i18n";
import { cx, Empty, Title, Trouble, Waiting } from "../parts/basics";
import { Chart } from "../parts/charts";
import { Id, JobLink } from "../parts/id";
import { QueueSelect } from "../parts/queue-select";
import { Moment, Relative } from "../parts/times";
import { Link, setQuery, toQueue, useAddress, useTitle } from "../routing";

export function Analytics() {
  const t = useT();
  useTitle(t("analytics.title"));
  const { query } = useAddress();
  const [queue, days] = [query.get("queue") ?? "", query.get("days") ?? "7"];
  const figures = useAnalytics(queue, days);
  return (
    <div className="min-h-0 flex-1 overflow-y-auto">
      <Title actions={<Choice queue={queue} days={days} />}>{t("analytics.title")}</Title>
      {figures.isPending && <Waiting />}
      {figures.error && <Trouble error={figures.error} retry={() => void figures.refetch()} />}
      {figures.data && !figures.data.made && <NotYet lake={figures.data.lake} />}
      {figures.data?.made && <Shown figures={figures.data} />}
    </div>
  );
}

/** How to come by figures: run the pipeline, and tell the service where its lake is. */
function NotYet({ lake }: { lake: boolean }) {
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

function Choice({ queue, days }: { queue: string; days: string }) {
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
  title: Word;
  lines: { name: Word; colour: string; read: (hour: Hour) => number | null | undefined }[];
  spans?: boolean;
  dots?: boolean;
}

const PLOTS: readonly Plot[] = [
  {
    title: "analytics.throughput",
    lines: [
      { name: "overview.entered", colour: "--queued", read: (hour) => hour.enqueued },
      { name: "overview.completed", colour: "--completed", read: (hour) => hour.completed },
      { name: "state.failed.short", colour: "--failed", read: (hour) => hour.failed },
    ],
  },
  {
    title: "analytics.wait",
    spans: true,
    lines: [
      { name: "analytics.p50", colour: "--queued", read: (hour) => hour.wait_p50 },
      { name: "analytics.p99", colour: "--scheduled", read: (hour) => hour.wait_p99 },
    ],
  },
  {
    title: "analytics.run",
    spans: true,
    lines: [
      { name: "analytics.p50", colour: "--queued", read: (hour) => hour.run_p50 },
      { name: "analytics.p99", colour: "--scheduled", read: (hour) => hour.run_p99 },
    ],
  },
  {
    title: "analytics.recovery",
    spans: true,
    dots: true,
    lines: [
      { name: "analytics.p50", colour: "--failing", read: (hour) => hour.recovery_p50 },
      { name: "analytics.longest", colour: "--failed", read: (hour) => hour.recovery_max },
    ],
  },
];

function Shown({ figures }: { figures: Figures }) {
  const t = useT();
  return (
    <div className="flex flex-col gap-4 px-4 pb-10 md:px-6">
      {figures.as_of != null && (
        <p className="-mt-2 text-xs text-muted">
          {t("analytics.asOf")} <Moment at={figures.as_of} /> (<Relative at={figures.as_of} />)
        </p>
      )}
      <div className="grid gap-4 xl:grid-cols-2">
        {PLOTS.map((plot) => (
          <PlotPanel key={plot.title} plot={plot} hours={figures.hours ?? []} />
        ))}
      </div>
      <Objectives rows={figures.objectives ?? []} />
      <Errors rows={figures.errors ?? []} />
      <WorkerFigures rows={figures.workers ?? []} />
      <p className="text-xs text-muted">{t("analytics.quantiles")}</p>
    </div>
  );
}

function PlotPanel({ plot, hours }: { plot: Plot; hours: Hour[] }) {
  const t = useT();
  const lines = plot.lines.map((line) => ({
    label: t(line.name),
    colour: line.colour,
    values: hours.map((hour) => line.read(hour) ?? null),
    dots: plot.dots ?? false,
  }));
  return (
    <Chart
      title={t(plot.title)}
      times={hours.map((hour) => hour.at)}
      lines={lines}
      format={plot.spans ? span : count}
      few={t("analytics.few")}
    />
  );
}

interface TableProps {
  title: string;
  heads: string[];
  /** The tracks of the grid, and how many columns a narrow page shows. */
  tracks: string;
  rows: { key: string; cells: ReactNode[] }[];
  /** Which columns are words beside the first one: they begin on the left, numbers end on the right. */
  words?: readonly number[];
}

/** A small table. */
function Table({ title, heads, tracks, rows, words = [] }: TableProps) {
  if (rows.length === 0) return null;
  const number = (at: number) => at > 0 && !words.includes(at);
  const grid = cx("grid items-center gap-x-3 px-4", tracks);
  return (
    <section>
      <h2 className="mb-2 font-semibold">{title}</h2>
      <div role="table" aria-label={title} className="panel overflow-x-auto" tabIndex={0}>
        <div role="row" className={cx(grid, "head h-9 min-w-[45rem] border-b border-line")}>
          {heads.map((head, at) => (
            <span key={head} role="columnheader" className={number(at) ? "text-right" : ""}>
              {head}
            </span>
          ))}
        </div>
        {rows.map(({ key, cells }) => (
          <div key={key} role="row" className={cx(grid, "min-h-10 min-w-[45rem] border-b border-line py-1 last:border-0")}>
            {cells.map((cell, at) => (
              <span key={heads[at]} role="cell" className={cx("min-w-0", number(at) && "text-right tabular-nums")}>
                {cell}
              </span>
            ))}
          </div>
        ))}
      </div>
    </section>
  );
}

export const share = (part: number | null): string =>
  part === null ? "—" : `${(Math.floor(part * 10_000) / 100).toFixed(2)} %`;

function Objectives({ rows }: { rows: NonNullable<Figures["objectives"]> }) {
  const t = useT();
  return (
    <Table
      title={t("analytics.slo")}
      heads={[t("column.queue"), t("analytics.objective"), t("analytics.target"), t("analytics.deliveries"), t("analytics.attained")]}
      tracks="grid-cols-[minmax(8rem,1fr)_repeat(4,7rem)]"
      rows={rows.map((row) => ({
        key: row.queue,
        cells: [
          <Link key="queue" href={toQueue(row.queue)} className="hover:underline">
            {row.queue}
          </Link>,
          span(row.objective),
          share(row.target),
          count(row.deliveries),
          <span key="attained" className={cx("font-medium", (row.attained ?? 1) < row.target ? "text-danger" : "text-good")}>
            {share(row.attained)}
          </span>,
        ],
      }))}
    />
  );
}

function Errors({ rows }: { rows: NonNullable<Figures["errors"]> }) {
  const t = useT();
  return (
    <Table
      title={t("analytics.errors")}
      heads={[t("column.error"), t("column.queue"), t("queue.jobs"), t("dlq.first"), t("dlq.last"), t("dlq.sample")]}
      words={[1, 5]}
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
          <Relative key="first" at={row.first_at} />,
          <Relative key="last" at={row.last_at} />,
          row.example && <JobLink key="example" queue={row.queue} id={row.example} className="text-accent" />,
        ],
      }))}
    />
  );
}

function WorkerFigures({ rows }: { rows: NonNullable<Figures["workers"]> }) {
  const t = useT();
  return (
    <Table
      title={t("workers.title")}
      heads={[t("column.worker"), t("column.queue"), t("analytics.deliveries"), t("overview.failed"), t("analytics.stalled"), t("analytics.reliability")]}
      words={[1]}
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
          share(row.reliability),
        ],
      }))}
    />
  );
}
