import { useQuery } from "@tanstack/react-query";
import { call, type Schemas } from "./client";

export type Analytics = Schemas["Analytics"];
export type Hour = Schemas["HourlyStats"];

export function useAnalytics(queue: string, days: string) {
  return useQuery({
    queryKey: ["analytics", queue, days],
    queryFn: ({ signal }) =>
      call<Analytics>("GET", "/v1/analytics", { query: { queue, days }, signal }),
    // The pipeline runs at most every ten seconds.
    refetchInterval: 10_000,
  });
}
