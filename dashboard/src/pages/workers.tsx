import { useState } from "react";
import { type JournalEvent, useLastEventsOf } from "../api/events";
import { useLeasedJobs } from "../api/jobs";
import { useWorkers, type Worker } from "../api/queues";
import { cx, Empty, ErrorPanel, Loading, Title } from "../components/basics";
import { Icon } from "../components/icons";
import { Id, JobLink } from "../components/id";
import { Countdown, RelativeTime } from "../components/time";
import { COMMANDS } from "../format/commands";
import { coarseDuration, duration } from "../format/numbers";
import { plural, useT } from "../i18n/i18n";
import { useClockTick } from "../live/clock-tick";
import { Link, toQueue, useTitle } from "../routing";

/** Seconds without a heartbeat; a healthy worker sends one every two. */
const UNRESPONSIVE_AFTER = 5;

export type Health = "alive" | "unresponsive" | "dead" | "stopped";

/** A worker whose heartbeat expired is dead until its leases are recovered, then stopped. */
export function healthOf(worker: Worker, leases: number, now: number | null): Health {
  if (!worker.alive) return leases > 0 ? "dead" : "stopped";
  return now !== null && now - worker.last_heartbeat_at > UNRESPONSIVE_AFTER ? "unresponsive" : "alive";
}

/** One worker with all of its queues; the service lists it once for each. */
export interface WorkerGroup {
  /** The entry with the latest heartbeat. */
  worker: Worker;
  health: Health;
  queues: Worker[];
  leases: number;
}

export function groupWorkers(workers: readonly Worker[], now: number | null): WorkerGroup[] {
  const byId = new Map<string, Worker[]>();
  for (const worker of workers) byId.set(worker.id, [...(byId.get(worker.id) ?? []), worker]);
  return [...byId.values()].map((entries) => {
    const queues = entries.toSorted((a, b) => a.queue.localeCompare(b.queue));
    const worker = entries.reduce((last, one) => (one.last_heartbeat_at > last.last_heartbeat_at ? one : last));
    const leases = entries.reduce((sum, one) => sum + one.leases, 0);
    return { worker, health: healthOf(worker, leases, now), queues, leases };
  });
}

const ORDER: Record<Health, number> = { dead: 0, unresponsive: 1, alive: 2, stopped: 3 };

/** How many stopped workers are listed. */
const MAX_STOPPED = 20;

