/** From events to what a page has to fetch again, and what it can strike out by itself. */
import type { State } from "../api/client";
import type { JournalEvent } from "../api/events";

export interface Changes {
  /** Jobs that left a state, by queue and state. */
  left: Map<string, Set<string>>;
  /** Jobs that came to a state or changed in it, by queue and state. */
  entered: Map<string, Set<string>>;
  /** Lists that have something new, nobody said what. */
  stale: Set<string>;
  /** Jobs to which something happened. */
  jobs: Set<string>;
  queues: Set<string>;
}

/** A queue with a state or an id; names may hold any character but this. */
export const pair = (queue: string, what: string): string => `${queue}\0${what}`;

export function summarize(events: readonly JournalEvent[]): Changes {
  const changes: Changes = {
    left: new Map(),
    entered: new Map(),
    stale: new Set(),
    jobs: new Set(),
    queues: new Set(),
  };
  for (const one of events) {
    changes.queues.add(one.queue);
    if (!one.id) {
      noteWholeQueue(changes, one);
      continue;
    }
    changes.jobs.add(pair(one.queue, one.id));
    if (one.source && one.source !== one.to) leave(changes, one.queue, one.source, one.id);
    if (one.to) enter(changes, one.queue, one.to, one.id);
  }
  return changes;
}

/** A purge or a prune may name no job: then every list of the queue may have changed. */
function noteWholeQueue(changes: Changes, one: JournalEvent): void {
  changes.stale.add(pair(one.queue, one.source ?? "*"));
}

function leave(changes: Changes, queue: string, state: State, id: string): void {
  const key = pair(queue, state);
  const ids = changes.left.get(key) ?? new Set();
  changes.left.set(key, ids.add(id));
  changes.entered.get(key)?.delete(id);
}

function enter(changes: Changes, queue: string, state: State, id: string): void {
  const key = pair(queue, state);
  changes.left.get(key)?.delete(id);
  const ids = changes.entered.get(key) ?? new Set();
  changes.entered.set(key, ids.add(id));
}
