import { describe, expect, it } from "vitest";
import { toJob, toQueue, viewOf } from "./routing";

describe("addresses", () => {
  it.each(["mail", "a/b", "a%2Fb", "team/ünïcode 🚀", "?#&", ".."])(
    "lead back to the queue and the job that they were made for: %s",
    (name) => {
      expect(viewOf(toQueue(name, "failed"))).toEqual({ page: "queue", queue: name, tab: "failed" });
      expect(viewOf(toJob(name, name))).toEqual({ page: "job", queue: name, id: name });
    },
  );

  it.each([
    ["/", "overview"],
    ["/queues", "overview"],
    ["/workers", "workers"],
    ["/keyspace", "keyspace"],
    ["/workers/7", "notFound"],
    ["/queues/mail/unheard-of", "notFound"],
    ["/queues/%E0%A4%A/queued", "queue"],
  ])("%s is %s", (path, page) => expect(viewOf(path).page).toBe(page));
});
