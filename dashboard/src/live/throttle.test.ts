import { afterEach, beforeEach, describe, expect, it, vi } from "vitest";
import { Throttle } from "./throttle";

describe("a throttle", () => {
  beforeEach(() => vi.useFakeTimers());
  afterEach(() => vi.useRealTimers());

  it("runs the first call immediately, and all calls meanwhile once afterwards", async () => {
    const throttle = new Throttle();
    const work = vi.fn(() => Promise.resolve());
    for (let n = 0; n < 100; n += 1) throttle.run("list", 1000, work);
    expect(work).toHaveBeenCalledTimes(1);
    await vi.advanceTimersByTimeAsync(1000);
    expect(work).toHaveBeenCalledTimes(2);
    await vi.advanceTimersByTimeAsync(5000);
    expect(work).toHaveBeenCalledTimes(2);
  });

  it("waits longer after a slow task", async () => {
    const throttle = new Throttle();
    const work = vi.fn(() => new Promise<void>((done) => setTimeout(done, 2000)));
    throttle.run("list", 1000, work);
    throttle.run("list", 1000, work);
    await vi.advanceTimersByTimeAsync(5900);
    expect(work).toHaveBeenCalledTimes(1);
    await vi.advanceTimersByTimeAsync(200);
    expect(work).toHaveBeenCalledTimes(2);
  });

  it("continues after a failure, and keeps names apart", async () => {
    const throttle = new Throttle();
    const work = vi.fn(() => Promise.reject(new Error("away")));
    throttle.run("a", 1000, work);
    throttle.run("b", 1000, work);
    expect(work).toHaveBeenCalledTimes(2);
    await vi.advanceTimersByTimeAsync(1000);
    throttle.run("a", 1000, work);
    expect(work).toHaveBeenCalledTimes(3);
  });
});
