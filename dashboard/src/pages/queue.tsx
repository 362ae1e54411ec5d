import { useCallback, useEffect, useMemo, useRef } from "react";
import { Problem } from "../api/client";
import { rowsOf, STATES, useRows, type Which } from "../api/jobs";
import { useOverview } from "../api/overview";
import { useMay } from "../api/session";
import { count } from "../format/spans";
import { plural, useT } from "../i18n/i18n";
import { useSelection } from "../jobs/selection";
import { JobTable } from "../jobs/table";
import { Badge, Button, cx, Dot, Empty, Title, Trouble, Waiting } from "../parts/basics";
import { go, Link, setQuery, type Tab, toQueue, useAddress, useTitle } from "../routing";
import { useKeys } from "../shell/keys";
import { BulkBar } from "./queue-bulk";
import { ErrorGroups } from "./queue-errors";
import { Filters } from "./queue-filters";
import { QueueMenu } from "./queue-menu";

export function QueuePage({ queue, tab }: { queue: string; tab: Tab }) {
  const t = useT();
  const { query } = useAddress();
  const overview = useOverview().data;
  const figures = overview?.queues.find((one) => one.queue === queue);
  const gone = overview !== undefined && figures === undefined;
  useTitle(t(`state.${tab}`), queue);
  const which: Which = {
    queue,
    state: tab,
    kind: query.get("kind") ?? "",
    text: query.get("text") ?? "",
  };
  const grouped = tab === "failed" && query.get("by") !== "job";
  useTabKeys(queue, tab);
  return (
    <div className="flex min-h-0 flex-1 flex-col bg-surface">
      <div className="bg-canvas">
        <Title actions={<QueueMenu queue={queue} paused={figures?.paused ?? false} there={!gone} which={which} />}>
          <span className="mr-2">{queue}</span>
          {figures?.paused && <Badge tone="warn">{t("paused")}</Badge>}
        </Title>
        <Tabs queue={queue} tab={tab} counts={figures?.counts ?? {}} />
      </div>
      <Filters which={which} grouped={grouped} />
      {gone ? (
        <Empty>{t("queue.gone", { queue })}</Empty>
      ) : grouped ? (
        <ErrorGroups queue={queue} kind={which.kind} text={which.text} />
      ) : (
        <Jobs key={`${tab} ${which.kind} ${which.text}`} which={which} total={figures?.counts[tab] ?? 0} />
      )}
    </div>
  );
}

/** [ and ] go to the state before and to the next one. */
function useTabKeys(queue: string, tab: Tab): void {
  useKeys((event) => {
    const step = event.key === "]" ? 1 : event.key === "[" ? -1 : 0;
    if (step === 0) return;
    const next = STATES[(STATES.indexOf(tab) + step + STATES.length) % STATES.length];
    if (next) go(toQueue(queue, next));
  });
}

function Tabs(props: { queue: string; tab: Tab; counts: Partial<Record<Tab, number>> }) {
  const t = useT();
  const nav = useRef<HTMLElement>(null);
  // Where there is no room for all of them, at least the one that is shown is in view.
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

function Jobs({ which, total }: { which: Which; total: number }) {
  const rows = useRows(which);
  const shown = useMemo(() => rowsOf(rows.data), [rows.data]);
  const mayAct = useMay("admin");
  const { selection, everything, selectEverything, clear } = useSelection();
  useKeys((event) => {
    if (event.key === "Escape") clear();
  });
  const { hasNextPage, isFetchingNextPage, fetchNextPage } = rows;
  const more = useCallback(() => {
    if (hasNextPage && !isFetchingNextPage) void fetchNextPage();
  }, [hasNextPage, isFetchingNextPage, fetchNextPage]);

  if (rows.isPending) return <Waiting />;
  if (rows.error && (!rows.data || !(rows.error instanceof Problem && rows.error.unreachable)))
    return <Trouble error={rows.error} retry={() => void rows.refetch()} />;
  if (shown.length === 0 && !hasNextPage) return <NoJobs which={which} />;
  return (
    <>
      <JobTable
        queue={which.queue}
        state={which.state}
        rows={shown}
        selection={mayAct ? selection : undefined}
        more={more}
      />
      <BulkBar
        which={which}
        ids={shown.filter((row) => selection.ids.has(row.id)).map((row) => row.id)}
        whole={!hasNextPage && selection.ids.size >= shown.length}
        everything={everything}
        onEverything={selectEverything}
        onClear={clear}
      />
      <HowMany which={which} loaded={shown.length} total={total} more={hasNextPage} />
    </>
  );
}

interface HowManyProps {
  which: Which;
  loaded: number;
  /** All jobs of this state, whatever the filter. */
  total: number;
  /** Whether some are not loaded yet. */
  more: boolean;
}

function HowMany({ which, loaded, total, more }: HowManyProps) {
  const t = useT();
  const said = () => {
    if (which.kind || which.text) return t("queue.matching", { n: `${count(loaded)}${more ? "+" : ""}` });
    if (more) return t("queue.loaded", { n: count(loaded), total: count(Math.max(total, loaded)) });
    return plural(t, "queue.count", loaded);
  };
  return (
    <p className="flex h-8 shrink-0 items-center border-t border-line px-4 text-xs text-muted tabular-nums md:px-6">
      {said()}
    </p>
  );
}

function NoJobs({ which }: { which: Which }) {
  const t = useT();
  if (!which.kind && !which.text) return <Empty>{t(`empty.${which.state}`)}</Empty>;
  const clear = (
    <Button look="link" onClick={() => setQuery({ kind: "", text: "" })}>
      {t("queue.clear")}
    </Button>
  );
  return <Empty action={clear}>{t("empty.filtered")}</Empty>;
}
