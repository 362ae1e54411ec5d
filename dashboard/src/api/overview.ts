import { useQuery } from "@tanstack/react-query";
import { call, type Schemas } from "./client";
import { syncClock } from "./clock";

export type Overview = Schemas["Overview"];
export type QueueOverview = Schemas["QueueOverview"];

export const overviewKey = ["overview"] as const;

export function useOverview() {
  return useQuery({
    queryKey: overviewKey,
    queryFn: ({ signal }) => syncClock(() => call<Overview>("GET", "/v1/overview", { signal })),
    // Ages and rates change even without events.
    refetchInterval: (query) => (query.state.data?.complete === false ? 300 : 5000),
  });
}
