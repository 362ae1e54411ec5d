import { describe, expect, it } from "vitest";
import { bulkFilter } from "./queue-bulk";

describe("the filter of a bulk action", () => {
  const query = { queue: "mail", state: "failed", kind: "a", text: "b" } as const;
  it("is the selection, or everything that the view matches", () => {
    expect(bulkFilter(query, ["x"])).toEqual({ states: ["failed"], ids: ["x"] });
    expect(bulkFilter(query, null)).toEqual({ states: ["failed"], kinds: ["a"], text: "b" });
  });
});
