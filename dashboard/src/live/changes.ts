/** What events change: jobs that left or entered a state, and lists that must be refetched. */
import type { State } from "../api/client";
import type { JournalEvent } from "../api/events";

export interface Changes {
  /** Jobs that left a state, by queue and state. */
  left: Map<string, Set<string>>;
  /** Jobs that entered a state or changed in it, by queue and state. */
  entered: Map<string, Set<string>>;
  /** Lists in which unknown jobs have changed. */
  stale: Set<string>;
  /** Jobs that any event is about. */
  jobs: Set<string>;
  queues: Set<string>;
}

/** A queue together with a state or an id, separated by a character that no name may contain. */
export const scopedKey = (queue: string, name: string): string => `${queue}\0${name}`;

export function summarize(events: readonly JournalEvent[]): Changes {
  const changes: Changes = {
    left: new Map(),
    entered: new Map(),
    stale: new Set(),
    jobs: new Set(),
    queues: new Set(),
  };
  for (const event of events) {
    changes.queues.add(event.queue);
    if (!event.id) {
      markQueueStale(changes, event);
      continue;
    }
    changes.jobs.add(scopedKey(event.queue, event.id));
    if (event.source && event.source !== event.to) markLeft(changes, event.queue, event.source, event.id);
    if (event.to) markEntered(changes, event.queue, event.to, event.id);
  }
  return changes;
}

/** A purge or a prune may name no job: then any list of the queue may have changed. */
function markQueueStale(changes: Changes, event: JournalEvent): void {
  changes.stale.add(scopedKey(event.queue, event.source ?? "*"));
}

function markLeft(changes: Changes, queue: string, state: State, id: string): void {
  const key = scopedKey(queue, state);
  const ids = changes.left.get(key) ?? new Set();
  changes.left.set(key, ids.add(id));
  changes.entered.get(key)?.delete(id);
}

function markEntered(changes: Changes, queue: string, state: State, id: string): void {
  const key = scopedKey(queue, state);
  changes.left.get(key)?.delete(id);
  const ids = changes.entered.get(key) ?? new Set();
  changes.entered.set(key, ids.add(id));
}
