import { useQuery, useQueryClient } from "@tanstack/react-query";
import { call, type Schemas, token } from "./client";
import { timed } from "./clock";

export type Me = Schemas["Me"];
export type Scope = Schemas["Scope"];

export const meKey = ["me"] as const;

export const fetchMe = (): Promise<Me> => timed(() => call<Me>("GET", "/v1/me"));

export function useMe() {
  return useQuery({ queryKey: meKey, queryFn: fetchMe, staleTime: 30_000 });
}

/** Forget who calls, and everything that was fetched for them. */
export function useSignOut(): () => void {
  const client = useQueryClient();
  return () => {
    token.forget();
    client.clear();
    location.assign("/");
  };
}

/** Whether the caller may do what needs this scope; buttons that the server would refuse are not shown. */
export function useMay(scope: Scope): boolean {
  return useMe().data?.scopes.includes(scope) ?? false;
}
