import { useState } from "react";
import { type JournalEvent, useLastEventsOf } from "../api/events";
import { useLeasedJobs } from "../api/jobs";
import { useWorkers, type Worker } from "../api/queues";
import { cx, Empty, ErrorPanel, Loading, Title } from "../components/basics";
import { Icon } from "../components/icons";
import { Id, JobLink } from "../components/id";
import { Countdown, RelativeTime } from "../components/time";
import { COMMANDS } from "../format/commands";
import { duration } from "../format/numbers";
import { plural, useT } from "../i18n/i18n";
import { useClockTick } from "../live/clock-tick";
import { Link, toQueue, useTitle } from "../routing";

/** Seconds without a heartbeat; a healthy worker sends one every two. */
const UNRESPONSIVE_AFTER = 5;

export type Health = "alive" | "hung" | "dead";

export function healthOf(worker: Worker, now: number | null): Health {
  if (!worker.alive) return "dead";
  return now !== null && now - worker.seen_at > UNRESPONSIVE_AFTER ? "hung" : "alive";
}

/** One worker with all of its queues; the service lists it once for each. */
export interface WorkerGroup {
  /** The entry with the latest heartbeat. */
  worker: Worker;
  health: Health;
  queues: Worker[];
  holds: number;
}

export function groupWorkers(workers: readonly Worker[], now: number | null): WorkerGroup[] {
  const byId = new Map<string, Worker[]>();
  for (const worker of workers) byId.set(worker.id, [...(byId.get(worker.id) ?? []), worker]);
  return [...byId.values()].map((entries) => {
    const queues = entries.toSorted((a, b) => a.queue.localeCompare(b.queue));
    const worker = entries.reduce((last, one) => (one.seen_at > last.seen_at ? one : last));
    const holds = entries.reduce((sum, one) => sum + one.holds, 0);
    return { worker, health: healthOf(worker, now), queues, holds };
  });
}

const ORDER: Record<Health, number> = { hung: 0, alive: 1, dead: 2 };

/** How many dead workers are listed. */
const MAX_DEAD = 20;

/** Workers that need attention first, then the latest started, then the dead by last heartbeat. */
export function byUrgency(a: WorkerGroup, b: WorkerGroup): number {
  const at = ({ worker, health }: WorkerGroup) => (health === "dead" ? worker.seen_at : worker.started_at);
  return ORDER[a.health] - ORDER[b.health] || at(b) - at(a);
}

export function Workers() {
  const t = useT();
  useTitle(t("workers.title"));
  const workers = useWorkers();
  // A late worker causes no event: only time passing reveals it.
  const now = useClockTick((moment) => (moment === null ? null : Math.floor(moment)));
  if (workers.isPending) return <Loading />;
  if (!workers.data) return <ErrorPanel error={workers.error} retry={() => void workers.refetch()} />;
  const groups = groupWorkers(workers.data.workers, now).sort(byUrgency);
  const visible = groups.filter(({ health }, at) => health !== "dead" || groups[at - MAX_DEAD]?.health !== "dead");
  return (
    <div className="min-h-0 flex-1 overflow-y-auto">
      <Title>{t("workers.title")}</Title>
      {visible.length === 0 ? (
        <Empty title={t("workers.empty.title")} command={COMMANDS.worker}>
          {t("workers.empty.text")}
        </Empty>
      ) : (
        <div className="px-4 pb-10 md:px-6">
          <div className="panel overflow-hidden">
            <Head />
            <ul>
              {visible.map((group) => (
                <WorkerRow key={group.worker.id} group={group} />
              ))}
            </ul>
          </div>
          {groups.length > visible.length && (
            <p className="mt-3 text-xs text-muted">
              {plural(t, "workers.more", groups.length - visible.length)}
            </p>
          )}
        </div>
      )}
    </div>
  );
}

const ROW =
  "grid items-center gap-x-4 px-4 grid-cols-[1rem_5rem_minmax(0,1fr)_4rem] md:grid-cols-[1rem_5rem_minmax(9rem,2fr)_minmax(8rem,1.4fr)_6rem_4rem] xl:grid-cols-[1rem_5rem_minmax(9rem,2fr)_minmax(8rem,1.4fr)_minmax(6rem,0.8fr)_6rem_6rem_4rem_4rem]";

