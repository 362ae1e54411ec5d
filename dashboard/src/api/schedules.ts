import { useQuery } from "@tanstack/react-query";
import { call, type Schemas, v1 } from "./client";
import { withPayload } from "./jobs";

export type Schedule = Schemas["ScheduleDocument"];

export const schedulesKey = ["schedules"] as const;

/** The schedules of all queues, also of queues that do not exist yet, next tick first. */
export function useSchedules() {
  return useQuery({
    queryKey: schedulesKey,
    queryFn: async ({ signal }) =>
      (await call<Schemas["ScheduleList"]>("GET", "/v1/schedules", { signal })).schedules,
    refetchInterval: 10_000,
  });
}

export interface NewSchedule {
  cron: string;
  kind: string;
  timezone: string;
}

export const putSchedule = (queue: string, name: string, schedule: NewSchedule, payload: string) =>
  call<Schedule>("PUT", v1`/queues/${queue}/schedules/${name}`, {
    raw: withPayload(schedule, payload),
  });

export const deleteSchedule = (queue: string, name: string) =>
  call<void>("DELETE", v1`/queues/${queue}/schedules/${name}`);
