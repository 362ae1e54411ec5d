/** Updates cached job lists without refetching them. */
import type { InfiniteData } from "@tanstack/react-query";
import type { State } from "../api/client";
import type { Row, Rows } from "../api/jobs";

type List = InfiniteData<Rows>;

/** The list without these jobs. */
export function removeRows(data: List, ids: ReadonlySet<string>): List {
  const keep = (page: Rows): Rows => ({ ...page, summaries: page.summaries.filter((row) => !ids.has(row.id)) });
  return { ...data, pages: data.pages.map(keep) };
}

/** The list after some jobs were refetched: those that were returned are in order, the others removed. */
export function mergeRows(data: List, rows: readonly Row[], requested: readonly string[], state: State): List {
  const pages = removeRows(data, new Set(requested)).pages;
  for (const row of rows) insert(pages, row, state);
  return { ...data, pages };
}

function insert(pages: Rows[], row: Row, state: State): void {
  const key = sortKey(row, state);
  for (const page of pages) {
    const at = page.summaries.findIndex((other) => sortKey(other, state) > key);
    if (at < 0) continue;
    page.summaries.splice(at, 0, row);
    return;
  }
  // Beyond the loaded pages it will be loaded with the next page.
  const last = pages.at(-1);
  if (last && last.cursor === null) last.summaries.push(row);
}

/** The position of a job in the list of its state; lower comes first.
 *
 * For a queued job that was released or retried the rank is an estimate of the service, until the
 * list is fetched again.
 */
export function sortKey(row: Row, state: State): number {
  switch (state) {
    case "queued":
      return row.rank ?? 0;
    case "scheduled":
    case "failing":
      return row.run_at ?? 0;
    case "processing":
      return row.deadline ?? 0;
    case "completed":
    case "failed":
    case "cancelled":
      return -(row.finished_at ?? 0);
  }
}
