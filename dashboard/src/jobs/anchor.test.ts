import { expect, it } from "vitest";
import { placeOf } from "./anchor";

it("follows the row that is being read", () => {
  expect(placeOf(["a", "b", "c"], ["new", "a", "b", "c"], 1)).toBe(2);
  expect(placeOf(["a", "b", "c"], ["b", "c"], 2)).toBe(1);
});

it("takes the next one when that row is gone", () => {
  expect(placeOf(["a", "b", "c"], ["a", "c"], 1)).toBe(1);
  expect(placeOf(["a", "b"], [], 1)).toBe(0);
});
