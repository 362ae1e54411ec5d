import { useQuery } from "@tanstack/react-query";
import { call, type Schemas } from "./client";

export type KeyEntry = Omit<Schemas["KeyDocument"], "value"> & { value: unknown };

export const keyspaceKey = ["keyspace"] as const;

const path = (key: readonly string[]) => `/v1/keys/${key.map(encodeURIComponent).join("/")}`;

export function useKeyspace(prefix: string[]) {
  return useQuery({
    queryKey: [...keyspaceKey, ...prefix],
    queryFn: ({ signal }) =>
      call<KeyEntry[]>("GET", "/v1/keys", { query: { prefix, limit: 1000 }, signal }),
    refetchInterval: 5000,
  });
}

/** Write a key, only if nobody else has changed it meanwhile; version 0: only if there is none. */
export const writeKey = (key: readonly string[], value: string, version: number) =>
  call<KeyEntry>("PUT", path(key), { raw: `{"value":${value},"version":${version}}` });

export const deleteKey = (key: readonly string[]) => call<unknown>("DELETE", path(key));
