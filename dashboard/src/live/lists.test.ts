import { expect, it } from "vitest";
import type { Row } from "../api/jobs";
import { withRows } from "./lists";

const row = (id: string, created_at: number, priority = 5) => ({ id, created_at, priority }) as Row;
const ids = (list: ReturnType<typeof withRows>) => list.pages.map((page) => page.rows.map((one) => one.id).join(""));
const list = (more: boolean) => ({
  pages: [
    { now: 0, rows: [row("a", 1), row("b", 2)], cursor: "x" },
    { now: 0, rows: [row("c", 3), row("d", 4)], cursor: more ? "y" : null },
  ],
  pageParams: [],
});

it("puts new jobs where they belong, by priority too", () => {
  const found = [row("e", 9), row("f", 9, 9)];
  expect(ids(withRows(list(false), found, ["e", "f"], "queued"))).toEqual(["fab", "cde"]);
});

it("leaves to the next page what belongs behind the last one", () => {
  expect(ids(withRows(list(true), [row("e", 9)], ["e"], "queued"))).toEqual(["ab", "cd"]);
});

it("moves what has changed its place, and takes out what is there no more", () => {
  expect(ids(withRows(list(false), [row("a", 1, 0)], ["a", "c"], "queued"))).toEqual(["b", "da"]);
});
