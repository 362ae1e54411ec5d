import { describe, expect, it } from "vitest";
import { importable, readJob, type Row, rowsOf, withPayload } from "./jobs";

describe("a job from the service", () => {
  it("has its payload as it was written", () => {
    const job = readJob('{"id":"a","payload":{"n":1e400},"result":null,"progress":[1]}');
    expect([job.id, job.payload, job.result, job.progress]).toEqual([
      "a",
      '{"n":1e400}',
      "null",
      "[1]",
    ]);
  });
});

describe("a body with a payload", () => {
  it("sends the payload as it was typed", () => {
    expect(withPayload({ priority: 9 }, "1.0")).toBe('{"payload":1.0,"priority":9}');
    expect(withPayload({}, "1.0")).toBe('{"payload":1.0}');
    expect(withPayload({ priority: 9 }, undefined)).toBe('{"priority":9}');
  });
});

describe("a line to import", () => {
  it("is taken as it is", () => {
    expect(importable('{"payload": 1, "unknown": 2}')).toBe('{"payload": 1, "unknown": 2}');
  });

  it("keeps of an exported job what it was enqueued with", () => {
    const line = '{"queue":"mail","id":"a","state":"failed","payload":{"n":1.0},"lease":null,"priority":5}';
    expect(importable(line)).toBe('{"id":"a","payload":{"n":1.0},"priority":5}');
  });
});

describe("rows of several pages", () => {
  it("has a job once that moved from one page to the next meanwhile", () => {
    const row = (id: string) => ({ id }) as Row;
    const pages = [
      { now: 1, rows: [row("a"), row("b")], cursor: "x" },
      { now: 2, rows: [row("b"), row("c")], cursor: null },
    ];
    expect(rowsOf({ pages, pageParams: [] }).map((one) => one.id)).toEqual(["a", "b", "c"]);
  });
});
