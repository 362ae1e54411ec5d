import { expect, it } from "vitest";
import { jobFields } from "./enqueue-dialog";

it("sends only the fields that were filled in", () => {
  const blank = { id: "", kind: "", priority: "", delay: "", max_attempts: "" };
  expect(jobFields(blank)).toEqual({});
  expect(jobFields({ ...blank, id: "1", priority: "0" })).toEqual({ id: "1", priority: 0 });
});
