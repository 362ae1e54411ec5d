import { EnqueueDialog } from "../actions/enqueue-dialog";
import type { State } from "../api/client";
import { type Overview, type QueueFigures, useOverview } from "../api/overview";
import { useMay } from "../api/session";
import { COMMANDS } from "../format/commands";
import { coarse, count, rate, span } from "../format/spans";
import { useT } from "../i18n/i18n";
import { Badge, Button, cx, Dot, Empty, Title, Trouble, Waiting } from "../parts/basics";
import { Chart, Sparkline, StateBar } from "../parts/charts";
import { useDialog } from "../parts/dialogs";
import { Icon } from "../parts/icons";
import { Link, type Tab, toQueue, useTitle } from "../routing";

export function OverviewPage() {
  const t = useT();
  useTitle(t("overview.title"));
  const overview = useOverview();
  if (overview.isPending) return <Waiting />;
  if (!overview.data) return <Trouble error={overview.error} retry={() => void overview.refetch()} />;
  const { queues } = overview.data;
  return (
    <div className="min-h-0 flex-1 overflow-y-auto">
      <Title actions={<EnqueueButton />}>{t("overview.title")}</Title>
      <div className="flex flex-col gap-4 px-4 pb-10 md:px-6">
        <Troubles overview={overview.data} />
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
        <StoreLine overview={overview.data} />
      </div>
    </div>
  );
}

function EnqueueButton() {
  const t = useT();
  const open = useDialog();
  if (!useMay("produce")) return null;
  return (
    <Button look="primary" onClick={() => open((close) => <EnqueueDialog onClose={close} />)}>
      <Icon name="plus" />
      {t("action.enqueue")}
    </Button>
  );
}

function Troubles({ overview }: { overview: Overview }) {
  const t = useT();
  const grave = overview.store.troubles.filter((one) => one.grave);
  if (grave.length === 0) return null;
  return (
    <div role="alert" className="rounded-lg border border-line bg-danger-soft px-4 py-3">
      <p className="font-medium text-danger">{t("overview.trouble")}</p>
      {grave.map((one) => (
        <p key={one.what} className="mt-1">
          {one.says}. {one.do}
        </p>
      ))}
    </div>
  );
}

export function sum(queues: readonly QueueFigures[], state: State): number {
  return queues.reduce((total, one) => total + (one.counts[state] ?? 0), 0);
}

const SHOWN: readonly State[] = ["queued", "scheduled", "processing", "failing", "failed"];

function Totals({ queues, workers }: { queues: QueueFigures[]; workers: number }) {
  const t = useT();
  const add = (read: (one: QueueFigures) => number) =>
    queues.reduce((total, one) => total + read(one), 0);
  return (
    <dl className="panel grid grid-cols-2 overflow-hidden sm:grid-cols-4 xl:grid-cols-8">
      {SHOWN.map((state) => (
        <Figure
          key={state}
          state={state}
          label={t(state === "failed" ? "state.failed.short" : `state.${state}`)}
          value={count(sum(queues, state))}
          alarm={state === "failed" && sum(queues, state) > 0}
        />
      ))}
      <Figure label={t("column.rateIn")} value={rate(add((one) => one.rate_in))} />
      <Figure label={t("column.rateOut")} value={rate(add((one) => one.rate_out))} />
      <Figure label={t("overview.workers")} value={count(workers)} />
    </dl>
  );
}

interface FigureProps {
  label: string;
  value: string;
  state?: State;
  alarm?: boolean;
}

function Figure({ label, value, state, alarm }: FigureProps) {
  return (
    <div className="-mt-px -ml-px border-t border-l border-line px-4 py-3">
      <dt className="head flex items-center gap-1.5 whitespace-nowrap">
        {state && <Dot state={state} />}
        {label}
      </dt>
      <dd className={cx("mt-1 text-xl font-semibold tracking-tight tabular-nums", alarm && "text-danger")}>
        {value}
      </dd>
    </div>
  );
}

/** The figures of all queues, added up bucket by bucket; without the one that still fills. */
export function total(queues: readonly QueueFigures[], what: keyof QueueFigures["throughput"]): number[] {
  const length = Math.max(0, (queues[0]?.throughput[what].length ?? 0) - 1);
  return Array.from({ length }, (_, at) =>
    queues.reduce((all, one) => all + (one.throughput[what][at] ?? 0), 0),
  );
}

/** Buckets that are shown at least: a minute. */
const LEAST = 6;

/** How many of the last buckets are shown: all since something happened, for a young store is empty. */
export function awake(queues: readonly QueueFigures[]): number {
  const entered = total(queues, "entered");
  const first = entered.findIndex((n) => n > 0);
  return Math.min(entered.length, Math.max(LEAST, first < 0 ? 0 : entered.length - first + 1));
}

