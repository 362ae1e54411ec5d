import { useQuery, useQueryClient } from "@tanstack/react-query";
import { call, type Schemas, type State, token } from "./client";
import { syncClock } from "./clock";

export type Me = Schemas["Me"];
export type Scope = Schemas["Scope"];
export type JobAct = Me["acts"][string][number];

export const meKey = ["me"] as const;

export const fetchMe = (): Promise<Me> => syncClock(() => call<Me>("GET", "/v1/me"));

export function useMe() {
  return useQuery({ queryKey: meKey, queryFn: fetchMe, staleTime: 30_000 });
}

/** Remove the token and everything that was fetched with it. */
export function useSignOut(): () => void {
  const client = useQueryClient();
  return () => {
    token.clear();
    client.clear();
    location.assign("/");
  };
}

/** The acts that are legal for a job of this state and allowed for the caller. */
export function useJobActs(state: State): readonly JobAct[] {
  return useMe().data?.acts[state] ?? [];
}

/** Whether the caller has a scope; actions that need a missing scope are hidden. */
export function useScope(scope: Scope): boolean {
  return useMe().data?.scopes.includes(scope) ?? false;
}
