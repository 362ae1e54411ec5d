import { render, screen } from "@testing-library/react";
import { expect, it } from "vitest";
import { Id, JobLink } from "./id";


const LONG = "019a8f3c-7d1e-7c44-9a51-2f6b0c9de7a1";

it("truncates the middle of a long id, and keeps all of it in its text and title", () => {
  const { container } = render(<Id>{LONG}</Id>);
  expect(container.querySelector(".truncate")?.textContent).toBe(LONG.slice(0, -8));
  expect(container.textContent).toBe(LONG);
  expect(screen.getByTitle(LONG)).toBeTruthy();
});

it("does not truncate a short id, and splits no character", () => {
  const { container, rerender } = render(<Id>mail-7</Id>);
  expect(container.querySelector(".truncate")).toBeNull();
  rerender(<Id>{"🙂".repeat(12)}</Id>);
  expect(container.querySelector(".truncate")?.textContent).toBe("🙂".repeat(4));
});

it("is one link for screen readers", () => {
  render(<JobLink queue="mail" id={LONG} />);
  expect(screen.getByRole("link", { name: LONG })).toHaveProperty("pathname", `/queues/mail/jobs/${LONG}`);
});
