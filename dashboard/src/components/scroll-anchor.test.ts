import { expect, it } from "vitest";
import { anchoredIndex } from "./scroll-anchor";

it("follows the first visible row", () => {
  expect(anchoredIndex(["a", "b", "c"], ["new", "a", "b", "c"], 1)).toBe(2);
  expect(anchoredIndex(["a", "b", "c"], ["b", "c"], 2)).toBe(1);
});

it("uses the next row if that one was removed", () => {
  expect(anchoredIndex(["a", "b", "c"], ["a", "c"], 1)).toBe(1);
  expect(anchoredIndex(["a", "b"], [], 1)).toBe(0);
});
