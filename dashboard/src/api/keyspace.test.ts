import { expect, it, vi } from "vitest";
import { readKeys, writeKey } from "./keyspace";

const TEXT = '{ "b": 1.0,\n  "a": 1e400, "n": 123456789012345678901234567890 }';

it("reads and writes the values of keys as text, unchanged", async () => {
  const [entry] = readKeys(`[{"key":["alerts","7"],"value":${TEXT},"version":3}]`);
  expect(entry).toEqual({ key: ["alerts", "7"], value: TEXT, version: 3 });
  // The control: parsing loses numbers, whitespace, or both.
  expect(JSON.stringify(JSON.parse(TEXT), null, 2)).not.toContain("1e400");

  const sent = vi.spyOn(globalThis, "fetch").mockResolvedValue(new Response("{}"));
  await writeKey(entry!.key, entry!.value, entry!.version);
  expect(sent.mock.calls[0]?.[1]?.body).toBe(`{"value":${TEXT},"version":3}`);
});
