import { expect, it } from "vitest";
import { downsample, pointLabel } from "./charts";

it("sums neighbours where there are too many points", () => {
  expect(downsample([1, 1, 1, 1, 1], 2)).toEqual([3, 2]);
});

it("labels a point with seconds or with the day, depending on the interval", () => {
  const noon = new Date(2026, 10, 16, 0, 0).getTime() / 1000;
  expect(pointLabel(noon, [noon, noon + 10])).toBe("00:00:00");
  expect(pointLabel(noon, [noon, noon + 3600])).toBe("Nov 16, 00:00");
});
