import { render } from "@testing-library/react";
import { expect, it } from "vitest";
import { exceptionOf, Traceback } from "./traceback";


const FRAMES = `Traceback (most recent call last):
  File "shop/tasks.py", line 2, in send
    deliver(order)
  File "shop/tasks.py", line 5, in deliver
    raise error
`;

it.each([
  ["its last line", `${FRAMES}ValueError: boom\n`, "ValueError: boom"],
  ["all lines of its message", `${FRAMES}shop.Refused: no\n  because: late\n\nAsk again.\n`, "shop.Refused: no\n  because: late\n\nAsk again."],
  ["the last of a chain", `${FRAMES}KeyError: 1\n\nDuring handling of the above exception, another exception occurred:\n\n${FRAMES}OSError: 2`, "OSError: 2"],
  ["the last line of what is none", "one\ntwo", "two"],
  ["the last of a group", "  + Exception Group Traceback (most recent call last):\n  | ExceptionGroup: two (2 sub-exceptions)\n  +-+---\n    | OSError: 2\n    +---\n", "OSError: 2"],
  ["the whole of one line", "Killed", "Killed"],
])("is %s", (_, traceback, error) => expect(exceptionOf(traceback)).toBe(error));

it("is shown before the frames", () => {
  render(<Traceback>{`${FRAMES}ValueError: boom`}</Traceback>);
  expect(document.querySelector("[data-exception]")?.textContent).toBe("ValueError: boom");
  expect(document.querySelector("pre")?.textContent).toContain("raise error");
});
