import { act, fireEvent, render, screen } from "@testing-library/react";
import { afterEach, beforeEach, expect, it, vi } from "vitest";
import { ToastProvider, useToasts } from "./toasts";

let toasts: ReturnType<typeof useToasts>;

function CaptureToasts() {
  toasts = useToasts();
  return null;
}

beforeEach(() => {
  vi.useFakeTimers();
  render(
    <ToastProvider>
      <CaptureToasts />
    </ToastProvider>,
  );
});
afterEach(() => {
  vi.useRealTimers();
});

it("keeps an error until it is dismissed, however many successes follow", () => {
  act(() => toasts.showError(new Error("the queue is full")));
  for (const n of [1, 2, 3, 4]) act(() => toasts.showSuccess(`done ${n}`));
  act(() => vi.advanceTimersByTime(60_000));

  expect(screen.queryByText("done 4")).toBeNull();
  expect(screen.getByRole("alert").textContent).toBe("the queue is full");
  fireEvent.click(screen.getByRole("button", { name: "Dismiss" }));
  expect(screen.queryByRole("alert")).toBeNull();
});

it("shows the latest successes", () => {
  for (const n of [1, 2, 3, 4]) act(() => toasts.showSuccess(`done ${n}`));
  expect(screen.queryByText("done 1")).toBeNull();
  expect(screen.getByText("done 4")).toBeTruthy();
});
