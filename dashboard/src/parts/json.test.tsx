import { render, screen } from "@testing-library/react";
import userEvent from "@testing-library/user-event";
import { expect, it } from "vitest";
import { beginning, JsonEditor, JsonView } from "./json";


it("shows what looks like markup as text", () => {
  render(<JsonView text={'{"a":"<img src=x onerror=alert(1)>"}'} name="Payload" codec="json" />);
  expect(screen.getByLabelText("Payload").textContent).toContain("<img src=x onerror=alert(1)>");
  expect(document.querySelector("img")).toBeNull();
});

it("shows the beginning of a large payload only", () => {
  const text = JSON.stringify(Array.from({ length: 40_000 }, (_, i) => ({ i, v: `v${i}` })));
  render(<JsonView text={text} name="Payload" codec="json" />);
  expect(screen.getByLabelText("Payload").textContent.length).toBeLessThan(21_000);
  expect(screen.getByRole("button", { name: /Show all/ })).toBeTruthy();
  expect(beginning("[1,2]", 4).parts.map((part) => part.text).join("")).toBe("[\n  ");
});

it("says what wrote a payload that is not JSON, and nothing of one that only looks so", () => {
  const looks = '{"base64":"AAAA","codec":"h264"}';
  const { rerender } = render(<JsonView text={looks} name="Payload" codec="json" />);
  expect(document.body.textContent).not.toContain("Not JSON");
  rerender(<JsonView text={looks} name="Payload" codec="Backwards" />);
  expect(document.body.textContent).toContain("Not JSON: 3 bytes of Backwards");
  rerender(<JsonView text="[1]" name="Payload" codec="msgpack" />);
  expect(document.body.textContent).toContain("Written as msgpack");
});

it("says so where there is no clipboard", async () => {
  const user = userEvent.setup();
  Object.defineProperty(navigator, "clipboard", { value: undefined, configurable: true });
  render(<JsonView text="[1]" name="Payload" codec="json" />);
  await user.click(screen.getByRole("button", { name: "Copy" }));
  expect(screen.getByRole("button", { name: /not let/ })).toBeTruthy();
});

it("takes by file what is too large to be typed", () => {
  render(<JsonEditor value={JSON.stringify("x".repeat(200_000))} onChange={() => {}} label="Payload" />);
  expect(document.querySelector("textarea")).toBeNull();
  expect(document.querySelector("input[type=file]")).not.toBeNull();
});

it("says what is wrong with what was typed", () => {
  render(<JsonEditor value="{" onChange={() => {}} label="Payload" />);
  expect(screen.getByRole("status").textContent).toMatch(/Not JSON/);
  expect(screen.getByRole("button", { name: "Tidy" })).toHaveProperty("disabled", true);
});
