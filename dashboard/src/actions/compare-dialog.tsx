import { useQuery } from "@tanstack/react-query";
import { useMemo } from "react";
import { send, v1 } from "../api/client";
import { readJob } from "../api/jobs";
import { pretty } from "../api/raw-json";
import { cx, ErrorPanel } from "../components/basics";
import { Dialog } from "../components/dialog";
import { diffLines } from "../format/diff";
import { useT } from "../i18n/i18n";

interface CompareProps {
  queue: string;
  ids: readonly [string, string];
  onClose: () => void;
}

/** Two payloads side by side, with their differences marked. */
export function CompareDialog({ queue, ids, onClose }: CompareProps) {
  const t = useT();
  const jobs = useQuery({
    queryKey: ["compare", queue, ...ids],
    queryFn: async ({ signal }) => {
      const fetchOne = (id: string) => send("GET", v1`/queues/${queue}/jobs/${id}`, { signal, query: { timeline: false } });
      const responses = await Promise.all(ids.map(fetchOne));
      return Promise.all(responses.map(async (response) => readJob(await response.text())));
    },
  });
  const lines = useMemo(() => {
    const [left, right] = jobs.data ?? [];
    return left && right ? diffLines(pretty(left.payload), pretty(right.payload)) : [];
  }, [jobs.data]);
  return (
    <Dialog title={t("action.compare")} onClose={onClose} wide>
      {jobs.error && <ErrorPanel error={jobs.error} />}
      <div className="grid grid-cols-2 gap-px overflow-hidden rounded-md border border-line bg-line font-mono text-xs leading-5">
        {ids.map((id) => (
          <div key={id} className="truncate bg-surface px-3 py-1.5 font-medium">
            {id}
          </div>
        ))}
        {lines.map(([left, right], at) => {
          const differs = left !== right;
          return [left, right].map((line, side) => (
            <div
              key={`${at} ${side}`}
              data-differs={differs || undefined}
              className={cx(
                "min-w-0 px-3 break-words whitespace-pre-wrap",
                differs ? "bg-warn-soft text-warn" : "bg-sunken",
              )}
            >
              {line ?? ""}
            </div>
          ));
        })}
      </div>
    </Dialog>
  );
}
