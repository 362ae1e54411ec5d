import { useMutation, useQueryClient } from "@tanstack/react-query";
import { useMemo, useState } from "react";
import { type Edit, editJob, type Job, jobKey, redriveJob } from "../api/jobs";
import { clock } from "../api/clock";
import { mistakeIn } from "../api/raw";
import { useT } from "../i18n/i18n";
import { saying } from "../parts/basics";
import { Dialog, DialogForm, Field } from "../parts/dialog";
import { forEditor, JsonEditor } from "../parts/json";
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
  const editable = job.codec === "json";
  const opened = useMemo(() => forEditor(job.payload), [job.payload]);
  const [payload, setPayload] = useState(opened);
  const [priority, setPriority] = useState(String(job.priority));
  const [delay, setDelay] = useState("");

  const save = useMutation({
    mutationFn: async () => {
      const edit: Edit = {};
      if (Number(priority) !== job.priority) edit.priority = Number(priority);
      if (editable && payload !== opened) edit.payload = payload;
      if (delay !== "" && !redrive) edit.delay = Number(delay);
      if (Object.keys(edit).length > 0) await editJob(queue, job.id, edit);
      if (redrive) await redriveJob(queue, job.id, Number(delay || 0));
      return edit;
    },
    onSuccess: (edit) => {
      if (redrive) say(t("done.redrive", { id: job.id }));
      else say(t("done.edit", { id: job.id }), () => editJob(queue, job.id, before(job, edit, clock.now())));
      void client.invalidateQueries({ queryKey: jobKey(queue, job.id) });
      onClose();
    },
  });
  const wrong = useMemo(() => editable && mistakeIn(payload) !== null, [editable, payload]);
  const action = t(redrive ? "action.redriveEdited" : "action.edit");
  return (
    <Dialog title={`${action} ${job.id}`} onClose={onClose}>
      <DialogForm
        onSubmit={() => save.mutate()}
        onClose={onClose}
        button={redrive ? t("action.redrive") : t("action.save")}
        busy={save.isPending}
        disabled={wrong}
        error={save.error ? saying(save.error) : null}
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

/** What takes an edit back: of each thing that it changed, what the job had before. */
export function before(job: Job, edit: Edit, now: number | null): Edit {
  const back: Edit = {};
  if (edit.payload !== undefined) back.payload = job.payload;
  if (edit.priority !== undefined) back.priority = job.priority;
  if (edit.delay !== undefined) back.delay = Math.max(0, (job.run_at ?? 0) - (now ?? 0));
  return back;
}
