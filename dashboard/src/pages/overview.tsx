import { EnqueueDialog } from "../actions/enqueue-dialog";
import type { State } from "../api/client";
import { type Overview, type QueueOverview, useOverview } from "../api/overview";
import { useScope } from "../api/session";
import { Badge, Button, cx, Dot, Empty, ErrorPanel, Loading, Title } from "../components/basics";
import { Chart, Sparkline, StateBar } from "../components/charts";
import { useDialog } from "../components/dialog-provider";
import { Icon } from "../components/icons";
import { COMMANDS } from "../format/commands";
import { coarseDuration, count, duration, rate } from "../format/numbers";
import { useT } from "../i18n/i18n";
import { Link, type Tab, toQueue, useTitle } from "../routing";

export function OverviewPage() {
  const t = useT();
  useTitle(t("overview.title"));
  const overview = useOverview();
  if (overview.isPending) return <Loading />;
  if (!overview.data) return <ErrorPanel error={overview.error} retry={() => void overview.refetch()} />;
  const { queues } = overview.data;
  return (
    <div className="min-h-0 flex-1 overflow-y-auto">
      <Title actions={<EnqueueButton />}>{t("overview.title")}</Title>
      <div className="flex flex-col gap-4 px-4 pb-10 md:px-6">
        <HealthIssues overview={overview.data} />
        {queues.length === 0 ? (
          <Empty title={t("overview.empty.title")} command={COMMANDS.enqueue}>
            {t("overview.empty.text")}
          </Empty>
        ) : (
          <>
            <Totals queues={queues} workers={overview.data.workers} />
            <Throughput overview={overview.data} />
            <QueueTable queues={queues} bucket={overview.data.bucket} />
          </>
        )}
        <StoreInfo overview={overview.data} />
      </div>
    </div>
  );
}

function EnqueueButton() {
  const t = useT();
  const open = useDialog();
  if (!useScope("produce")) return null;
  return (
    <Button variant="primary" onClick={() => open((close) => <EnqueueDialog onClose={close} />)}>
      <Icon name="plus" />
      {t("action.enqueue")}
    </Button>
  );
}

function HealthIssues({ overview }: { overview: Overview }) {
  const t = useT();
  const critical = overview.store.issues.filter((issue) => issue.critical);
  if (critical.length === 0) return null;
  return (
    <div role="alert" className="rounded-lg border border-line bg-danger-soft px-4 py-3">
      <p className="font-medium text-danger">{t("overview.healthIssues")}</p>
      {critical.map((issue) => (
        <p key={issue.code} className="mt-1">
          {issue.message}. {issue.advice}
        </p>
      ))}
    </div>
  );
}

export function sum(queues: readonly QueueOverview[], state: State): number {
  return queues.reduce((total, one) => total + (one.counts[state] ?? 0), 0);
}

const LISTED_STATES: readonly State[] = ["queued", "scheduled", "processing", "failing", "failed"];

function Totals({ queues, workers }: { queues: QueueOverview[]; workers: number }) {
  const t = useT();
  const sumOf = (read: (one: QueueOverview) => number) =>
    queues.reduce((total, one) => total + read(one), 0);
  return (
    <dl className="panel grid grid-cols-2 overflow-hidden sm:grid-cols-4 xl:grid-cols-8">
      {LISTED_STATES.map((state) => (
        <Stat
          key={state}
          state={state}
          label={t(state === "failed" ? "state.failed.short" : `state.${state}`)}
          value={count(sum(queues, state))}
          alert={state === "failed" && sum(queues, state) > 0}
        />
      ))}
      <Stat label={t("column.rateIn")} value={rate(sumOf((one) => one.rate_in))} />
      <Stat label={t("column.rateOut")} value={rate(sumOf((one) => one.rate_out))} />
      <Stat label={t("overview.workers")} value={count(workers)} />
    </dl>
  );
}

interface StatProps {
  label: string;
  value: string;
  state?: State;
  alert?: boolean;
}

function Stat({ label, value, state, alert }: StatProps) {
  return (
    <div className="-mt-px -ml-px border-t border-l border-line px-4 py-3 max-sm:flex max-sm:items-baseline max-sm:justify-between max-sm:gap-2 max-sm:py-2">
      <dt className="head flex items-center gap-1.5 whitespace-nowrap">
        {state && <Dot state={state} />}
        {label}
      </dt>
      <dd
        className={cx(
          "font-semibold tracking-tight tabular-nums max-sm:text-base sm:mt-1 sm:text-xl",
          alert && "text-danger",
        )}
      >
        {value}
      </dd>
    </div>
  );
}

/** Sums over all queues, bucket by bucket, without the current bucket. */
export function total(queues: readonly QueueOverview[], series: keyof QueueOverview["throughput"]): number[] {
  const length = Math.max(0, (queues[0]?.throughput[series].length ?? 0) - 1);
  return Array.from({ length }, (_, at) =>
    queues.reduce((all, one) => all + (one.throughput[series][at] ?? 0), 0),
  );
}

/** At least one minute is shown. */
const MIN_BUCKETS = 6;

/** How many of the latest buckets to show: all since the first job, so that a new store has no empty chart. */
export function activeBuckets(queues: readonly QueueOverview[]): number {
  const enqueued = total(queues, "enqueued");
  const first = enqueued.findIndex((n) => n > 0);
  return Math.min(enqueued.length, Math.max(MIN_BUCKETS, first < 0 ? 0 : enqueued.length - first + 1));
}

