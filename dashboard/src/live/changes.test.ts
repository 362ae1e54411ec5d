import { describe, expect, it } from "vitest";
import type { State } from "../api/client";
import type { JournalEvent } from "../api/events";
import { pair, summarize } from "./changes";

const event = (id: string, source: State | null, to: State | null, queue = "mail") =>
  ({ queue, id, source, to, act: "claim" }) as JournalEvent;

describe("what events change", () => {
  it("strikes a job out of the state that it left, and asks for the one it came to", () => {
    const changes = summarize([event("a", "queued", "processing")]);
    expect(changes.left).toEqual(new Map([[pair("mail", "queued"), new Set(["a"])]]));
    expect(changes.entered).toEqual(new Map([[pair("mail", "processing"), new Set(["a"])]]));
    expect(changes.jobs).toEqual(new Set([pair("mail", "a")]));
  });

  it("does not strike out a job that came back in the same breath", () => {
    const changes = summarize([event("a", "queued", "processing"), event("a", "processing", "queued")]);
    expect(changes.left.get(pair("mail", "queued"))).toEqual(new Set());
    expect(changes.left.get(pair("mail", "processing"))).toEqual(new Set(["a"]));
    expect(changes.entered.get(pair("mail", "processing"))).toEqual(new Set());
  });

  it("asks for an edited job again where it stands", () => {
    const changes = summarize([event("a", "queued", "queued")]);
    expect(changes.left.size).toBe(0);
    expect(changes.entered).toEqual(new Map([[pair("mail", "queued"), new Set(["a"])]]));
  });

  it("takes an act on a whole queue for a change of all its lists", () => {
    expect(summarize([event("", null, null)]).stale).toEqual(new Set([pair("mail", "*")]));
  });

  it("keeps queues apart whose names meet", () => {
    const changes = summarize([event("c", "queued", null, "a/b"), event("b/c", "queued", null, "a")]);
    expect(changes.jobs.size).toBe(2);
  });
});