function Throughput({ overview }: { overview: Overview }) {
  const t = useT();
  const { queues, bucket, now } = overview;
  const shown = awake(queues);
  const line = (what: keyof QueueFigures["throughput"]) => total(queues, what).slice(-shown);
  const lines = [
    { label: t("overview.entered"), colour: "--queued", values: line("entered"), area: true },
    { label: t("overview.completed"), colour: "--completed", values: line("completed") },
    { label: t("overview.failed"), colour: "--failed", values: line("failed") },
  ];
  const end = (Math.floor(now / bucket) - 1) * bucket;
  const length = lines[0]!.values.length;
  const times = Array.from({ length }, (_, at) => end - (length - 1 - at) * bucket);
  return (
    <Chart
      title={t("overview.throughput", { span: span(bucket) })}
      label={t("overview.alt", { n: Math.round((shown * bucket) / 60) })}
      times={times}
      lines={lines}
    />
  );
}

const ROW =
  "grid items-center gap-x-3 px-4 grid-cols-[minmax(0,1fr)_3.5rem_3.5rem] md:grid-cols-[minmax(8rem,1.4fr)_repeat(4,minmax(4.5rem,0.6fr))_3rem_3rem_4.5rem] xl:grid-cols-[minmax(9rem,1.4fr)_repeat(5,minmax(4.5rem,0.6fr))_4rem_4rem_5rem_8rem]";

function QueueTable({ queues, bucket }: { queues: QueueFigures[]; bucket: number }) {
  const t = useT();
  const shown = awake(queues);
  const heads = [t("column.rateIn"), t("column.rateOut"), t("column.oldest")];
  return (
    <div role="table" aria-label={t("nav.queues")} className="panel overflow-hidden">
      <div role="rowgroup">
        <div role="row" className={cx(ROW, "head h-9 border-b border-line")}>
          <span role="columnheader">{t("column.queue")}</span>
          {SHOWN.map((state) => (
            <span
              key={state}
              role="columnheader"
              className={cx("truncate text-right", shownFrom(state))}
            >
              {t(state === "failed" ? "state.failed.short" : `state.${state}`)}
            </span>
          ))}
          {heads.map((head) => (
            <span key={head} role="columnheader" className="truncate text-right max-md:hidden">
              {head}
            </span>
          ))}
          <span role="columnheader" className="max-xl:hidden">
            {t("column.trend", { n: Math.round((shown * bucket) / 60) })}
          </span>
        </div>
      </div>
      <div role="rowgroup">
        {queues.map((one) => (
          <QueueRow key={one.queue} figures={one} shown={shown} />
        ))}
      </div>
    </div>
  );
}

/** What a phone shows, and what only a wide page does. */
const shownFrom = (state: State): string =>
  state === "scheduled" ? "max-xl:hidden" : state === "queued" || state === "failed" ? "" : "max-md:hidden";

function QueueRow({ figures, shown }: { figures: QueueFigures; shown: number }) {
  const t = useT();
  const cell = "text-right tabular-nums";
  return (
    <div role="row" className={cx(ROW, "min-h-14 border-b border-line py-2 last:border-0 hover:bg-hover")}>
      <div role="cell" className="min-w-0">
        <div className="flex items-center gap-2">
          <Link href={toQueue(figures.queue)} data-walk className="truncate font-medium hover:underline">
            {figures.queue}
          </Link>
          {figures.paused && <Badge tone="warn">{t("paused")}</Badge>}
        </div>
        <div className="mt-1.5 max-w-56">
          <StateBar counts={figures.counts} />
        </div>
      </div>
      {SHOWN.map((state) => (
        <div key={state} role="cell" className={cx(cell, shownFrom(state))}>
          <Count queue={figures.queue} state={state} n={figures.counts[state] ?? 0} />
        </div>
      ))}
      {[figures.rate_in, figures.rate_out].map((perSecond, at) => (
        <div key={at} role="cell" className={cx(cell, "max-md:hidden", perSecond === 0 && "text-faint")}>
          {rate(perSecond)}
        </div>
      ))}
      <div role="cell" className={cx(cell, "text-muted max-md:hidden")}>
        {figures.oldest === null ? "—" : coarse(figures.oldest)}
      </div>
      <div role="cell" className="max-xl:hidden">
        <Sparkline
          entered={figures.throughput.entered.slice(-shown - 1, -1)}
          completed={figures.throughput.completed.slice(-shown - 1, -1)}
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

function StoreLine({ overview }: { overview: Overview }) {
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
