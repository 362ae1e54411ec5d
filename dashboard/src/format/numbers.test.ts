import { describe, expect, it } from "vitest";
import { bytes, coarseDuration, duration, rate, secondsLeft } from "./numbers";

describe("durations", () => {
  it.each([
    [0.0351, "35ms"],
    [1.234, "1.2s"],
    [59.9, "59s"],
    [125, "2m 5s"],
    [120, "2m"],
    [3600 * 5 + 61, "5h 1m"],
    [86_400 * 3 + 3600 * 4, "3d 4h"],
  ])("of %d seconds are %s", (seconds, text) => expect(duration(seconds)).toBe(text));

  it.each([
    [0.4, "0s"],
    [1.9, "1s"],
    [9.99, "9s"],
    [61, "1m 1s"],
  ])("that tick have whole seconds: %d is %s", (seconds, text) =>
    expect(coarseDuration(seconds)).toBe(text),
  );
});

describe("the countdown", () => {
  it.each([
    [30, 30],
    [29.01, 30],
    [0.01, 1],
    [0, null],
    [-5, null],
  ])("with %d seconds left shows %s", (left, shown) => {
    expect(secondsLeft(1000 + left, 1000)).toBe(shown);
  });
});

it("writes rates and sizes short", () => {
  expect([0, 0.05, 1.24, 1234.4].map(rate)).toEqual(["0", "0.05", "1.2", "1,234"]);
  expect([12, 2048, 1024 * 1024].map(bytes)).toEqual(["12 B", "2.0 kB", "1.0 MB"]);
});
