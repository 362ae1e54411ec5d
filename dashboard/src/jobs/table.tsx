/** A list of jobs of one state: only what is in view is drawn, however many there are. */
import { useVirtualizer } from "@tanstack/react-virtual";
import { type CSSProperties, useEffect, useLayoutEffect, useMemo, useRef } from "react";
import type { State } from "../api/client";
import type { Row } from "../api/jobs";
import { useT } from "../i18n/i18n";
import { cx } from "../parts/basics";
import { go, toJob } from "../routing";
import { useAnchor } from "./anchor";
import { COLUMNS, type Column, shownFrom, tracks } from "./columns";
import { usePlace } from "./places";
import { useRowKeys } from "./row-keys";
import type { Selection } from "./selection";

const HEIGHT = 36;
const AHEAD = 60;

interface TableProps {
  queue: string;
  state: State;
  rows: Row[];
  /** Absent where nothing can be done to jobs. */
  selection?: Selection | undefined;
  more?: (() => void) | undefined;
}

export function JobTable({ queue, state, rows, selection, more }: TableProps) {
  const t = useT();
  const scroller = useRef<HTMLDivElement>(null);
  const columns = COLUMNS[state];
  const ids = useMemo(() => rows.map((row) => row.id), [rows]);
  const [start, note] = usePlace();
  const virtual = useVirtualizer({
    count: rows.length,
    getScrollElement: () => scroller.current,
    estimateSize: () => HEIGHT,
    overscan: 12,
    getItemKey: (at) => ids[at] ?? at,
    initialOffset: start.top,
  });
  useLayoutEffect(() => {
    if (scroller.current && start.top) scroller.current.scrollTop = start.top;
  }, [start]);
  useAnchor(scroller, ids, HEIGHT);
  const keys = {
    open: (id: string) => go(toJob(queue, id)),
    select: selection?.toggle,
    show: (at: number, id: string) => {
      note({ cursor: id });
      virtual.scrollToIndex(at);
    },
  };
  const cursor = useRowKeys(ids, keys, start.cursor);

  const items = virtual.getVirtualItems();
  const last = items.at(-1)?.index ?? 0;
  useEffect(() => {
    if (more && last > rows.length - AHEAD) more();
  }, [more, last, rows.length]);

  const { wide, medium, narrow } = tracks(columns, selection ? "2rem" : "");
  return (
    <div
      ref={scroller}
      role="table"
      aria-label={t("queue.jobs")}
      aria-rowcount={rows.length + 1}
      onScroll={(event) => note({ top: event.currentTarget.scrollTop })}
      // Long lists scroll by keyboard too.
      tabIndex={0}
      style={{ "--wide": wide, "--medium": medium, "--narrow": narrow } as CSSProperties}
      className="min-h-0 flex-1 overflow-y-auto overscroll-contain outline-offset-[-2px]"
    >
      <Head columns={columns} selection={selection} ids={ids} />
      <div role="rowgroup" className="relative" style={{ height: virtual.getTotalSize() }}>
        {items.map((item) => {
          const row = rows[item.index]!;
          return (
            <Line
              key={item.key}
              row={row}
              queue={queue}
              columns={columns}
              at={item.index}
              top={item.start}
              here={cursor === row.id}
              selection={selection}
              onTouch={() => note({ cursor: row.id })}
            />
          );
        })}
      </div>
    </div>
  );
}

const GRID =
  "grid items-center gap-x-3 px-4 md:px-6 [grid-template-columns:var(--narrow)] md:[grid-template-columns:var(--medium)] xl:[grid-template-columns:var(--wide)]";

interface HeadProps {
  columns: readonly Column[];
  selection: Selection | undefined;
  ids: readonly string[];
}

function Head({ columns, selection, ids }: HeadProps) {
  const t = useT();
  const chosen = selection ? ids.length > 0 && ids.every((id) => selection.ids.has(id)) : false;
  return (
    <div role="rowgroup" className="sticky top-0 z-10 border-b border-line bg-surface">
      <div role="row" aria-rowindex={1} className={cx(GRID, "h-8")}>
        {selection && (
          <div role="columnheader" className="flex">
            <input
              type="checkbox"
              className="size-3.5 accent-accent"
              aria-label={t("all")}
              checked={chosen}
              onChange={() => selection.all(chosen ? [] : ids)}
            />
          </div>
        )}
        {columns.map((column) => (
          <div
            key={column.name}
            role="columnheader"
            className={cx("head truncate", column.right && "text-right", shownFrom(column))}
          >
            {t(column.name)}
          </div>
        ))}
      </div>
    </div>
  );
}

interface LineProps {
  row: Row;
  queue: string;
  columns: readonly Column[];
  at: number;
  top: number;
  here: boolean;
  selection: Selection | undefined;
  onTouch: () => void;
}

function Line({ row, queue, columns, at, top, here, selection, onTouch }: LineProps) {
  const t = useT();
  const chosen = selection?.ids.has(row.id) ?? false;
  return (
    <div
      role="row"
      aria-rowindex={at + 2}
      data-id={row.id}
      data-here={here || undefined}
      style={{ height: HEIGHT, transform: `translateY(${top}px)` }}
      className={cx(
        GRID,
        "absolute inset-x-0 top-0 cursor-pointer border-b border-line hover:bg-hover",
        chosen && "bg-accent-soft",
        here && "shadow-[inset_3px_0_0_var(--accent)]",
      )}
      onClickCapture={onTouch}
      onClick={(event) => {
        const inside = (event.target as HTMLElement).closest("a, input, button");
        if (!inside && !getSelection()?.toString()) go(toJob(queue, row.id));
      }}
    >
      {selection && (
        <div role="cell" className="flex">
          <input
            type="checkbox"
            className="size-3.5 accent-accent"
            aria-label={`${t("column.select")} ${row.id}`}
            checked={chosen}
            onChange={() => selection.toggle(row.id)}
          />
        </div>
      )}
      {columns.map((column) => (
        <div
          key={column.name}
          role="cell"
          className={cx("min-w-0", column.right && "text-right", shownFrom(column))}
        >
          {column.cell(row, queue)}
        </div>
      ))}
    </div>
  );
}
