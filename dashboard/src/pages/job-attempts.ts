import type { Attempt, Job } from "../api/jobs";

/** One attempt: when it ran, on which worker, and how it ended. */
export interface AttemptRow {
  number: number;
  /** The act that ended it; null while it runs. */
  act: string | null;
  worker: string;
  startedAt: number | null;
  endedAt: number | null;
  /** Seconds from being queued to being claimed. */
  waited: number | null;

  failure: Attempt | null;
}

/** All known attempts, latest first. */
export function attemptRows(job: Job): AttemptRow[] {
  const failed = job.history.map((failure) => ({
    number: failure.attempt,
    act: failure.act,
    worker: failure.worker,
    startedAt: failure.started_at || null,
    endedAt: failure.at,
    waited: waitSeconds(job, failure.started_at || null),
    failure,
  }));
  const current = currentAttempt(job);
  return [...failed, ...(current ? [current] : [])].toReversed();
}

/** The attempt that is running or has completed: the history holds the failed ones only. */
function currentAttempt(job: Job): AttemptRow | null {
  if ((job.state !== "processing" && job.state !== "completed") || job.started_at === null) return null;
  const ended = job.state === "completed";
  return {
    number: job.attempts,
    act: ended ? "complete" : null,
    worker: job.worker,
    startedAt: job.started_at,
    endedAt: ended ? job.finished_at : null,
    waited: waitSeconds(job, job.started_at),
    failure: null,
  };
}

/** A job waits from the last event that queued it until its claim. */
function waitSeconds(job: Job, claimedAt: number | null): number | null {
  if (claimedAt === null) return null;
  const queued = job.timeline?.findLast((event) => event.to === "queued" && event.at <= claimedAt);
  return queued ? claimedAt - queued.at : null;
}
