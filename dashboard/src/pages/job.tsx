import type { ReactNode } from "react";
import { type JobAction, useJobActions, useJobActionsFor } from "../actions/job-actions";
import { Problem } from "../api/client";
import { eventDetails, type JournalEvent } from "../api/events";
import { type Attempt, type Job, useJob } from "../api/jobs";
import { useOverview } from "../api/overview";
import { Badge, Button, cx, Dot, Empty, ErrorPanel, Loading, StateName, Title } from "../components/basics";
import { Icon } from "../components/icons";
import { Id } from "../components/id";
import { JsonView } from "../components/json";
import { Menu } from "../components/menu";
import { Countdown, isoTime, localTime, preciseTime, relativeTime, Timestamp } from "../components/time";
import { Traceback } from "../components/traceback";
import { duration } from "../format/numbers";
import { useI18n, useT } from "../i18n/i18n";
import { useClockTick } from "../live/clock-tick";
import { Link, toQueue, useTitle } from "../routing";
import { type AttemptRow, attemptRows } from "./job-attempts";

export function JobPage({ queue, id }: { queue: string; id: string }) {
  const t = useT();
  const job = useJob(queue, id);
  useTitle(id, queue);
  if (job.isPending) return <Loading />;
  const notFound = job.error instanceof Problem && job.error.status === 404;
  if (notFound)
    return (
      <Empty
        title={t("job.notFound.title")}
        action={
          <span className="flex flex-wrap justify-center gap-x-6 gap-y-2 font-medium text-accent">
            <Link href={`/events?${new URLSearchParams({ queue, text: id })}`}>{t("job.notFound.events")}</Link>
            <Link href={toQueue(queue)}>{queue}</Link>
          </span>
        }
      >
        {t("job.notFound.text")}
      </Empty>
    );
  if (!job.data) return <ErrorPanel error={job.error} retry={() => void job.refetch()} />;
  return <JobView queue={queue} job={job.data} />;
}

function JobView({ queue, job }: { queue: string; job: Job }) {
  const t = useT();
  return (
    <div className="min-h-0 flex-1 overflow-y-auto">
      <Title actions={<Actions queue={queue} job={job} />}>
        <span className="block text-xs font-normal tracking-normal text-muted">
          <Link href={toQueue(queue, job.state)} className="hover:underline">
            {queue}
          </Link>
          {" / "}
          {job.kind}
        </span>
        <Id>{job.id}</Id>
      </Title>
      <div className="grid gap-4 px-4 pb-10 md:px-6 xl:grid-cols-[minmax(0,1fr)_20rem]">
        <div className="flex min-w-0 flex-col gap-4">
          <JobStatus queue={queue} job={job} />
          <Section title={t("job.payload")}>
            <JsonView text={job.payload} name={t("job.payload")} codec={job.codec} />
          </Section>
          {job.state === "completed" && (
            <Section title={t("job.result")}>
              <JsonView text={job.result} name={t("job.result")} codec={job.codec} />
            </Section>
          )}
          {job.progress !== "null" && (
            <Section title={t("job.progress")}>
              <JsonView text={job.progress} name={t("job.progress")} codec={job.codec} />
            </Section>
          )}
          <Section title={t("job.attempts")}>
            <Attempts job={job} />
          </Section>
        </div>
        <div className="flex min-w-0 flex-col gap-4">
          <Section title={t("job.fields")}>
            <JobFields job={job} />
          </Section>
          <Section title={t("job.timeline")}>
            <Timeline events={job.timeline ?? []} complete={job.timeline_complete ?? true} />
          </Section>
        </div>
      </div>
    </div>
  );
}

function Section({ title, children }: { title: string; children: ReactNode }) {
  return (
    <section className="panel px-4 py-3">
      <h2 className="mb-2 font-semibold">{title}</h2>
      {children}
    </section>
  );
}

