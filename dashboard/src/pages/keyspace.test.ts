import { expect, it } from "vitest";
import { partsOf, prefixOf } from "./keyspace";

it("splits a typed key into its parts", () => expect(partsOf("/a//b c/")).toEqual(["a", "b c"]));

it("filters by whole parts of a key, and by the start of the last one", () => {
  expect(prefixOf("undelivered/nor")).toEqual({ parts: ["undelivered"], rest: "nor" });
  expect(prefixOf("undelivered/")).toEqual({ parts: ["undelivered"], rest: "" });
  expect(prefixOf("")).toEqual({ parts: [], rest: "" });
});