function Throughput({ overview }: { overview: Overview }) {
  const t = useT();
  const { queues, bucket, now } = overview;
  const buckets = activeBuckets(queues);
  const line = (series: keyof QueueOverview["throughput"]) => total(queues, series).slice(-buckets);
  const lines = [
    { label: t("overview.enqueued"), color: "--queued", values: line("enqueued"), area: true, stepped: true },
    { label: t("overview.completed"), color: "--completed", values: line("completed"), stepped: true },
    { label: t("overview.failed"), color: "--failed", values: line("failed"), stepped: true },
  ];
  const end = Math.floor(now / bucket) * bucket;
  const length = lines[0]!.values.length;
  const times = Array.from({ length }, (_, at) => end - (length - 1 - at) * bucket);
  return (
    <Chart
      title={t("overview.throughput", { duration: duration(bucket) })}
      label={t("overview.alt", { n: Math.round((buckets * bucket) / 60) })}
      times={times}
      lines={lines}
    />
  );
}

const ROW =
  "grid items-center gap-x-3 px-4 grid-cols-[minmax(0,1fr)_3.5rem_3.5rem] md:grid-cols-[minmax(8rem,1.4fr)_repeat(4,minmax(4.5rem,0.6fr))_3rem_3rem_4.5rem] xl:grid-cols-[minmax(9rem,1.4fr)_repeat(5,minmax(4.5rem,0.6fr))_4rem_4rem_5rem_8rem]";

function QueueTable({ queues, bucket }: { queues: QueueOverview[]; bucket: number }) {
  const t = useT();
  const buckets = activeBuckets(queues);
  const headings = [t("column.rateIn"), t("column.rateOut"), t("column.oldest")];
  return (
    <div role="table" aria-label={t("nav.queues")} className="panel overflow-hidden">
      <div role="rowgroup">
        <div role="row" className={cx(ROW, "head h-9 border-b border-line")}>
          <span role="columnheader">{t("column.queue")}</span>
          {LISTED_STATES.map((state) => (
            <span
              key={state}
              role="columnheader"
              className={cx("truncate text-right", columnVisibility(state))}
            >
              {t(state === "failed" ? "state.failed.short" : `state.${state}`)}
            </span>
          ))}
          {headings.map((heading) => (
            <span key={heading} role="columnheader" className="truncate text-right max-md:hidden">
              {heading}
            </span>
          ))}
          <span role="columnheader" className="max-xl:hidden">
            {t("column.trend", { n: Math.round((buckets * bucket) / 60) })}
          </span>
        </div>
      </div>
      <div role="rowgroup">
        {queues.map((one) => (
          <QueueRow key={one.queue} queue={one} buckets={buckets} />
        ))}
      </div>
    </div>
  );
}

/** A phone shows two states, a medium page four, a wide page all. */
const columnVisibility = (state: State): string =>
  state === "scheduled" ? "max-xl:hidden" : state === "queued" || state === "failed" ? "" : "max-md:hidden";

function QueueRow({ queue, buckets }: { queue: QueueOverview; buckets: number }) {
  const t = useT();
  const cell = "text-right tabular-nums";
  return (
    <div role="row" className={cx(ROW, "min-h-14 border-b border-line py-2 last:border-0 hover:bg-hover")}>
      <div role="cell" className="min-w-0">
        <div className="flex items-center gap-2">
          <Link href={toQueue(queue.queue)} data-focusable-row className="truncate font-medium hover:underline">
            {queue.queue}
          </Link>
          {queue.paused && <Badge tone="warn">{t("paused")}</Badge>}
        </div>
        <div className="mt-1.5 max-w-56">
          <StateBar counts={queue.counts} />
        </div>
      </div>
      {LISTED_STATES.map((state) => (
        <div key={state} role="cell" className={cx(cell, columnVisibility(state))}>
          <Count queue={queue.queue} state={state} n={queue.counts[state] ?? 0} />
        </div>
      ))}
      {[queue.rate_in, queue.rate_out].map((perSecond, at) => (
        <div key={at} role="cell" className={cx(cell, "max-md:hidden", perSecond === 0 && "text-faint")}>
          {rate(perSecond)}
        </div>
      ))}
      <div role="cell" className={cx(cell, "text-muted max-md:hidden")}>
        {queue.oldest === null ? "—" : coarseDuration(queue.oldest)}
      </div>
      <div role="cell" className="max-xl:hidden">
        <Sparkline
          enqueued={queue.throughput.enqueued.slice(-buckets - 1, -1)}
          completed={queue.throughput.completed.slice(-buckets - 1, -1)}
        />
      </div>
    </div>
  );
}

function Count({ queue, state, n }: { queue: string; state: Tab; n: number }) {
  return (
    <Link
      href={toQueue(queue, state)}
      className={cx(
        "hover:underline",
        n === 0 ? "text-faint" : state === "failed" ? "font-medium text-danger" : "text-ink",
      )}
    >
      {count(n)}
    </Link>
  );
}

function StoreInfo({ overview }: { overview: Overview }) {
  const t = useT();
  const { name, version, durability } = overview.store;
  return (
    <p className="text-xs text-muted">
      <span className="font-medium text-ink">
        {version.toLowerCase().startsWith(name) ? version : t("overview.store", { name, version })}
      </span>
      {" · "}
      {t("overview.durability", { durability })}
    </p>
  );
}
