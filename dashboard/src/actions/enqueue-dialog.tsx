import { useMutation } from "@tanstack/react-query";
import { useState } from "react";
import { enqueueJob, type NewJob } from "../api/jobs";
import { jsonError } from "../api/raw-json";
import { errorMessage } from "../components/basics";
import { Dialog, DialogForm, Field } from "../components/dialog";
import { JsonEditor } from "../components/json";
import { useToasts } from "../components/toasts";
import { useT } from "../i18n/i18n";

interface EnqueueProps {
  /** Without one, the dialog asks for a name: the first job creates the queue. */
  queue?: string;
  onClose: () => void;
}

const EMPTY = { id: "", kind: "", priority: "", delay: "", max_attempts: "" };

/** The fields that were filled in. */
export function jobFields(fields: typeof EMPTY): Partial<NewJob> {
  const filled = Object.entries(fields).filter(([, value]) => value !== "");
  const isText = (name: string) => name === "id" || name === "kind";
  return Object.fromEntries(filled.map(([name, value]) => [name, isText(name) ? value : Number(value)]));
}

export function EnqueueDialog({ queue, onClose }: EnqueueProps) {
  const t = useT();
  const { showSuccess } = useToasts();
  const [name, setName] = useState(queue ?? "");
  const [payload, setPayload] = useState("{}");
  const [fields, setFields] = useState(EMPTY);
  const enqueue = useMutation({
    mutationFn: () => enqueueJob(name, jobFields(fields), payload),
    onSuccess: (answer) => {
      if (!answer.accepted) return;
      showSuccess(t("done.enqueue", { id: answer.id }));
      onClose();
    },
  });
  const duplicateState = enqueue.data && !enqueue.data.accepted ? enqueue.data.state : null;
  const input = (field: keyof typeof EMPTY, number?: { min: number; max?: number; step?: string }) => (
    <input
      className="field"
      type={number ? "number" : "text"}
      {...number}
      value={fields[field]}
      onChange={(event) => setFields({ ...fields, [field]: event.target.value })}
    />
  );
  return (
    <Dialog title={t("action.enqueue")} onClose={onClose}>
      <DialogForm
        onSubmit={() => enqueue.mutate()}
        onClose={onClose}
        button={t("action.enqueue")}
        busy={enqueue.isPending}
        disabled={name === "" || jsonError(payload) !== null}
        error={
          enqueue.error
            ? errorMessage(enqueue.error)
            : duplicateState && t("form.duplicate", { state: t(`one.${duplicateState}`) })
        }
      >
        {queue === undefined && (
          <Field label={t("column.queue")}>
            <input className="field" autoFocus value={name} onChange={(event) => setName(event.target.value)} />
          </Field>
        )}
        <JsonEditor label={t("form.payload")} value={payload} onChange={setPayload} />
        <div className="grid grid-cols-2 gap-3">
          <Field label={t("form.id")}>{input("id")}</Field>
          <Field label={t("column.kind")}>{input("kind")}</Field>
          <Field label={t("form.priority")}>{input("priority", { min: 0, max: 9 })}</Field>
          <Field label={t("form.delay")}>{input("delay", { min: 0, step: "any" })}</Field>
          <Field label={t("form.maxAttempts")}>{input("max_attempts", { min: 1 })}</Field>
        </div>
      </DialogForm>
    </Dialog>
  );
}
