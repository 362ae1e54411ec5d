/** A virtual table of the jobs of one state: only visible rows are rendered. */
import { useVirtualizer } from "@tanstack/react-virtual";
import { type CSSProperties, useEffect, useLayoutEffect, useMemo, useRef } from "react";
import type { State } from "../api/client";
import type { Row } from "../api/jobs";
import { cx } from "../components/basics";
import { useScrollAnchor } from "../components/scroll-anchor";
import { useT } from "../i18n/i18n";
import { navigate, toJob } from "../routing";
import { type Column, COLUMNS, columnVisibility, tracks } from "./columns";
import { useListPosition } from "./list-position";
import { useRowNavigation } from "./row-navigation";
import type { Selection } from "./selection";

const HEIGHT = 36;
const LOAD_AHEAD = 60;

interface TableProps {
  queue: string;
  state: State;
  rows: Row[];
  /** Absent if the caller may not act on jobs. */
  selection?: Selection | undefined;
  loadMore?: (() => void) | undefined;
}

export function JobTable({ queue, state, rows, selection, loadMore }: TableProps) {
  const t = useT();
  const scroller = useRef<HTMLDivElement>(null);
  const columns = COLUMNS[state];
  const ids = useMemo(() => rows.map((row) => row.id), [rows]);
  const [position, updatePosition] = useListPosition();
  const virtual = useVirtualizer({
    count: rows.length,
    getScrollElement: () => scroller.current,
    estimateSize: () => HEIGHT,
    overscan: 12,
    getItemKey: (at) => ids[at] ?? at,
    initialOffset: position.top,
  });
  useLayoutEffect(() => {
    if (scroller.current && position.top) scroller.current.scrollTop = position.top;
  }, [position]);
  useScrollAnchor(scroller, ids, HEIGHT);
  const rowActions = {
    open: (id: string) => navigate(toJob(queue, id)),
    select: selection?.toggle,
    show: (at: number, id: string) => {
      updatePosition({ cursor: id });
      virtual.scrollToIndex(at);
    },
  };
  const cursor = useRowNavigation(ids, rowActions, position.cursor);

  const items = virtual.getVirtualItems();
  const last = items.at(-1)?.index ?? 0;
  useEffect(() => {
    if (loadMore && last > rows.length - LOAD_AHEAD) loadMore();
  }, [loadMore, last, rows.length]);

  const { wide, medium, narrow } = tracks(columns, selection ? "2rem" : "");
  return (
    <div
      ref={scroller}
      role="table"
      aria-label={t("queue.jobs")}
      aria-rowcount={rows.length + 1}
      onScroll={(event) => updatePosition({ top: event.currentTarget.scrollTop })}
      // So that it can be scrolled by keyboard.
      tabIndex={0}
      style={{ "--wide": wide, "--medium": medium, "--narrow": narrow } as CSSProperties}
      className="min-h-0 flex-1 overflow-y-auto overscroll-contain outline-offset-[-2px]"
    >
      <TableHead columns={columns} selection={selection} ids={ids} />
      <div role="rowgroup" className="relative" style={{ height: virtual.getTotalSize() }}>
        {items.map((item) => {
          const row = rows[item.index]!;
          return (
            <JobRow
              key={item.key}
              row={row}
              queue={queue}
              columns={columns}
              at={item.index}
              top={item.start}
              current={cursor === row.id}
              selection={selection}
              onActivate={() => updatePosition({ cursor: row.id })}
            />
          );
        })}
      </div>
    </div>
  );
}

const GRID =
  "grid items-center gap-x-3 px-4 md:px-6 [grid-template-columns:var(--narrow)] md:[grid-template-columns:var(--medium)] xl:[grid-template-columns:var(--wide)]";

interface TableHeadProps {
  columns: readonly Column[];
  selection: Selection | undefined;
  ids: readonly string[];
}

function TableHead({ columns, selection, ids }: TableHeadProps) {
  const t = useT();
  const selected = selection ? ids.length > 0 && ids.every((id) => selection.ids.has(id)) : false;
  return (
    <div role="rowgroup" className="sticky top-0 z-10 border-b border-line bg-surface">
      <div role="row" aria-rowindex={1} className={cx(GRID, "h-8")}>
        {selection && (
          <div role="columnheader" className="flex">
            <input
              type="checkbox"
              className="size-3.5 accent-accent"
              aria-label={t("all")}
              checked={selected}
              onChange={() => selection.all(selected ? [] : ids)}
            />
          </div>
        )}
        {columns.map((column) => (
          <div
            key={column.name}
            role="columnheader"
            className={cx("head truncate", column.alignRight && "text-right", columnVisibility(column))}
          >
            {t(column.name)}
          </div>
        ))}
      </div>
    </div>
  );
}

interface JobRowProps {
  row: Row;
  queue: string;
  columns: readonly Column[];
  at: number;
  top: number;
  current: boolean;
  selection: Selection | undefined;
  onActivate: () => void;
}

function JobRow({ row, queue, columns, at, top, current, selection, onActivate }: JobRowProps) {
  const t = useT();
  const selected = selection?.ids.has(row.id) ?? false;
  return (
    <div
      role="row"
      aria-rowindex={at + 2}
      data-id={row.id}
      data-current={current || undefined}
      style={{ height: HEIGHT, transform: `translateY(${top}px)` }}
      className={cx(
        GRID,
        "absolute inset-x-0 top-0 cursor-pointer border-b border-line hover:bg-hover",
        selected && "bg-accent-soft",
        current && "shadow-[inset_3px_0_0_var(--accent)]",
      )}
      onClickCapture={onActivate}
      onClick={(event) => {
        const inside = (event.target as HTMLElement).closest("a, input, button");
        if (!inside && !getSelection()?.toString()) navigate(toJob(queue, row.id));
      }}
    >
      {selection && (
        <div role="cell" className="flex">
          <input
            type="checkbox"
            className="size-3.5 accent-accent"
            aria-label={`${t("column.select")} ${row.id}`}
            checked={selected}
            onChange={() => selection.toggle(row.id)}
          />
        </div>
      )}
      {columns.map((column) => (
        <div
          key={column.name}
          role="cell"
          className={cx("min-w-0", column.alignRight && "text-right", columnVisibility(column))}
        >
          {column.cell(row, queue)}
        </div>
      ))}
    </div>
  );
}
