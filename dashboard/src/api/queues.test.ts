import { afterEach, describe, expect, it, vi } from "vitest";
import { bulk } from "./queues";

afterEach(() => vi.unstubAllGlobals());

/** Stub `fetch` with these responses in turn; returns the bodies of the requests. */
function stubService(...responses: object[]) {
  const requests: Record<string, unknown>[] = [];
  vi.stubGlobal("fetch", (_: string, request: RequestInit) => {
    requests.push(JSON.parse(String(request.body)));
    const response = new Response(JSON.stringify(responses.shift()), {
      headers: { "content-type": "application/json" },
    });
    return Promise.resolve(response);
  });
  return requests;
}

describe("a bulk action", () => {
  it("continues until there is no cursor", async () => {
    const requests = stubService({ count: 2, cursor: "[1,2]" }, { count: 1, cursor: null });

    expect((await bulk("email", "cancel", { states: ["queued"] })).count).toBe(3);
    expect(requests.map((body) => body.cursor)).toEqual([undefined, "[1,2]"]);
  });

  it("sends the time of its preview", async () => {
    const requests = stubService({ count: 1, cursor: null });

    await bulk("email", "delete", { states: ["failed"] }, { asOf: "then" });
    expect(requests.map((body) => body.as_of)).toEqual(["then"]);
  });

  it("continues through an error group", async () => {
    const requests = stubService({ count: 2, cursor: "[1,2]" }, { count: 0, cursor: null });

    const filter = { states: ["failed" as const], fingerprint: "f" };
    expect((await bulk("email", "redrive", filter, { rate: 5 })).count).toBe(2);
    expect(requests[1]).toMatchObject({ filter: { fingerprint: "f" }, rate: 5, cursor: "[1,2]" });
  });
});
