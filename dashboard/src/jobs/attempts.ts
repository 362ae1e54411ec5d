import type { Attempt, Job } from "../api/jobs";

export interface Tried {
  failure: Attempt;
  /** Seconds from when it could have been claimed to when it was. */
  waited: number | null;
}

/** The attempts that did not complete, the last one first, each with how long it had waited. */
export function attemptsOf(job: Job): Tried[] {
  const tried = job.history.map((failure) => ({
    failure,
    waited: failure.started_at ? waitedFor(job, failure.started_at) : null,
  }));
  return tried.toReversed();
}

/** It waits since the last event before its claim that put it in line. */
function waitedFor(job: Job, claimedAt: number): number | null {
  const queued = job.timeline?.findLast((event) => event.to === "queued" && event.at <= claimedAt);
  return queued ? claimedAt - queued.at : null;
}
