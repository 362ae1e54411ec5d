import { useQuery, useQueryClient } from "@tanstack/react-query";
import { call, type Schemas, type State, token } from "./client";
import { timed } from "./clock";

export type Me = Schemas["Me"];
export type Scope = Schemas["Scope"];
export type JobAct = Me["acts"][string][number];

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

/** What can be done to a job of this state, as far as the caller may. */
export function useActs(state: State): readonly JobAct[] {
  return useMe().data?.acts[state] ?? [];
}

/** Whether the caller may do what needs this scope; buttons that the server would refuse are not shown. */
export function useMay(scope: Scope): boolean {
  return useMe().data?.scopes.includes(scope) ?? false;
}
