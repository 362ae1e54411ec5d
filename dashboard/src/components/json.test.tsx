import { render, screen } from "@testing-library/react";
import userEvent from "@testing-library/user-event";
import { expect, it } from "vitest";
import { JsonEditor, JsonView, preview } from "./json";


it("shows markup as text", () => {
  render(<JsonView text={'{"a":"<img src=x onerror=alert(1)>"}'} name="Payload" codec="json" />);
  expect(screen.getByLabelText("Payload").textContent).toContain("<img src=x onerror=alert(1)>");
  expect(document.querySelector("img")).toBeNull();
});

it("shows the beginning of a large payload only", () => {
  const text = JSON.stringify(Array.from({ length: 40_000 }, (_, i) => ({ i, v: `v${i}` })));
  render(<JsonView text={text} name="Payload" codec="json" />);
  expect(screen.getByLabelText("Payload").textContent.length).toBeLessThan(21_000);
  expect(screen.getByRole("button", { name: /Show all/ })).toBeTruthy();
  expect(preview("[1,2]", 4).tokens.map((part) => part.text).join("")).toBe("[\n  ");
});

it("names the codec of a payload that is not JSON", () => {
  const looks = '{"base64":"AAAA","codec":"h264"}';
  const { rerender } = render(<JsonView text={looks} name="Payload" codec="json" />);
  expect(document.body.textContent).not.toContain("Not JSON");
  rerender(<JsonView text={looks} name="Payload" codec="Backwards" />);
  expect(document.body.textContent).toContain("Not JSON: 3 bytes of Backwards");
  rerender(<JsonView text="[1]" name="Payload" codec="msgpack" />);
  expect(document.body.textContent).toContain("Encoded as msgpack");
});

it("says if there is no clipboard", async () => {
  const user = userEvent.setup();
  Object.defineProperty(navigator, "clipboard", { value: undefined, configurable: true });
  render(<JsonView text="[1]" name="Payload" codec="json" />);
  await user.click(screen.getByRole("button", { name: "Copy" }));
  expect(screen.getByRole("button", { name: /not allow/ })).toBeTruthy();
});

it("takes a value that is too large to edit as a file", () => {
  render(<JsonEditor value={JSON.stringify("x".repeat(200_000))} onChange={() => {}} label="Payload" />);
  expect(document.querySelector("textarea")).toBeNull();
  expect(document.querySelector("input[type=file]")).not.toBeNull();
});

it("shows the syntax error", () => {
  render(<JsonEditor value="{" onChange={() => {}} label="Payload" />);
  expect(screen.getByRole("status").textContent).toMatch(/Not JSON/);
  expect(screen.getByRole("button", { name: "Format" })).toHaveProperty("disabled", true);
});
