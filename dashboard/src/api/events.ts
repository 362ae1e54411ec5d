import { useQuery } from "@tanstack/react-query";
import { call, type Schemas } from "./client";

export type JournalEvent = Schemas["EventDocument"];

/** The details of an event: note, queues of a move, worker, actor. */
export function eventDetails(event: JournalEvent): string[] {
  const moved = event.moved_to && `${event.moved_from} → ${event.moved_to}`;
  return [event.note, moved, event.worker, event.by].filter((one) => !!one) as string[];
}

/** Which events to return; empty fields match all. */
export interface EventFilter {
  queue?: string;
  act?: string;
  text?: string;
}

/** The last `last` events that match, oldest first. */
export const fetchLastEvents = (last: number, filter: EventFilter, signal: AbortSignal) =>
  call<Schemas["EventPage"]>("GET", "/v1/events", { query: { last, ...filter }, signal });

/** How many of a worker's last events are searched for the reason of its exit. */
const MAX_WORKER_EVENTS = 50;

/** The last events of a worker. */
export function useLastEventsOf(worker: string, enabled: boolean) {
  return useQuery({
    queryKey: ["last-of-worker", worker],
    enabled,
    queryFn: ({ signal }) => fetchLastEvents(MAX_WORKER_EVENTS, { text: worker }, signal),
  });
}
