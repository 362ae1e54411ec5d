/** Lists of jobs that are kept in step without being fetched again. */
import type { InfiniteData } from "@tanstack/react-query";
import type { State } from "../api/client";
import type { Row, Rows } from "../api/jobs";

type List = InfiniteData<Rows>;

/** A list without some jobs. */
export function without(data: List, gone: ReadonlySet<string>): List {
  const keep = (page: Rows): Rows => ({ ...page, summaries: page.summaries.filter((row) => !gone.has(row.id)) });
  return { ...data, pages: data.pages.map(keep) };
}

/** A list in which some jobs were looked at anew: those that belong to it are where they belong. */
export function withRows(data: List, rows: readonly Row[], asked: readonly string[], state: State): List {
  const pages = without(data, new Set(asked)).pages;
  for (const row of rows) insert(pages, row, state);
  return { ...data, pages };
}

function insert(pages: Rows[], row: Row, state: State): void {
  const mine = place(row, state);
  for (const page of pages) {
    const at = page.summaries.findIndex((other) => place(other, state) > mine);
    if (at < 0) continue;
    page.summaries.splice(at, 0, row);
    return;
  }
  // Behind what is loaded it will be found when the list is read on.
  const last = pages.at(-1);
  if (last && last.cursor === null) last.summaries.push(row);
}

/** Where a job stands in its list: what has the lower number comes first.
 *
 * Of a queued one that came back into line it is an estimate of the service; the list is right again
 * as soon as it is opened anew.
 */
export function place(row: Row, state: State): number {
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
