import { afterEach, describe, expect, it, vi } from "vitest";
import { bulk } from "./queues";

afterEach(() => vi.unstubAllGlobals());

/** Answers one after the other, and keeps what was asked. */
function service(...answers: object[]) {
  const asked: Record<string, unknown>[] = [];
  vi.stubGlobal("fetch", (_: string, request: RequestInit) => {
    asked.push(JSON.parse(String(request.body)));
    const answer = new Response(JSON.stringify(answers.shift()), {
      headers: { "content-type": "application/json" },
    });
    return Promise.resolve(answer);
  });
  return asked;
}

describe("an act on many jobs", () => {
  it("goes on until all is done", async () => {
    const asked = service({ count: 2, cursor: "[1,2]" }, { count: 1, cursor: null });

    expect((await bulk("email", "cancel", { states: ["queued"] })).count).toBe(3);
    expect(asked.map((body) => body.cursor)).toEqual([undefined, "[1,2]"]);
  });

  it("is sent with the time of its preview", async () => {
    const asked = service({ count: 1, cursor: null });

    await bulk("email", "delete", { states: ["failed"] }, { asOf: "then" });
    expect(asked.map((body) => body.as_of)).toEqual(["then"]);
  });

  it("goes on through the dead letters of a group", async () => {
    const asked = service({ count: 2, cursor: "[1,2]" }, { count: 0, cursor: null });

    const which = { states: ["failed" as const], fingerprint: "f" };
    expect((await bulk("email", "redrive", which, { rate: 5 })).count).toBe(2);
    expect(asked[1]).toMatchObject({ filter: { fingerprint: "f" }, rate: 5, cursor: "[1,2]" });
  });
});
