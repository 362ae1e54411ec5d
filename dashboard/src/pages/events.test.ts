import { describe, expect, it } from "vitest";
import type { JournalEvent } from "../api/events";
import { matches } from "./events";

describe("events", () => {
  const event = { queue: "mail", act: "fail", id: "order-7", kind: "k", worker: "w", note: "", by: "" };
  it("match by queue, act and text", () => {
    const matching = (filter: object) => matches(event as JournalEvent, { queue: "", act: "", text: "", ...filter });
    expect([{}, { queue: "mail" }, { act: "fail" }, { text: "DER-7" }].every(matching)).toBe(true);
    expect([{ queue: "x" }, { act: "claim" }, { text: "absent" }].some(matching)).toBe(false);
  });
});
