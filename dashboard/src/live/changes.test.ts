import { describe, expect, it } from "vitest";
import type { State } from "../api/client";
import type { JournalEvent } from "../api/events";
import { scopedKey, summarize } from "./changes";

const event = (id: string, source: State | null, to: State | null, queue = "mail") =>
  ({ queue, id, source, to, act: "claim" }) as JournalEvent;

describe("what events change", () => {
  it("moves a job from the state that it left to the one that it entered", () => {
    const changes = summarize([event("a", "queued", "processing")]);
    expect(changes.left).toEqual(new Map([[scopedKey("mail", "queued"), new Set(["a"])]]));
    expect(changes.entered).toEqual(new Map([[scopedKey("mail", "processing"), new Set(["a"])]]));
    expect(changes.jobs).toEqual(new Set([scopedKey("mail", "a")]));
  });

  it("keeps a job that returned within the same batch", () => {
    const changes = summarize([event("a", "queued", "processing"), event("a", "processing", "queued")]);
    expect(changes.left.get(scopedKey("mail", "queued"))).toEqual(new Set());
    expect(changes.left.get(scopedKey("mail", "processing"))).toEqual(new Set(["a"]));
    expect(changes.entered.get(scopedKey("mail", "processing"))).toEqual(new Set());
  });

  it("refetches an edited job in its state", () => {
    const changes = summarize([event("a", "queued", "queued")]);
    expect(changes.left.size).toBe(0);
    expect(changes.entered).toEqual(new Map([[scopedKey("mail", "queued"), new Set(["a"])]]));
  });

  it("marks all lists of a queue stale after an act on the whole queue", () => {
    expect(summarize([event("", null, null)]).stale).toEqual(new Set([scopedKey("mail", "*")]));
  });

  it("does not confuse queues whose names concatenate alike", () => {
    const changes = summarize([event("c", "queued", null, "a/b"), event("b/c", "queued", null, "a")]);
    expect(changes.jobs.size).toBe(2);
  });
});
