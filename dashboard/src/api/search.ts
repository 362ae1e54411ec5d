import { useQuery } from "@tanstack/react-query";
import { call, type Schemas } from "./client";

export type SearchHit = Schemas["SearchHit"];

export function useSearch(text: string) {
  return useQuery({
    queryKey: ["search", text],
    enabled: text !== "",
    queryFn: ({ signal }) =>
      call<Schemas["SearchResults"]>("GET", "/v1/search", { query: { text }, signal }),
  });
}
