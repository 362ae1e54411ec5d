import { expect, it } from "vitest";
import { diffLines } from "./diff";

it("pairs equal lines, and changed lines with their replacements", () => {
  expect(diffLines("a\nb\nc", "a\nx\nc\nd")).toEqual([
    ["a", "a"],
    ["b", "x"],
    ["c", "c"],
    [null, "d"],
  ]);
});

it("finds inserted lines", () => {
  expect(diffLines("a\nc", "a\nb\nc")).toEqual([
    ["a", "a"],
    [null, "b"],
    ["c", "c"],
  ]);
});

it("pairs the lines of long texts by number", () => {
  const long = "x\n".repeat(5000);
  expect(diffLines(long, `y\n${long}`)[0]).toEqual(["x", "y"]);
});