function Head() {
  const t = useT();
  return (
    <div className={cx(ROW, "head h-9 border-b border-line")}>
      <span />
      <span>{t("column.state")}</span>
      <span>{t("column.worker")}</span>
      <span className="max-md:hidden">{t("column.queue")}</span>
      <span className="max-xl:hidden">{t("column.host")}</span>
      <span className="text-right max-xl:hidden">{t("column.since")}</span>
      <span className="text-right max-md:hidden">{t("column.seen")}</span>
      <span className="text-right max-xl:hidden">{t("column.concurrency")}</span>
      <span className="text-right">{t("column.holds")}</span>
    </div>
  );
}

const DOTS: Record<Health, string> = { alive: "bg-completed", hung: "bg-failing", dead: "bg-failed" };

function WorkerRow({ group: { worker, health, queues, holds } }: { group: WorkerGroup }) {
  const t = useT();
  const names = queues.map((one) => one.queue).join(", ");
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
          <Id className="text-xs font-medium">{worker.id}</Id>
          <span className="truncate max-md:hidden" title={names}>
            {names}
          </span>
          <span className="truncate text-muted max-xl:hidden">
            {[worker.host, worker.pid || ""].filter(Boolean).join(" · ")}
          </span>
          <span className="text-right text-muted max-xl:hidden">
            <RelativeTime at={worker.started_at || null} />
          </span>
          <span className="text-right text-muted max-md:hidden">
            <RelativeTime at={worker.seen_at} />
          </span>
          <span className="text-right text-muted tabular-nums max-xl:hidden">{worker.concurrency || "—"}</span>
          <span className="text-right tabular-nums">{holds}</span>
        </summary>
        {open && (
          <div className="border-t border-line bg-sunken py-2 pr-4 pl-12">
            {health === "dead" && <ExitReason worker={worker} />}
            {queues.map((one) => (
              <LeasedJobs key={one.queue} worker={one} />
            ))}
          </div>
        )}
      </details>
    </li>
  );
}

/** Seconds from the last heartbeat to the end of a worker whose supervisor saw its process exit. */
const CLEAN_EXIT_WITHIN = 0.1;

/** Whether the process was seen to exit, or its heartbeats expired. */
export const exitReason = (worker: Worker): "ended" | "silent" =>
  worker.alive_until - worker.seen_at < CLEAN_EXIT_WITHIN ? "ended" : "silent";

/** The note in the journal from when its leases expired. */
export function expiryNote(events: readonly JournalEvent[], worker: string): string | null {
  const acts = ["expire", "release"];
  const last = events.findLast((event) => event.worker === worker && acts.includes(event.act));
  return last?.note || null;
}

function ExitReason({ worker }: { worker: Worker }) {
  const t = useT();
  const reason = exitReason(worker);
  const last = useLastEventsOf(worker.id, reason === "ended");
  const note = expiryNote(last.data?.events ?? [], worker.id);
  return (
    <p className="py-1 text-danger">
      {note ?? t(`workers.died.${reason}`, { duration: duration(worker.alive_until - worker.seen_at) })}
    </p>
  );
}

function LeasedJobs({ worker }: { worker: Worker }) {
  const t = useT();
  const leased = useLeasedJobs(worker.queue, worker.id);
  const rows = leased.data?.summaries ?? [];
  return (
    <div className="py-1">
      <p className="text-muted">
        <Link href={toQueue(worker.queue, "processing")} className="text-accent hover:underline">
          {worker.queue}
        </Link>
        {" · "}
        {worker.kinds ? `${t("column.kinds")}: ${worker.kinds.join(", ")}` : t("workers.allKinds")}
        {leased.data && rows.length === 0 && ` · ${t("workers.holdsNothing")}`}
      </p>
      <ul aria-label={t("workers.holds", { worker: worker.id, queue: worker.queue })}>
        {rows.map((row) => (
          <li key={row.id} className="flex items-center gap-4 py-1">
            <JobLink queue={worker.queue} id={row.id} className="flex-1" />
            <span className="text-muted">{row.kind}</span>
            <span className="text-muted">
              <RelativeTime at={row.started_at} />
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
