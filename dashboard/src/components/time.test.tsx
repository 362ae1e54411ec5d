import { act, render, screen } from "@testing-library/react";
import { afterEach, beforeEach, describe, expect, it, vi } from "vitest";
import { clock } from "../api/clock";
import { Countdown, localTime, preciseTime } from "./time";

describe("the countdown", () => {
  beforeEach(() => vi.useFakeTimers({ now: 0 }));
  afterEach(() => {
    vi.useRealTimers();
  });

  const pass = (seconds: number) => act(() => vi.advanceTimersByTime(seconds * 1000));

  it("counts down from 30s to a red Overdue", () => {
    clock.sync(1000, performance.now());
    render(<Countdown deadline={1030} />);
    const texts: string[] = [];
    for (let second = 0; second <= 35; second += 5) {
      texts.push(document.body.textContent);
      pass(5);
    }
    expect(texts).toEqual(["30s", "25s", "20s", "15s", "10s", "5s", "Overdue", "Overdue"]);
    expect(screen.getByText("Overdue").className).toContain("text-danger");
  });

  it("starts again when the lease is extended", () => {
    clock.sync(1000, performance.now());
    const { rerender } = render(<Countdown deadline={1005} />);
    pass(6);
    expect(document.body.textContent).toBe("Overdue");
    rerender(<Countdown deadline={1030} />);
    expect(document.body.textContent).toBe("24s");
  });

  it("is empty without a deadline, and unknown before the first response", () => {
    clock.reset();
    const { rerender } = render(<Countdown deadline={1030} />);
    expect(document.body.textContent).toBe("…");
    rerender(<Countdown deadline={null} />);
    expect(document.body.textContent).toBe("—");
  });
});

it("writes midnight as 00 and two digits for each part, in every language", () => {
  const at = new Date(2026, 10, 16, 0, 5, 9).getTime() / 1000;
  for (const language of ["en", "es"]) {
    expect(localTime(at, language, true)).toMatch(/ 00:05:09$/);
    expect(preciseTime(at + 0.25, language)).toMatch(/^00:05:09[.,]250$/);
  }
});
