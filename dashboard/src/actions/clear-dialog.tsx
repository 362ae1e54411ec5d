/** Everything in a queue, or the queue with everything: what that is now is shown, and kept up to date. */
import { useQueryClient } from "@tanstack/react-query";
import type { State } from "../api/client";
import { STATES } from "../api/jobs";
import { overviewKey } from "../api/overview";
import { dropQueue, purgeQueue, useQueueNow } from "../api/queues";
import { count } from "../format/spans";
import { plural, useT } from "../i18n/i18n";
import { Dot, saying } from "../parts/basics";
import { useToasts } from "../parts/toasts";
import { go } from "../routing";
import { Confirm } from "./confirm";

interface ClearProps {
  queue: string;
  action: "purge" | "drop";
  onClose: () => void;
}

type Counts = Partial<Record<State, number>>;

export const all = (counts: Counts): number => STATES.reduce((sum, state) => sum + (counts[state] ?? 0), 0);

export function ClearDialog({ queue, action, onClose }: ClearProps) {
  const t = useT();
  const { say } = useToasts();
  const client = useQueryClient();
  const now = useQueueNow(queue);
  const counts = now.data?.counts;
  const n = counts && all(counts);
  const purge = async () => {
    const { changed } = await purgeQueue(queue);
    say(plural(t, "bulk.done.delete", changed));
    void client.invalidateQueries();
  };
  const drop = async () => {
    await dropQueue(queue);
    say(t("done.drop", { queue }));
    void client.invalidateQueries({ queryKey: overviewKey });
    go("/");
  };
  const name = t(`action.${action}`);
  return (
    <Confirm
      title={`${name}: ${queue}`}
      button={name}
      word={queue}
      act={action === "purge" ? purge : drop}
      onClose={onClose}
      disabled={n === undefined}
    >
      {now.error ? <p className="text-danger">{saying(now.error)}</p> : <Deleted counts={counts} />}
      <p className="text-muted">{t(`action.${action}.text`)}</p>
    </Confirm>
  );
}

/** How many jobs there are, by the state they are in. */
function Deleted({ counts }: { counts: Counts | undefined }) {
  const t = useT();
  if (!counts) return <p>{t("bulk.counting")}</p>;
  const n = all(counts);
  return (
    <div data-preview={n}>
      <p className="font-medium">{n === 0 ? t("clear.empty") : plural(t, "clear.deletes", n)}</p>
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
