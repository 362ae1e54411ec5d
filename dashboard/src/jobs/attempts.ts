import type { Attempt, Job } from "../api/jobs";

/** One delivery: how long it waited and ran, on which worker, and how it ended. */
export interface Tried {
  number: number;
  /** How it ended: null as long as it runs. */
  act: string | null;
  worker: string;
  startedAt: number | null;
  endedAt: number | null;
  /** Seconds from when it could have been claimed to when it was. */
  waited: number | null;
  /** What went wrong, if something did. */
  failure: Attempt | null;
}

/** Every attempt that is known, the last one first. */
export function attemptsOf(job: Job): Tried[] {
  const failed = job.history.map((failure) => ({
    number: failure.attempt,
    act: failure.act,
    worker: failure.worker,
    startedAt: failure.started_at || null,
    endedAt: failure.at,
    waited: waitedFor(job, failure.started_at || null),
    failure,
  }));
  const present = presentOf(job);
  return [...failed, ...(present ? [present] : [])].toReversed();
}

/** The attempt that runs or has completed: the history tells only of the others. */
function presentOf(job: Job): Tried | null {
  if ((job.state !== "processing" && job.state !== "completed") || job.started_at === null) return null;
  const ended = job.state === "completed";
  return {
    number: job.attempts,
    act: ended ? "complete" : null,
    worker: job.worker,
    startedAt: job.started_at,
    endedAt: ended ? job.finished_at : null,
    waited: waitedFor(job, job.started_at),
    failure: null,
  };
}

/** It waits since the last event before its claim that put it in line. */
function waitedFor(job: Job, claimedAt: number | null): number | null {
  if (claimedAt === null) return null;
  const queued = job.timeline?.findLast((event) => event.to === "queued" && event.at <= claimedAt);
  return queued ? claimedAt - queued.at : null;
}
