import { afterEach, describe, expect, it, vi } from "vitest";
import { clock, syncClock } from "./clock";

describe("the store's clock", () => {
  afterEach(() => vi.useRealTimers());

  it("follows the time of the store, whatever the date of the browser", async () => {
    vi.useFakeTimers({ now: 0 });
    await syncClock(async () => ({ now: 1_900_000_000 }));

    vi.advanceTimersByTime(2500);
    vi.setSystemTime(new Date("1999-01-01"));

    expect(clock.now()).toBeCloseTo(1_900_000_002.5, 3);
  });

  it("assumes that the response was written half-way through the request", async () => {
    vi.useFakeTimers({ now: 0 });
    await syncClock(async () => {
      vi.advanceTimersByTime(400);
      return { now: 1000 };
    });
    expect(clock.now()).toBeCloseTo(1000.2, 3);
  });

  it("is unknown before the first response", () => {
    clock.reset();
    expect(clock.now()).toBeNull();
  });
});
