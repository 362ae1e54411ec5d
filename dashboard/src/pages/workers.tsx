import { useState } from "react";
import { type JournalEvent, useLastOfWorker } from "../api/events";
import { useHeld } from "../api/jobs";
import { useWorkers, type Worker } from "../api/queues";
import { COMMANDS } from "../format/commands";
import { span } from "../format/spans";
import { plural, useT } from "../i18n/i18n";
import { useTicking } from "../live/ticking";
import { cx, Empty, Title, Trouble, Waiting } from "../parts/basics";
import { Icon } from "../parts/icons";
import { Id, JobLink } from "../parts/id";
import { Countdown, Relative } from "../parts/times";
import { Link, toQueue, useTitle } from "../routing";

/** Seconds: a worker that lives is heard of every two. */
const LATE = 5;

export type Health = "alive" | "hung" | "dead";

export function healthOf(worker: Worker, now: number | null): Health {
  if (!worker.alive) return "dead";
  return now !== null && now - worker.seen_at > LATE ? "hung" : "alive";
}

/** One worker, however many queues it works for: each of them tells of it. */
export interface Crew {
  /** As the queue tells of it that heard from it last. */
  worker: Worker;
  health: Health;
  posts: Worker[];
  holds: number;
}

export function crewsOf(workers: readonly Worker[], now: number | null): Crew[] {
  const posts = new Map<string, Worker[]>();
  for (const worker of workers) posts.set(worker.id, [...(posts.get(worker.id) ?? []), worker]);
  return [...posts.values()].map((found) => {
    const sorted = found.toSorted((a, b) => a.queue.localeCompare(b.queue));
    const worker = found.reduce((last, one) => (one.seen_at > last.seen_at ? one : last));
    const holds = found.reduce((sum, one) => sum + one.holds, 0);
    return { worker, health: healthOf(worker, now), posts: sorted, holds };
  });
}

const ORDER: Record<Health, number> = { hung: 0, alive: 1, dead: 2 };

/** Of those that died, so many of the last ones are shown. */
const DEAD = 20;

/** Who needs attention first; of the living who came last, of the dead who was heard of last. */
export function inOrder(a: Crew, b: Crew): number {
  const at = ({ worker, health }: Crew) => (health === "dead" ? worker.seen_at : worker.started_at);
  return ORDER[a.health] - ORDER[b.health] || at(b) - at(a);
}

export function Workers() {
  const t = useT();
  useTitle(t("workers.title"));
  const workers = useWorkers();
  // No event tells of a worker that is late: only the time that passes does.
  const now = useTicking((moment) => (moment === null ? null : Math.floor(moment)));
  if (workers.isPending) return <Waiting />;
  if (!workers.data) return <Trouble error={workers.error} retry={() => void workers.refetch()} />;
  const known = crewsOf(workers.data.workers, now).sort(inOrder);
  const found = known.filter(({ health }, at) => health !== "dead" || known[at - DEAD]?.health !== "dead");
  return (
    <div className="min-h-0 flex-1 overflow-y-auto">
      <Title>{t("workers.title")}</Title>
      {found.length === 0 ? (
        <Empty title={t("workers.empty.title")} command={COMMANDS.worker}>
          {t("workers.empty.text")}
        </Empty>
      ) : (
        <div className="px-4 pb-10 md:px-6">
          <div className="panel overflow-hidden">
            <Head />
            <ul>
              {found.map((crew) => (
                <WorkerLine key={crew.worker.id} crew={crew} />
              ))}
            </ul>
          </div>
          {known.length > found.length && (
            <p className="mt-3 text-xs text-muted">
              {plural(t, "workers.more", known.length - found.length)}
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

function WorkerLine({ crew: { worker, health, posts, holds } }: { crew: Crew }) {
  const t = useT();
  const queues = posts.map((post) => post.queue).join(", ");
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
          <span className="truncate max-md:hidden" title={queues}>
            {queues}
          </span>
          <span className="truncate text-muted max-xl:hidden">
            {[worker.host, worker.pid || ""].filter(Boolean).join(" · ")}
          </span>
          <span className="text-right text-muted max-xl:hidden">
            <Relative at={worker.started_at || null} />
          </span>
          <span className="text-right text-muted max-md:hidden">
            <Relative at={worker.seen_at} />
          </span>
          <span className="text-right text-muted tabular-nums max-xl:hidden">{worker.concurrency || "—"}</span>
          <span className="text-right tabular-nums">{holds}</span>
        </summary>
        {open && (
          <div className="border-t border-line bg-sunken py-2 pr-4 pl-12">
            {health === "dead" && <CauseOfDeath worker={worker} />}
            {posts.map((post) => (
              <Held key={post.queue} worker={post} />
            ))}
          </div>
        )}
      </details>
    </li>
  );
}

/** Seconds between the last sign of life and the end of one whose process was seen to end. */
const AT_ONCE = 0.1;

/** How the death of a worker came to be known. */
export const deathOf = (worker: Worker): "ended" | "silent" =>
  worker.alive_until - worker.seen_at < AT_ONCE ? "ended" : "silent";

/** What was written down about it when its jobs were taken back. */
export function noteOnDeath(events: readonly JournalEvent[], worker: string): string | null {
  const acts = ["expire", "release"];
  const last = events.findLast((event) => event.worker === worker && acts.includes(event.act));
  return last?.note || null;
}

function CauseOfDeath({ worker }: { worker: Worker }) {
  const t = useT();
  const death = deathOf(worker);
  const last = useLastOfWorker(worker.id, death === "ended");
  const note = noteOnDeath(last.data?.events ?? [], worker.id);
  return (
    <p className="py-1 text-danger">
      {note ?? t(`workers.died.${death}`, { span: span(worker.alive_until - worker.seen_at) })}
    </p>
  );
}

function Held({ worker }: { worker: Worker }) {
  const t = useT();
  const held = useHeld(worker.queue, worker.id);
  const rows = held.data?.summaries ?? [];
  return (
    <div className="py-1">
      <p className="text-muted">
        <Link href={toQueue(worker.queue, "processing")} className="text-accent hover:underline">
          {worker.queue}
        </Link>
        {" · "}
        {worker.kinds ? `${t("column.kinds")}: ${worker.kinds.join(", ")}` : t("workers.allKinds")}
        {held.data && rows.length === 0 && ` · ${t("workers.holdsNothing")}`}
      </p>
      <ul aria-label={t("workers.holds", { worker: worker.id, queue: worker.queue })}>
        {rows.map((row) => (
          <li key={row.id} className="flex items-center gap-4 py-1">
            <JobLink queue={worker.queue} id={row.id} className="flex-1" />
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