function Actions({ queue, job }: { queue: string; job: Job }) {
  const t = useT();
  const act = useJobActions(queue);
  const actions = useJobActionsFor(job.state);
  const [first, ...others] = actions;
  if (!first) return null;
  const danger = (action: JobAction) => action === "delete";
  return (
    <div className="flex items-center gap-2">
      <Button
        variant={first === "redrive" ? "primary" : danger(first) ? "danger" : "plain"}
        onClick={() => act(first, job)}
      >
        {t(`action.${first}`)}
      </Button>
      {others.length > 0 && (
        <Menu
          button={
            <Button className="w-8 px-0" aria-label={t("action.more")}>
              <Icon name="more" />
            </Button>
          }
          groups={[false, true].map((isDanger) =>
            others
              .filter((action) => danger(action) === isDanger)
              .map((action) => ({
                label: t(`action.${action}`),
                danger: isDanger,
                onSelect: () => act(action, job),
              })),
          )}
        />
      )}
    </div>
  );
}

/** The state of the job, and what it is waiting for. */
function JobStatus({ queue, job }: { queue: string; job: Job }) {
  const t = useT();
  const paused = useOverview().data?.queues.find((one) => one.queue === queue)?.paused ?? false;
  const due = useClockTick((now) => relativeTime(job.run_at, now, t));
  const waitText = (() => {
    if (job.state === "scheduled") return t("job.waits.scheduled", { when: due });
    if (job.state === "failing") return t("job.waits.failing", { when: due });
    if (job.state !== "queued") return null;
    if (paused) return t("job.waits.paused");
    return job.group ? t("job.waits.group", { group: job.group }) : t("job.waits.queued");
  })();
  const failed = job.state === "failing" || job.state === "failed";
  return (
    <div className="panel flex flex-wrap items-center gap-x-4 gap-y-1 px-4 py-3">
      <span className="font-semibold">
        <StateName state={job.state} />
      </span>
      {waitText && <span className="text-muted">{waitText}</span>}
      {job.state === "processing" && (
        <>
          <span className="text-muted">{t("job.on", { worker: job.worker })}</span>
          <Countdown deadline={job.deadline} />
        </>
      )}
      {job.cancel_requested && <Badge tone="warn">{t("job.cancelRequested")}</Badge>}
      {job.error && job.state !== "completed" && (
        <p className={cx("w-full break-words", failed ? "text-danger" : "text-muted")}>
          {failed ? job.error : t("job.lastError", { error: job.error })}
        </p>
      )}
    </div>
  );
}

function JobFields({ job }: { job: Job }) {
  const t = useT();
  const fields: [string, ReactNode][] = [
    [t("column.priority"), job.priority],
    [t("column.attempts"), job.max_attempts ? `${job.attempts} / ${job.max_attempts}` : job.attempts],
    [t("column.created"), <Timestamp key="" at={job.created_at} />],
    [t("column.due"), job.run_at && <Timestamp key="" at={job.run_at} />],
    [t("column.started"), job.started_at && <Timestamp key="" at={job.started_at} />],
    [t("job.deadline"), job.deadline && <Timestamp key="" at={job.deadline} />],
    [t("column.finished"), job.finished_at && <Timestamp key="" at={job.finished_at} />],
    [t("job.expires"), job.expires_at && <Timestamp key="" at={job.expires_at} />],
    [t("column.worker"), job.worker],
    [t("job.lease"), job.lease && duration(job.lease)],
    [t("job.timeout"), job.timeout && duration(job.timeout)],
    [t("job.group"), job.group],
    [t("job.headers"), Object.entries(job.headers).map(([name, value]) => `${name}: ${value}`).join("\n")],
    [t("job.callback"), job.callback_url],
    [t("job.keys"), job.keys_if_undelivered.map((key) => key.join(" / ")).join("\n")],
  ];
  return (
    <dl className="grid grid-cols-[6.5rem_minmax(0,1fr)] gap-x-3 gap-y-1.5">
      {fields
        .filter(([, value]) => value !== null && value !== "")
        .map(([name, value]) => (
          <div key={name} className="contents">
            <dt className="text-muted">{name}</dt>
            <dd className="break-words whitespace-pre-line tabular-nums">{value}</dd>
          </div>
        ))}
    </dl>
  );
}

