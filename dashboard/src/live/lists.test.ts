import { expect, it } from "vitest";
import type { Row } from "../api/jobs";
import { mergeRows } from "./lists";

const row = (id: string, rank: number) => ({ id, rank }) as Row;
const ids = (list: ReturnType<typeof mergeRows>) => list.pages.map((page) => page.summaries.map((one) => one.id).join(""));
const list = (more: boolean) => ({
  pages: [
    { now: 0, summaries: [row("a", 1), row("b", 2)], cursor: "x" },
    { now: 0, summaries: [row("c", 3), row("d", 4)], cursor: more ? "y" : null },
  ],
  pageParams: [],
});

it("inserts new jobs by the rank that the service computed", () => {
  const found = [row("e", 9), row("f", -3)];
  expect(ids(mergeRows(list(false), found, ["e", "f"], "queued"))).toEqual(["fab", "cde"]);
});

it("leaves jobs beyond the last loaded page to the next page", () => {
  expect(ids(mergeRows(list(true), [row("e", 9)], ["e"], "queued"))).toEqual(["ab", "cd"]);
});

it("moves jobs whose rank changed, and removes those that no longer match", () => {
  expect(ids(mergeRows(list(false), [row("a", 301)], ["a", "c"], "queued"))).toEqual(["b", "da"]);
});
