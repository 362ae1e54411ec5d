import { expect, it } from "vitest";
import { compare } from "./compare";

it("puts equal lines beside each other, and what was changed beside what it became", () => {
  expect(compare("a\nb\nc", "a\nx\nc\nd")).toEqual([
    ["a", "a"],
    ["b", "x"],
    ["c", "c"],
    [null, "d"],
  ]);
});

it("finds what was put in between", () => {
  expect(compare("a\nc", "a\nb\nc")).toEqual([
    ["a", "a"],
    [null, "b"],
    ["c", "c"],
  ]);
});

it("does not compare what is too long for it", () => {
  const long = "x\n".repeat(5000);
  expect(compare(long, `y\n${long}`)[0]).toEqual(["x", "y"]);
});
