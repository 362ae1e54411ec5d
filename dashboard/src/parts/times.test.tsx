import { act, render, screen } from "@testing-library/react";
import { afterEach, beforeEach, describe, expect, it, vi } from "vitest";
import { clock } from "../api/clock";
import { Countdown, exact, local } from "./times";

describe("the countdown", () => {
  beforeEach(() => vi.useFakeTimers({ now: 0 }));
  afterEach(() => {
    vi.useRealTimers();
  });

  const pass = (seconds: number) => act(() => vi.advanceTimersByTime(seconds * 1000));

  it("goes from 30s by seconds to a red Overdue", () => {
    clock.heard(1000, performance.now());
    render(<Countdown deadline={1030} />);
    const seen: string[] = [];
    for (let second = 0; second <= 35; second += 5) {
      seen.push(document.body.textContent);
      pass(5);
    }
    expect(seen).toEqual(["30s", "25s", "20s", "15s", "10s", "5s", "Overdue", "Overdue"]);
    expect(screen.getByText("Overdue").className).toContain("text-danger");
  });

  it("jumps up when the lease is extended", () => {
    clock.heard(1000, performance.now());
    const { rerender } = render(<Countdown deadline={1005} />);
    pass(6);
    expect(document.body.textContent).toBe("Overdue");
    rerender(<Countdown deadline={1030} />);
    expect(document.body.textContent).toBe("24s");
  });

  it("says nothing of a job without a deadline, or before the store's time is known", () => {
    clock.forget();
    const { rerender } = render(<Countdown deadline={1030} />);
    expect(document.body.textContent).toBe("…");
    rerender(<Countdown deadline={null} />);
    expect(document.body.textContent).toBe("—");
  });
});

it("writes midnight as 00, with two digits for each part, in every language", () => {
  const at = new Date(2026, 10, 16, 0, 5, 9).getTime() / 1000;
  for (const language of ["en", "es"]) {
    expect(local(at, language, true)).toMatch(/ 00:05:09$/);
    expect(exact(at + 0.25, language)).toMatch(/^00:05:09[.,]250$/);
  }
});
