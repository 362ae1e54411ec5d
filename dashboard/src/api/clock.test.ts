import { afterEach, describe, expect, it, vi } from "vitest";
import { clock, timed } from "./clock";

describe("the store's clock", () => {
  afterEach(() => vi.useRealTimers());

  it("goes by what the store said, whatever the browser takes for today", async () => {
    vi.useFakeTimers({ now: 0 });
    await timed(async () => ({ now: 1_900_000_000 }));

    vi.advanceTimersByTime(2500);
    vi.setSystemTime(new Date("1999-01-01"));

    expect(clock.now()).toBeCloseTo(1_900_000_002.5, 3);
  });

  it("takes the middle of the request for the moment of the answer", async () => {
    vi.useFakeTimers({ now: 0 });
    await timed(async () => {
      vi.advanceTimersByTime(400);
      return { now: 1000 };
    });
    expect(clock.now()).toBeCloseTo(1000.2, 3);
  });

  it("knows nothing before the store has spoken", () => {
    clock.forget();
    expect(clock.now()).toBeNull();
  });
});
