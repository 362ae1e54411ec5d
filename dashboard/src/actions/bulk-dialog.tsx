/** A bulk action: the matching jobs are counted first. */
import { useMutation, useQuery, useQueryClient } from "@tanstack/react-query";
import { useState } from "react";
import { bulk, type BulkAction, type BulkFilter } from "../api/queues";
import { errorMessage } from "../components/basics";
import { Dialog, DialogForm, Field } from "../components/dialog";
import { useToasts } from "../components/toasts";
import { plural, useT } from "../i18n/i18n";
import { Confirm } from "./confirm";
import { TargetQueue } from "./move-dialog";

interface BulkProps {
  queue: string;
  action: BulkAction;
  filter: BulkFilter;
  onClose: () => void;
  onDone?: () => void;
}

export function BulkDialog({ queue, action, filter, onClose, onDone }: BulkProps) {
  const t = useT();
  const { showSuccess } = useToasts();
  const client = useQueryClient();
  const [to, setTo] = useState("");
  const [rate, setRate] = useState("");
  /** Count the jobs, or act on those that were counted: `asOf` comes from the count. */
  const run = (options: { dryRun: true } | { asOf: string }) =>
    bulk(queue, action, filter, {
      ...options,
      ...(to ? { to } : {}),
      ...(rate ? { rate: Number(rate) } : {}),
    });
  const preview = useQuery({
    queryKey: ["preview", queue, action, filter],
    queryFn: () => run({ dryRun: true }),
    // Never refetch: what is confirmed must be what was shown.
    staleTime: "static",
    gcTime: 0,
  });
  const execute = async () => {
    if (!preview.data) return;
    const { count } = await run({ asOf: preview.data.as_of });
    showSuccess(plural(t, `bulk.done.${action}`, count));
    void client.invalidateQueries();
    onDone?.();
    onClose();
  };
  const mutation = useMutation({ mutationFn: execute });
  const n = preview.data?.count;
  const name = t(`action.${action}`);
  const title = n === undefined ? name : plural(t, "bulk.confirm", n, { action: name });
  const previewText = () => {
    if (preview.error) return errorMessage(preview.error);
    if (n === undefined) return t("bulk.counting");
    return n === 0 ? t("bulk.nothing") : plural(t, "bulk.preview", n);
  };

  if (action === "delete" || action === "cancel")
    return (
      <Confirm title={title} button={title} expected={queue} act={execute} onClose={onClose} disabled={!n}>
        <p data-preview={n}>{previewText()}</p>
      </Confirm>
    );
  return (
    <Dialog title={title} onClose={onClose}>
      <DialogForm
        onSubmit={() => mutation.mutate()}
        onClose={onClose}
        button={title}
        busy={mutation.isPending}
        disabled={!n || (action === "move" && (to === "" || to === queue))}
        error={mutation.error ? errorMessage(mutation.error) : null}
      >
        <p data-preview={n}>{previewText()}</p>
        {action === "move" && <TargetQueue value={to} onChange={setTo} except={queue} />}
        {action === "redrive" && !filter.ids && (
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
