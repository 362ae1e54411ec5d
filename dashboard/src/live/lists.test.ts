import { expect, it } from "vitest";
import type { Row } from "../api/jobs";
import { withRows } from "./lists";

const row = (id: string, rank: number) => ({ id, rank }) as Row;
const ids = (list: ReturnType<typeof withRows>) => list.pages.map((page) => page.summaries.map((one) => one.id).join(""));
const list = (more: boolean) => ({
  pages: [
    { now: 0, summaries: [row("a", 1), row("b", 2)], cursor: "x" },
    { now: 0, summaries: [row("c", 3), row("d", 4)], cursor: more ? "y" : null },
  ],
  pageParams: [],
});

it("puts new jobs where the service ranks them, whatever the ageing of their queue", () => {
  const found = [row("e", 9), row("f", -3)];
  expect(ids(withRows(list(false), found, ["e", "f"], "queued"))).toEqual(["fab", "cde"]);
});

it("leaves to the next page what belongs behind the last one", () => {
  expect(ids(withRows(list(true), [row("e", 9)], ["e"], "queued"))).toEqual(["ab", "cd"]);
});

it("moves what has changed its place, and takes out what is there no more", () => {
  expect(ids(withRows(list(false), [row("a", 301)], ["a", "c"], "queued"))).toEqual(["b", "da"]);
});
