import { useMutation, useQueryClient } from "@tanstack/react-query";
import { useState } from "react";
import { type Edit, editJob, type Job, jobKey, redriveJob } from "../api/jobs";
import { mistakeIn, notJson, pretty } from "../api/raw";
import { useT } from "../i18n/i18n";
import { saying } from "../parts/basics";
import { Dialog, DialogForm, Field } from "../parts/dialog";
import { JsonEditor } from "../parts/json";
import { useToasts } from "../parts/toasts";

interface EditProps {
  queue: string;
  job: Job;
  /** Whether the job is redriven afterwards. */
  redrive?: boolean;
  onClose: () => void;
}

export function EditDialog({ queue, job, redrive = false, onClose }: EditProps) {
  const t = useT();
  const { say } = useToasts();
  const client = useQueryClient();
  const editable = notJson(job.payload) === null;
  const [payload, setPayload] = useState(() => pretty(job.payload));
  const [priority, setPriority] = useState(String(job.priority));
  const [delay, setDelay] = useState("");

  const save = useMutation({
    mutationFn: async () => {
      const edit: Edit = { priority: Number(priority) };
      if (editable) edit.payload = payload;
      if (delay !== "" && !redrive) edit.delay = Number(delay);
      await editJob(queue, job.id, edit);
      if (redrive) await redriveJob(queue, job.id, Number(delay || 0));
    },
    onSuccess: () => {
      if (redrive) say(t("done.redrive", { id: job.id }));
      else say(t("done.edit", { id: job.id }), () => putBack(queue, job));
      void client.invalidateQueries({ queryKey: jobKey(queue, job.id) });
      onClose();
    },
  });
  const action = t(redrive ? "action.redriveEdited" : "action.edit");
  return (
    <Dialog title={`${action} ${job.id}`} onClose={onClose}>
      <DialogForm
        onSubmit={() => save.mutate()}
        onClose={onClose}
        button={redrive ? t("action.redrive") : t("action.save")}
        busy={save.isPending}
        disabled={editable && mistakeIn(payload) !== null}
        error={save.error ? saying(save.error) : null}
      >
        {editable ? (
          <JsonEditor label={t("form.payload")} value={payload} onChange={setPayload} />
        ) : (
          <p className="text-warn">{t("job.notEditable")}</p>
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

function putBack(queue: string, job: Job): Promise<unknown> {
  const payload = notJson(job.payload) ? {} : { payload: job.payload };
  return editJob(queue, job.id, { ...payload, priority: job.priority });
}
