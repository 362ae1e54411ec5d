import { useQuery } from "@tanstack/react-query";
import { call, type Schemas, send } from "./client";
import { fieldsOf, itemsOf } from "./raw-json";

/** A key with its value as written: numbers, the order of fields, line breaks. */
export interface KeyEntry extends Omit<Schemas["KeyDocument"], "value"> {
  value: string;
}

export const keyspaceKey = ["keyspace"] as const;

const path = (key: readonly string[]) => `/v1/keys/${key.map(encodeURIComponent).join("/")}`;

export function useKeyspace(prefix: string[]) {
  return useQuery({
    queryKey: [...keyspaceKey, ...prefix],
    queryFn: async ({ signal }) => {
      const response = await send("GET", "/v1/keys", { query: { prefix, limit: 1000 }, signal });
      return readKeys(await response.text());
    },
    refetchInterval: 5000,
  });
}

export const readKeys = (text: string): KeyEntry[] =>
  itemsOf(text).map((item) => {
    const { key = "[]", value = "null", version = "0" } = fieldsOf(item);
    return { key: JSON.parse(key) as string[], value, version: Number(version) };
  });

/** Write a key unless it was changed meanwhile (compare-and-set on its version); version 0 creates it. */
export const writeKey = (key: readonly string[], value: string, version: number) =>
  call<unknown>("PUT", path(key), { raw: `{"value":${value},"version":${version}}` });

export const deleteKey = (key: readonly string[]) => call<unknown>("DELETE", path(key));
