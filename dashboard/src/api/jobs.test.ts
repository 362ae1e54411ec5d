import { describe, expect, it } from "vitest";
import { countLines, importLine, readJob, restorable, type Row, rowsOf, withPayload } from "./jobs";

describe("a job from the service", () => {
  it("has its payload as written", () => {
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
  it("has the payload as typed", () => {
    expect(withPayload({ priority: 9 }, "1.0")).toBe('{"payload":1.0,"priority":9}');
    expect(withPayload({}, "1.0")).toBe('{"payload":1.0}');
    expect(withPayload({ priority: 9 }, undefined)).toBe('{"priority":9}');
  });
});

describe("a job that is restored", () => {
  const options = {
    max_attempts: 3,
    backoff: { shape: "schedule", delays: [1, 2] },
    lease: null,
    callback_url: "https://example.com/done",
    keys_if_undelivered: [["alerts", "7"]],
    headers: { x: "y" },
    trace: null,
  };
  const job = (more: object) =>
    readJob(
      JSON.stringify({ id: "a", kind: "k", priority: 7, run_at: 9, codec: "json", attempts: 0, history: [], state: "cancelled", ...options, ...more, payload: 1 }).replace(
        '"payload":1',
        '"payload":{"n":1.10}',
      ),
    );

  it("has all of its options, and its payload as written", () => {
    const line = importLine(job({}));
    expect(line).toContain('{"payload":{"n":1.10},');
    expect(JSON.parse(line)).toMatchObject(options);
  });

  it("never ran, and has a JSON payload", () => {
    expect(restorable(job({}))).toBe(true);
    expect(restorable(job({ attempts: 1 }))).toBe(false);
    expect(restorable(job({ codec: "msgpack" }))).toBe(false);
  });
});

it("counts the lines of a file", async () => {
  const file = { arrayBuffer: async () => new TextEncoder().encode("{}\n{}\n").buffer } as Blob;
  expect(await countLines(file)).toBe(2);
});

describe("rows of several pages", () => {
  it("have a job once if it moved between pages", () => {
    const row = (id: string) => ({ id }) as Row;
    const pages = [
      { now: 1, summaries: [row("a"), row("b")], cursor: "x" },
      { now: 2, summaries: [row("b"), row("c")], cursor: null },
    ];
    expect(rowsOf({ pages, pageParams: [] }).map((one) => one.id)).toEqual(["a", "b", "c"]);
  });
});
