import { useCallback, useEffect, useMemo, useRef } from "react";
import { Problem } from "../api/client";
import { type JobQuery, rowsOf, STATES, useRows } from "../api/jobs";
import { useOverview } from "../api/overview";
import { useScope } from "../api/session";
import { Badge, Button, cx, Dot, Empty, ErrorPanel, Loading, Title } from "../components/basics";
import { count } from "../format/numbers";
import { plural, useT } from "../i18n/i18n";
import { useSelection } from "../job-table/selection";
import { JobTable } from "../job-table/table";
import { useKeyPress } from "../layout/key-press";
import { Link, navigate, setQuery, type Tab, toQueue, useAddress, useTitle } from "../routing";
import { BulkBar } from "./queue-bulk";
import { ErrorGroups } from "./queue-errors";
import { Filters } from "./queue-filters";
import { QueueMenu } from "./queue-menu";

export function QueuePage({ queue, tab }: { queue: string; tab: Tab }) {
  const t = useT();
  const { query } = useAddress();
  const overview = useOverview().data;
  const overviewRow = overview?.queues.find((one) => one.queue === queue);
  const missing = overview !== undefined && overviewRow === undefined;
  useTitle(t(`state.${tab}`), queue);
  const jobQuery: JobQuery = {
    queue,
    state: tab,
    kind: query.get("kind") ?? "",
    text: query.get("text") ?? "",
  };
  const grouped = tab === "failed" && query.get("by") !== "job";
  useTabShortcuts(queue, tab);
  return (
    <div className="flex min-h-0 flex-1 flex-col bg-surface">
      <div className="bg-canvas">
        <Title actions={<QueueMenu queue={queue} paused={overviewRow?.paused ?? false} exists={!missing} jobQuery={jobQuery} />}>
          <span className="mr-2">{queue}</span>
          {overviewRow?.paused && <Badge tone="warn">{t("paused")}</Badge>}
        </Title>
        <Tabs queue={queue} tab={tab} counts={overviewRow?.counts ?? {}} />
      </div>
      <Filters jobQuery={jobQuery} grouped={grouped} />
      {missing ? (
        <Empty>{t("queue.notFound", { queue })}</Empty>
      ) : grouped ? (
        <ErrorGroups queue={queue} kind={jobQuery.kind} text={jobQuery.text} />
      ) : (
        <Jobs key={`${tab} ${jobQuery.kind} ${jobQuery.text}`} jobQuery={jobQuery} total={overviewRow?.counts[tab] ?? 0} />
      )}
    </div>
  );
}

/** [ and ] switch to the previous and next state. */
function useTabShortcuts(queue: string, tab: Tab): void {
  useKeyPress((event) => {
    const step = event.key === "]" ? 1 : event.key === "[" ? -1 : 0;
    if (step === 0) return;
    const next = STATES[(STATES.indexOf(tab) + step + STATES.length) % STATES.length];
    if (next) navigate(toQueue(queue, next));
  });
}

function Tabs(props: { queue: string; tab: Tab; counts: Partial<Record<Tab, number>> }) {
  const t = useT();
  const nav = useRef<HTMLElement>(null);
  // On a narrow page, scroll to the current tab.
  useEffect(() => {
    nav.current?.querySelector("[aria-current]")?.scrollIntoView({ inline: "center", block: "nearest" });
  }, [props.tab]);
  return (
    <nav
      ref={nav}
      aria-label={t("queue.states")}
      className="flex gap-1 overflow-x-auto border-b border-line px-3 [scrollbar-width:none] md:flex-wrap md:px-5"
    >
      {STATES.map((state) => {
        const current = state === props.tab;
        const n = props.counts[state] ?? 0;
        return (
          <Link
            key={state}
            href={toQueue(props.queue, state)}
            aria-current={current ? "page" : undefined}
            className={cx(
              "-mb-px flex h-9 shrink-0 items-center gap-1.5 border-b-2 px-1.5 font-medium",
              current ? "border-accent text-ink" : "border-transparent text-muted hover:text-ink",
            )}
          >
            <Dot state={state} />
            {t(`state.${state}`)}
            <span
              className={cx(
                "text-xs font-normal tabular-nums",
                state === "failed" && n > 0 ? "font-medium text-danger" : "text-faint",
              )}
            >
              {count(n)}
            </span>
          </Link>
        );
      })}
    </nav>
  );
}

function Jobs({ jobQuery, total }: { jobQuery: JobQuery; total: number }) {
  const rows = useRows(jobQuery);
  const visibleRows = useMemo(() => rowsOf(rows.data), [rows.data]);
  const canAct = useScope("admin");
  const { selection, everything, selectEverything, clear } = useSelection();
  useKeyPress((event) => {
    if (event.key === "Escape") clear();
  });
  const { hasNextPage, isFetchingNextPage, fetchNextPage } = rows;
  const loadMore = useCallback(() => {
    if (hasNextPage && !isFetchingNextPage) void fetchNextPage();
  }, [hasNextPage, isFetchingNextPage, fetchNextPage]);

  if (rows.isPending) return <Loading />;
  if (rows.error && (!rows.data || !(rows.error instanceof Problem && rows.error.unreachable)))
    return <ErrorPanel error={rows.error} retry={() => void rows.refetch()} />;
  if (visibleRows.length === 0 && !hasNextPage) return <NoJobs jobQuery={jobQuery} />;
  return (
    <>
      <JobTable
        queue={jobQuery.queue}
        state={jobQuery.state}
        rows={visibleRows}
        selection={canAct ? selection : undefined}
        loadMore={loadMore}
      />
      <BulkBar
        jobQuery={jobQuery}
        ids={visibleRows.filter((row) => selection.ids.has(row.id)).map((row) => row.id)}
        complete={!hasNextPage && selection.ids.size >= visibleRows.length}
        everything={everything}
        onEverything={selectEverything}
        onClear={clear}
      />
      <RowCount jobQuery={jobQuery} loaded={visibleRows.length} total={total} more={hasNextPage} />
    </>
  );
}

interface RowCountProps {
  jobQuery: JobQuery;
  loaded: number;
  /** All jobs of this state, whatever the filter. */
  total: number;
  /** Whether some are not loaded yet. */
  more: boolean;
}

function RowCount({ jobQuery, loaded, total, more }: RowCountProps) {
  const t = useT();
  const text = () => {
    if (jobQuery.kind || jobQuery.text) return t("queue.matching", { n: `${count(loaded)}${more ? "+" : ""}` });
    if (more) return t("queue.loaded", { n: count(loaded), total: count(Math.max(total, loaded)) });
    return plural(t, "queue.count", loaded);
  };
  return (
    <p className="flex h-8 shrink-0 items-center border-t border-line px-4 text-xs text-muted tabular-nums md:px-6">
      {text()}
    </p>
  );
}

function NoJobs({ jobQuery }: { jobQuery: JobQuery }) {
  const t = useT();
  if (!jobQuery.kind && !jobQuery.text) return <Empty>{t(`empty.${jobQuery.state}`)}</Empty>;
  const clear = (
    <Button variant="link" onClick={() => setQuery({ kind: "", text: "" })}>
      {t("queue.clear")}
    </Button>
  );
  return <Empty action={clear}>{t("empty.filtered")}</Empty>;
}
