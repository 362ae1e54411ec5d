/** One act on many jobs: how many they are is counted first. */
import { useMutation, useQuery, useQueryClient } from "@tanstack/react-query";
import { useState } from "react";
import { bulk, type BulkAction, type Chosen } from "../api/queues";
import { plural, useT } from "../i18n/i18n";
import { saying } from "../parts/basics";
import { Dialog, DialogForm, Field } from "../parts/dialog";
import { useToasts } from "../parts/toasts";
import { Confirm } from "./confirm";
import { TargetQueue } from "./move-dialog";

interface BulkProps {
  queue: string;
  action: BulkAction;
  which: Chosen;
  onClose: () => void;
  onDone?: () => void;
}

export function BulkDialog({ queue, action, which, onClose, onDone }: BulkProps) {
  const t = useT();
  const { say } = useToasts();
  const client = useQueryClient();
  const [to, setTo] = useState("");
  const [rate, setRate] = useState("");
  /** Counts, or acts on what was counted: `asOf` is what the count answered. */
  const act = (options: { dryRun: true } | { asOf: string }) =>
    bulk(queue, action, which, {
      ...options,
      ...(to ? { to } : {}),
      ...(rate ? { rate: Number(rate) } : {}),
    });
  const preview = useQuery({
    queryKey: ["preview", queue, action, which],
    queryFn: () => act({ dryRun: true }),
    // What is confirmed is what was read: nothing counts it anew while somebody looks at it.
    staleTime: "static",
    gcTime: 0,
  });
  const finish = async () => {
    if (!preview.data) return;
    const { count } = await act({ asOf: preview.data.as_of });
    say(plural(t, `bulk.done.${action}`, count));
    void client.invalidateQueries();
    onDone?.();
    onClose();
  };
  const doing = useMutation({ mutationFn: finish });
  const n = preview.data?.count;
  const name = t(`action.${action}`);
  const title = n === undefined ? name : plural(t, "bulk.confirm", n, { action: name });
  const said = () => {
    if (preview.error) return saying(preview.error);
    if (n === undefined) return t("bulk.counting");
    return n === 0 ? t("bulk.nothing") : plural(t, "bulk.preview", n);
  };

  if (action === "delete" || action === "cancel")
    return (
      <Confirm title={title} button={title} word={queue} act={finish} onClose={onClose} disabled={!n}>
        <p data-preview={n}>{said()}</p>
      </Confirm>
    );
  return (
    <Dialog title={title} onClose={onClose}>
      <DialogForm
        onSubmit={() => doing.mutate()}
        onClose={onClose}
        button={title}
        busy={doing.isPending}
        disabled={!n || (action === "move" && (to === "" || to === queue))}
        error={doing.error ? saying(doing.error) : null}
      >
        <p data-preview={n}>{said()}</p>
        {action === "move" && <TargetQueue value={to} onChange={setTo} except={queue} />}
        {action === "redrive" && !which.ids && (
          <Field label={t("bulk.rate")}>
            <input
              type="number"
              min={0.001}
              step="any"
              className="field"
              value={rate}
              onChange={(event) => setRate(event.target.value)}
            />
          </Field>
        )}
      </DialogForm>
    </Dialog>
  );
}
