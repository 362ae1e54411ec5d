import { useMutation, useQueryClient } from "@tanstack/react-query";
import { useMemo, useState } from "react";
import { clock } from "../api/clock";
import { type Edit, editJob, type Job, jobKey, redriveJob } from "../api/jobs";
import { jsonError } from "../api/raw-json";
import { errorMessage } from "../components/basics";
import { Dialog, DialogForm, Field } from "../components/dialog";
import { editorText, JsonEditor } from "../components/json";
import { useToasts } from "../components/toasts";
import { useT } from "../i18n/i18n";

interface EditProps {
  queue: string;
  job: Job;
  /** Whether the job is redriven afterwards. */
  redrive?: boolean;
  onClose: () => void;
}

export function EditDialog({ queue, job, redrive = false, onClose }: EditProps) {
  const t = useT();
  const { showSuccess } = useToasts();
  const client = useQueryClient();
  const editable = job.codec === "json";
  const initial = useMemo(() => editorText(job.payload), [job.payload]);
  const [payload, setPayload] = useState(initial);
  const [priority, setPriority] = useState(String(job.priority));
  const [delay, setDelay] = useState("");

  const save = useMutation({
    mutationFn: async () => {
      const edit: Edit = {};
      if (Number(priority) !== job.priority) edit.priority = Number(priority);
      if (editable && payload !== initial) edit.payload = payload;
      if (delay !== "" && !redrive) edit.delay = Number(delay);
      if (Object.keys(edit).length > 0) await editJob(queue, job.id, edit);
      if (redrive) await redriveJob(queue, job.id, Number(delay || 0));
      return edit;
    },
    onSuccess: (edit) => {
      if (redrive) showSuccess(t("done.redrive", { id: job.id }));
      else showSuccess(t("done.edit", { id: job.id }), () => editJob(queue, job.id, undoEdit(job, edit, clock.now())));
      void client.invalidateQueries({ queryKey: jobKey(queue, job.id) });
      onClose();
    },
  });
  const invalid = useMemo(() => editable && jsonError(payload) !== null, [editable, payload]);
  const action = t(redrive ? "action.redriveEdited" : "action.edit");
  return (
    <Dialog title={`${action} ${job.id}`} onClose={onClose}>
      <DialogForm
        onSubmit={() => save.mutate()}
        onClose={onClose}
        button={redrive ? t("action.redrive") : t("action.save")}
        busy={save.isPending}
        disabled={invalid}
        error={save.error ? errorMessage(save.error) : null}
      >
        {editable ? (
          <JsonEditor label={t("form.payload")} value={payload} onChange={setPayload} />
        ) : (
          <p className="rounded-md bg-warn-soft px-3 py-2 text-warn">
            {t("job.notEditable", { codec: job.codec })}
          </p>
        )}
        <div className="grid grid-cols-2 gap-3">
          <Field label={t("form.priority")}>
            <input
              type="number"
              min={0}
              max={9}
              required
              className="field"
              value={priority}
              onChange={(event) => setPriority(event.target.value)}
            />
          </Field>
          <Field label={t("form.delay")}>
            <input
              type="number"
              min={0}
              step="any"
              className="field"
              value={delay}
              onChange={(event) => setDelay(event.target.value)}
            />
          </Field>
        </div>
      </DialogForm>
    </Dialog>
  );
}

/** The edit that reverts another: the previous value of each field that it changed. */
export function undoEdit(job: Job, edit: Edit, now: number | null): Edit {
  const undo: Edit = {};
  if (edit.payload !== undefined) undo.payload = job.payload;
  if (edit.priority !== undefined) undo.priority = job.priority;
  if (edit.delay !== undefined) undo.delay = Math.max(0, (job.run_at ?? 0) - (now ?? 0));
  return undo;
}