function Attempts({ job }: { job: Job }) {
  const t = useT();
  const attempts = attemptRows(job);
  if (attempts.length === 0) return <p className="text-muted">{t("job.noAttempts")}</p>;
  return (
    <ol className="-mx-4 -mb-3">
      {attempts.map((attempt, at) => (
        <li key={`${attempt.number} ${attempt.startedAt}`} className="border-t border-line">
          {attempt.failure ? (
            <FailedAttempt attempt={attempt} failure={attempt.failure} open={at === 0} />
          ) : (
            <div className="flex items-start gap-3 px-4 py-2.5 pl-11">
              <AttemptSummary attempt={attempt} />
            </div>
          )}
        </li>
      ))}
    </ol>
  );
}

/** One attempt: outcome, wait and run time, worker. */
function AttemptSummary({ attempt }: { attempt: AttemptRow }) {
  const t = useT();
  const { number, act, waited, worker, startedAt, endedAt, failure } = attempt;
  const now = useClockTick((moment) => (endedAt === null && moment !== null ? Math.floor(moment) : 0));
  const ran = startedAt === null ? null : (endedAt ?? now) - startedAt;
  const details = [
    act ? t(`act.${act}` as "act.fail") : t("job.running"),
    waited !== null && t("job.waited", { duration: duration(waited) }),
    ran !== null && ran >= 0 && t(endedAt === null ? "job.runs" : "job.ran", { duration: duration(ran) }),
    worker && t("job.on", { worker }),
  ].filter(Boolean);
  return (
    <span className="min-w-0 flex-1">
      <span className="flex flex-wrap gap-x-3">
        <span className="font-medium">{t("job.attempt", { n: number })}</span>
        {details.map((one) => (
          <span key={String(one)} className="break-all text-muted">
            {one}
          </span>
        ))}
        <span className="text-muted sm:ml-auto">
          <Timestamp at={endedAt ?? startedAt ?? 0} />
        </span>
      </span>
      {failure && (
        <span className={cx("block break-words text-danger", failure.traceback && "group-open:hidden")}>
          {[failure.type, failure.message].filter(Boolean).join(": ")}
        </span>
      )}
    </span>
  );
}

function FailedAttempt({ attempt, failure, open }: { attempt: AttemptRow; failure: Attempt; open: boolean }) {
  const t = useT();
  return (
    <details className="group" open={open}>
      <summary className="flex cursor-pointer items-start gap-3 px-4 py-2.5 hover:bg-hover [&::-webkit-details-marker]:hidden">
        <span className="pt-0.5 text-faint transition-transform group-open:rotate-90">
          <Icon name="right" />
        </span>
        <AttemptSummary attempt={attempt} />
      </summary>
      <div className="px-4 pb-3 pl-11">
        {failure.traceback ? (
          <Traceback>{failure.traceback}</Traceback>
        ) : (
          <p className="text-faint">{t("job.noTraceback")}</p>
        )}
      </div>
    </details>
  );
}

/** The events of the job, each with the time since the previous one. */
function Timeline({ events, complete }: { events: JournalEvent[]; complete: boolean }) {
  const { t, language } = useI18n();
  return (
    <>
      {!complete && <p className="mb-2 text-warn">{t("job.incomplete")}</p>}
      {events.length === 0 && complete && <p className="text-muted">{t("job.noEvents")}</p>}
      <ol className="relative flex flex-col gap-3 before:absolute before:top-2 before:bottom-2 before:left-[3.5px] before:w-px before:bg-line-strong">
        {events.toReversed().map((event, at, all) => (
          <li key={event.cursor} className="relative flex gap-3">
            <span className="relative leading-5">{event.to ? <Dot state={event.to} /> : <Dot state="cancelled" />}</span>
            <span className="min-w-0 flex-1">
              <span className="flex justify-between gap-2">
                <span className="font-medium">{t(`act.${event.act}`)}</span>
                <time
                  dateTime={isoTime(event.at)}
                  title={`${localTime(event.at, language, true)}\n${isoTime(event.at)} (UTC)`}
                  className="text-xs whitespace-nowrap text-muted tabular-nums"
                >
                  {all[at + 1] && <span className="mr-2 text-faint">+{duration(event.at - all[at + 1]!.at)}</span>}
                  {preciseTime(event.at, language)}
                </time>
              </span>
              {eventDetails(event).map((details) => (
                <span key={details} className="block text-xs break-words text-muted">
                  {details}
                </span>
              ))}
            </span>
          </li>
        ))}
      </ol>
    </>
  );
}
