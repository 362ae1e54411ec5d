import { render, screen } from "@testing-library/react";
import { expect, it } from "vitest";
import { Id, JobLink } from "./id";


const LONG = "019a8f3c-7d1e-7c44-9a51-2f6b0c9de7a1";

it("keeps the end of an id out of what is cut, and all of it in its text and title", () => {
  const { container } = render(<Id>{LONG}</Id>);
  expect(container.querySelector(".truncate")?.textContent).toBe(LONG.slice(0, -8));
  expect(container.textContent).toBe(LONG);
  expect(screen.getByTitle(LONG)).toBeTruthy();
});

it("cuts nothing of a short id, and no character in two", () => {
  const { container, rerender } = render(<Id>mail-7</Id>);
  expect(container.querySelector(".truncate")).toBeNull();
  rerender(<Id>{"🙂".repeat(12)}</Id>);
  expect(container.querySelector(".truncate")?.textContent).toBe("🙂".repeat(4));
});

it("is read out as one", () => {
  render(<JobLink queue="mail" id={LONG} />);
  expect(screen.getByRole("link", { name: LONG })).toHaveProperty("pathname", `/queues/mail/jobs/${LONG}`);
});
