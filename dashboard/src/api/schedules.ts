import { useQuery } from "@tanstack/react-query";
import { call, type Schemas, v1 } from "./client";
import { withPayload } from "./jobs";

export type Schedule = Schemas["ScheduleDocument"];

export const schedulesKey = (queues: string[]) => ["schedules", ...queues] as const;

export function useSchedules(queues: string[] | undefined) {
  return useQuery({
    queryKey: schedulesKey(queues ?? []),
    enabled: queues !== undefined,
    refetchInterval: 10_000,
    queryFn: async ({ signal }) => {
      const ask = (queue: string) =>
        call<Schemas["Schedules"]>("GET", v1`/queues/${queue}/schedules`, { signal });
      const found = await Promise.all((queues ?? []).map(ask));
      return found.flatMap((one) => one.schedules).sort((a, b) => a.next_at - b.next_at);
    },
  });
}

export interface NewSchedule {
  cron: string;
  kind: string;
  timezone: string;
}

export const putSchedule = (queue: string, name: string, said: NewSchedule, payload: string) =>
  call<Schedule>("PUT", v1`/queues/${queue}/schedules/${name}`, {
    raw: withPayload(said, payload),
  });

export const deleteSchedule = (queue: string, name: string) =>
  call<void>("DELETE", v1`/queues/${queue}/schedules/${name}`);
