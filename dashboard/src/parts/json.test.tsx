import { cleanup, render, screen } from "@testing-library/react";
import userEvent from "@testing-library/user-event";
import { afterEach, expect, it } from "vitest";
import { JsonEditor, JsonView } from "./json";

afterEach(cleanup);

it("shows what looks like markup as text", () => {
  render(<JsonView text={'{"a":"<img src=x onerror=alert(1)>"}'} name="Payload" />);
  expect(screen.getByLabelText("Payload").textContent).toContain("<img src=x onerror=alert(1)>");
  expect(document.querySelector("img")).toBeNull();
});

it("shows the beginning of a large payload, and all of it if asked", async () => {
  render(<JsonView text={JSON.stringify("x".repeat(1_000_000))} name="Payload" />);
  const shown = screen.getByLabelText("Payload");
  expect(shown.textContent.length).toBeLessThan(21_000);
  await userEvent.click(screen.getByRole("button", { name: /Show all/ }));
  expect(shown.textContent.length).toBeGreaterThan(1_000_000);
});

it("says what is wrong with what was typed", () => {
  render(<JsonEditor value="{" onChange={() => {}} label="Payload" />);
  expect(screen.getByRole("status").textContent).toMatch(/Not JSON/);
  expect(screen.getByRole("button", { name: "Tidy" })).toHaveProperty("disabled", true);
});
