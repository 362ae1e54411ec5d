/** Purge or drop a queue: shows how many jobs it has, and keeps the counts current. */
import { useQueryClient } from "@tanstack/react-query";
import type { State } from "../api/client";
import { STATES } from "../api/jobs";
import { overviewKey } from "../api/overview";
import { dropQueue, purgeQueue, useFreshQueue } from "../api/queues";
import { Dot, errorMessage } from "../components/basics";
import { useToasts } from "../components/toasts";
import { count } from "../format/numbers";
import { plural, useT } from "../i18n/i18n";
import { navigate } from "../routing";
import { Confirm } from "./confirm";

interface PurgeProps {
  queue: string;
  action: "purge" | "drop";
  onClose: () => void;
}

type Counts = Partial<Record<State, number>>;

export const totalOf = (counts: Counts): number => STATES.reduce((sum, state) => sum + (counts[state] ?? 0), 0);

export function PurgeDialog({ queue, action, onClose }: PurgeProps) {
  const t = useT();
  const { showSuccess } = useToasts();
  const client = useQueryClient();
  const fresh = useFreshQueue(queue);
  const counts = fresh.data?.counts;
  const n = counts && totalOf(counts);
  const purge = async () => {
    const { changed } = await purgeQueue(queue);
    showSuccess(plural(t, "bulk.done.delete", changed));
    void client.invalidateQueries();
  };
  const drop = async () => {
    await dropQueue(queue);
    showSuccess(t("done.drop", { queue }));
    void client.invalidateQueries({ queryKey: overviewKey });
    navigate("/");
  };
  const name = t(`action.${action}`);
  return (
    <Confirm
      title={`${name}: ${queue}`}
      button={name}
      expected={queue}
      act={action === "purge" ? purge : drop}
      onClose={onClose}
      disabled={n === undefined}
    >
      {fresh.error ? <p className="text-danger">{errorMessage(fresh.error)}</p> : <JobCounts counts={counts} />}
      <p className="text-muted">{t(`action.${action}.text`)}</p>
    </Confirm>
  );
}

/** The number of jobs in each state. */
function JobCounts({ counts }: { counts: Counts | undefined }) {
  const t = useT();
  if (!counts) return <p>{t("bulk.counting")}</p>;
  const n = totalOf(counts);
  return (
    <div data-preview={n}>
      <p className="font-medium">{n === 0 ? t("purge.empty") : plural(t, "purge.deletes", n)}</p>
      <ul className="mt-2 flex flex-wrap gap-x-5 gap-y-1">
        {STATES.filter((state) => counts[state]).map((state) => (
          <li key={state} className="flex items-center gap-1.5">
            <Dot state={state} />
            <span className="tabular-nums">{count(counts[state] ?? 0)}</span>
            <span className="text-muted">{t(`state.${state}`)}</span>
          </li>
        ))}
      </ul>
    </div>
  );
}
