import { useState } from "react";
import { useHeld } from "../api/jobs";
import { useWorkers, type Worker } from "../api/queues";
import { useT } from "../i18n/i18n";
import { useTicking } from "../live/ticking";
import { cx, Empty, Title, Trouble } from "../parts/basics";
import { Icon } from "../parts/icons";
import { Countdown, Relative } from "../parts/times";
import { Link, toJob, toQueue } from "../routing";

/** Seconds: a worker that lives is heard of every two. */
const LATE = 5;

export type Health = "alive" | "hung" | "dead";

export function healthOf(worker: Worker, now: number | null): Health {
  if (!worker.alive) return "dead";
  return now !== null && now - worker.seen_at > LATE ? "hung" : "alive";
}

const ORDER: Record<Health, number> = { hung: 0, alive: 1, dead: 2 };

export function Workers() {
  const t = useT();
  const workers = useWorkers();
  // Silence is no news: what makes a worker late is time alone.
  const now = useTicking((moment) => (moment === null ? null : Math.floor(moment)));
  if (workers.isPending) return null;
  if (!workers.data) return <Trouble error={workers.error} retry={() => void workers.refetch()} />;
  const found = workers.data.workers
    .map((worker) => ({ worker, health: healthOf(worker, now) }))
    .sort((a, b) => ORDER[a.health] - ORDER[b.health] || b.worker.started_at - a.worker.started_at);
  return (
    <div className="min-h-0 flex-1 overflow-y-auto">
      <Title>{t("workers.title")}</Title>
      {found.length === 0 ? (
        <Empty title={t("workers.empty.title")} command="ackline worker tasks.py">
          {t("workers.empty.text")}
        </Empty>
      ) : (
        <div className="px-4 pb-10 md:px-6">
          <div className="panel overflow-hidden">
            <Head />
            <ul>
              {found.map(({ worker, health }) => (
                <WorkerLine key={`${worker.queue} ${worker.id}`} worker={worker} health={health} />
              ))}
            </ul>
          </div>
        </div>
      )}
    </div>
  );
}

const ROW =
  "grid items-center gap-x-4 px-4 grid-cols-[1rem_5rem_minmax(0,1fr)_4rem] md:grid-cols-[1rem_5rem_minmax(9rem,1.6fr)_minmax(6rem,1fr)_minmax(6rem,1fr)_6rem_6rem_5rem]";

function Head() {
  const t = useT();
  return (
    <div className={cx(ROW, "head h-9 border-b border-line")}>
      <span />
      <span>{t("column.state")}</span>
      <span>{t("column.worker")}</span>
      <span className="max-md:hidden">{t("column.queue")}</span>
      <span className="max-md:hidden">{t("column.host")}</span>
      <span className="text-right max-md:hidden">{t("column.since")}</span>
      <span className="text-right max-md:hidden">{t("column.seen")}</span>
      <span className="text-right">{t("column.holds")}</span>
    </div>
  );
}

const DOTS: Record<Health, string> = { alive: "bg-completed", hung: "bg-failing", dead: "bg-failed" };

function WorkerLine({ worker, health }: { worker: Worker; health: Health }) {
  const t = useT();
  const [open, setOpen] = useState(false);
  return (
    <li className="border-b border-line last:border-0" data-worker={worker.id} data-health={health}>
      <details className="group" onToggle={(event) => setOpen(event.currentTarget.open)}>
        <summary className={cx(ROW, "min-h-10 cursor-pointer py-1.5 hover:bg-hover [&::-webkit-details-marker]:hidden")}>
          <span className="text-faint transition-transform group-open:rotate-90">
            <Icon name="right" />
          </span>
          <span className="flex items-center gap-1.5" title={health === "hung" ? t("workers.hung.why") : undefined}>
            <span aria-hidden className={cx("size-2 rounded-full", DOTS[health])} />
            <span className={cx(health === "dead" && "text-danger", health === "hung" && "text-warn")}>
              {t(`workers.${health}`)}
            </span>
          </span>
          <span className="truncate font-mono text-xs font-medium" title={worker.id}>
            {worker.id}
          </span>
          <span className="truncate max-md:hidden">{worker.queue}</span>
          <span className="truncate text-muted max-md:hidden">
            {[worker.host, worker.pid || ""].filter(Boolean).join(" · ")}
          </span>
          <span className="text-right text-muted max-md:hidden">
            <Relative at={worker.started_at || null} />
          </span>
          <span className="text-right text-muted max-md:hidden">
            <Relative at={worker.seen_at} />
          </span>
          <span className="text-right tabular-nums">
            {worker.concurrency
              ? t("workers.of", { n: worker.holds, max: worker.concurrency })
              : worker.holds}
          </span>
        </summary>
        {open && <Held worker={worker} />}
      </details>
    </li>
  );
}

function Held({ worker }: { worker: Worker }) {
  const t = useT();
  const held = useHeld(worker.queue, worker.id);
  const rows = held.data?.rows ?? [];
  return (
    <div className="border-t border-line bg-sunken py-2 pr-4 pl-12">
      <p className="mb-1 text-muted">
        {t("column.queue")}{" "}
        <Link href={toQueue(worker.queue, "processing")} className="text-accent hover:underline">
          {worker.queue}
        </Link>
        {" · "}
        {t("column.kinds")} {worker.kinds?.join(", ") ?? t("all")}
      </p>
      {held.data && rows.length === 0 && <p className="text-muted">{t("workers.holdsNothing")}</p>}
      <ul aria-label={t("workers.holds", { worker: worker.id })}>
        {rows.map((row) => (
          <li key={row.id} className="flex items-center gap-4 py-1">
            <Link href={toJob(worker.queue, row.id)} className="min-w-0 flex-1 truncate font-mono text-xs hover:underline">
              {row.id}
            </Link>
            <span className="text-muted">{row.kind}</span>
            <span className="text-muted">
              <Relative at={row.started_at} />
            </span>
            <span className="w-16 text-right">
              <Countdown deadline={row.deadline} />
            </span>
          </li>
        ))}
      </ul>
    </div>
  );
}
