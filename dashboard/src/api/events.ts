import { useQuery } from "@tanstack/react-query";
import { call, type Schemas } from "./client";

export type JournalEvent = Schemas["EventDocument"];

/** What is told of an event beside its job and its act. */
export function details(event: JournalEvent): string[] {
  const moved = event.moved_to && `${event.moved_from} → ${event.moved_to}`;
  return [event.worker, event.by, event.note, moved].filter((one) => !!one) as string[];
}

/** Which events, as the service chooses them; what is empty does not matter. */
export interface EventFilter {
  queue?: string;
  act?: string;
  text?: string;
}

/** The last so many events that match, the oldest first. */
export const fetchLastEvents = (last: number, which: EventFilter, signal: AbortSignal) =>
  call<Schemas["EventPage"]>("GET", "/v1/events", { query: { last, ...which }, signal });

/** Events among which the end of a worker is looked for: they are its last ones. */
const LAST_OF_WORKER = 50;

/** What the journal says of a worker that has died. */
export function useLastOfWorker(worker: string, enabled: boolean) {
  return useQuery({
    queryKey: ["last-of-worker", worker],
    enabled,
    queryFn: ({ signal }) => fetchLastEvents(LAST_OF_WORKER, { text: worker }, signal),
  });
}
