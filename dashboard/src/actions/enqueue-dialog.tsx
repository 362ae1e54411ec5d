import { useMutation } from "@tanstack/react-query";
import { useState } from "react";
import { enqueueJob, type NewJob } from "../api/jobs";
import { mistakeIn } from "../api/raw";
import { useT } from "../i18n/i18n";
import { saying } from "../parts/basics";
import { Dialog, DialogForm, Field } from "../parts/dialog";
import { JsonEditor } from "../parts/json";
import { useToasts } from "../parts/toasts";

interface EnqueueProps {
  /** Without one, its name is asked for: a queue comes into being with its first job. */
  queue?: string;
  onClose: () => void;
}

const BLANK = { id: "", kind: "", priority: "", delay: "", max_attempts: "" };

/** What was typed, without what was left empty. */
export function jobFrom(typed: typeof BLANK): Partial<NewJob> {
  const { id, kind, ...numbers } = typed;
  const words = Object.entries({ id, kind }).filter(([, value]) => value !== "");
  const given = Object.entries(numbers).filter(([, value]) => value !== "");
  return Object.fromEntries([...words, ...given.map(([name, value]) => [name, Number(value)])]);
}

export function EnqueueDialog({ queue, onClose }: EnqueueProps) {
  const t = useT();
  const { say } = useToasts();
  const [name, setName] = useState(queue ?? "");
  const [payload, setPayload] = useState("{}");
  const [typed, setTyped] = useState(BLANK);
  const enqueue = useMutation({
    mutationFn: () => enqueueJob(name, jobFrom(typed), payload),
    onSuccess: (answer) => {
      if (!answer.accepted) return;
      say(t("done.enqueue", { id: answer.id }));
      onClose();
    },
  });
  const known = enqueue.data && !enqueue.data.accepted ? enqueue.data.state : null;
  const input = (field: keyof typeof BLANK, number?: { min: number; max?: number; step?: string }) => (
    <input
      className="field"
      type={number ? "number" : "text"}
      {...number}
      value={typed[field]}
      onChange={(event) => setTyped({ ...typed, [field]: event.target.value })}
    />
  );
  return (
    <Dialog title={t("action.enqueue")} onClose={onClose}>
      <DialogForm
        onSubmit={() => enqueue.mutate()}
        onClose={onClose}
        button={t("action.enqueue")}
        busy={enqueue.isPending}
        disabled={name === "" || mistakeIn(payload) !== null}
        error={
          enqueue.error
            ? saying(enqueue.error)
            : known && t("form.duplicate", { state: t(`one.${known}`) })
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
