import { useQuery } from "@tanstack/react-query";
import { call, type Schemas } from "./client";
import { timed } from "./clock";

export type Overview = Schemas["Overview"];
export type QueueFigures = Schemas["QueueFigures"];

export const overviewKey = ["overview"] as const;

export function useOverview() {
  return useQuery({
    queryKey: overviewKey,
    queryFn: ({ signal }) => timed(() => call<Overview>("GET", "/v1/overview", { signal })),
    // Ages and rates change also when nothing happens.
    refetchInterval: (query) => (query.state.data?.complete === false ? 300 : 5000),
  });
}