/** Workers that need attention first, then the latest started, then the stopped by last heartbeat. */
export function byUrgency(a: WorkerGroup, b: WorkerGroup): number {
  const at = ({ worker, health }: WorkerGroup) => (health === "stopped" ? worker.last_heartbeat_at : worker.started_at);
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
  const visible = groups.filter(
    ({ health }, at) => health !== "stopped" || groups[at - MAX_STOPPED]?.health !== "stopped",
  );
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
  "grid items-center gap-x-4 px-4 grid-cols-[1rem_minmax(0,1fr)_3rem] md:grid-cols-[1rem_6.5rem_minmax(9rem,2fr)_minmax(8rem,1.4fr)_6rem_3.5rem] xl:grid-cols-[1rem_6.5rem_minmax(9rem,2fr)_minmax(8rem,1.4fr)_minmax(6rem,0.8fr)_5.5rem_6.5rem_5.5rem_3.5rem]";

function Head() {
  const t = useT();
  return (
    <div className={cx(ROW, "head h-9 border-b border-line")}>
      <span />
      <span className="max-md:hidden">{t("column.state")}</span>
      <span>{t("column.worker")}</span>
      <span className="max-md:hidden">{t("column.queue")}</span>
      <span className="max-xl:hidden">{t("column.host")}</span>
      <span className="text-right max-xl:hidden">{t("column.uptime")}</span>
      <span className="text-right max-md:hidden">{t("column.heartbeat")}</span>
      <span className="text-right max-xl:hidden">{t("column.concurrency")}</span>
      <span className="text-right">{t("column.leases")}</span>
    </div>
  );
}

const DOTS: Record<Health, string> = {
  alive: "bg-completed",
  unresponsive: "bg-failing",
  dead: "bg-failed",
  stopped: "bg-cancelled",
};
const COLORS: Partial<Record<Health, string>> = {
  unresponsive: "text-warn",
  dead: "text-danger",
  stopped: "text-muted",
};

function WorkerRow({ group: { worker, health, queues, leases } }: { group: WorkerGroup }) {
  const t = useT();
  const names = queues.map((one) => one.queue).join(", ");
  const tooltip = health === "unresponsive" || health === "dead" ? t(`workers.${health}.text`) : undefined;
  const [open, setOpen] = useState(false);
  return (
    <li className="border-b border-line last:border-0" data-worker={worker.id} data-health={health}>
      <details className="group" onToggle={(event) => setOpen(event.currentTarget.open)}>
        <summary className={cx(ROW, "min-h-10 cursor-pointer py-1.5 hover:bg-hover [&::-webkit-details-marker]:hidden")}>
          <span className="text-faint transition-transform group-open:rotate-90">
            <Icon name="right" />
          </span>
          <span className="max-md:hidden" title={tooltip}>
            <HealthName health={health} />
          </span>
          <span className="min-w-0">
            <Id className="text-xs font-medium">{worker.id}</Id>
            <span className="mt-0.5 flex gap-3 text-xs md:hidden">
              <HealthName health={health} />
              <span className="truncate text-muted">{names}</span>
            </span>
          </span>
          <span className="truncate max-md:hidden" title={names}>
            {names}
          </span>
          <span className="truncate text-muted max-xl:hidden">
            {[worker.host, worker.pid || ""].filter(Boolean).join(" · ")}
          </span>
          <span className="text-right text-muted max-xl:hidden">
            {worker.alive && worker.started_at > 0 ? <Uptime since={worker.started_at} /> : "—"}
          </span>
          <span className="text-right text-muted max-md:hidden">
            <RelativeTime at={worker.last_heartbeat_at} />
          </span>
          <span className="text-right text-muted tabular-nums max-xl:hidden">{worker.concurrency || "—"}</span>
          <span className={cx("text-right tabular-nums", leases === 0 && "text-faint")}>{leases}</span>
        </summary>
        {open && (
          <div className="border-t border-line bg-sunken py-2 pr-4 pl-12">
            {!worker.alive && <ExitReason worker={worker} />}
            {queues.map((one) => (
              <LeasedJobs key={one.queue} worker={one} />
            ))}
          </div>
        )}
      </details>
    </li>
  );
}

function HealthName({ health }: { health: Health }) {
  const t = useT();
  return (
    <span className="flex items-center gap-1.5">
      <span aria-hidden className={cx("size-2 rounded-full", DOTS[health])} />
      <span className={COLORS[health]}>{t(`workers.${health}`)}</span>
    </span>
  );
}

function Uptime({ since }: { since: number }) {
  const text = useClockTick((now) => (now === null ? "—" : coarseDuration(now - since)));
  return <span className="tabular-nums">{text}</span>;
}

/** Seconds from the last heartbeat to the end of a worker whose supervisor saw its process exit. */
const CLEAN_EXIT_WITHIN = 0.1;

/** Whether the process was seen to exit, or its heartbeats expired. */
export const exitReason = (worker: Worker): "process" | "heartbeat" =>
  worker.alive_until - worker.last_heartbeat_at < CLEAN_EXIT_WITHIN ? "process" : "heartbeat";

/** The note in the journal from when its leases expired. */
export function expiryNote(events: readonly JournalEvent[], worker: string): string | null {
  const acts = ["expire", "release"];
  const last = events.findLast((event) => event.worker === worker && acts.includes(event.act));
  return last?.note || null;
}

function ExitReason({ worker }: { worker: Worker }) {
  const t = useT();
  const reason = exitReason(worker);
  const last = useLastEventsOf(worker.id, reason === "process");
  const note = expiryNote(last.data?.events ?? [], worker.id);
  return (
    <p className="py-1 text-warn">
      {note ?? t(`workers.exit.${reason}`, { duration: duration(worker.alive_until - worker.last_heartbeat_at) })}
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
        {leased.data && rows.length === 0 && ` · ${t("workers.noLeases")}`}
      </p>
      <ul aria-label={t("workers.leases", { worker: worker.id, queue: worker.queue })}>
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
