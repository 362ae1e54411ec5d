import { useMutation } from "@tanstack/react-query";
import { useState } from "react";
import { moveJob } from "../api/jobs";
import { useOverview } from "../api/overview";
import { useT } from "../i18n/i18n";
import { saying } from "../parts/basics";
import { Dialog, DialogForm, Field } from "../parts/dialog";
import { useToasts } from "../parts/toasts";
import { go, toJob } from "../routing";

interface MoveProps {
  queue: string;
  id: string;
  onClose: () => void;
}

export function MoveDialog({ queue, id, onClose }: MoveProps) {
  const t = useT();
  const { say } = useToasts();
  const [to, setTo] = useState("");
  const move = useMutation({
    mutationFn: () => moveJob(queue, id, to),
    onSuccess: () => {
      say(t("done.move", { id, to }), () => moveJob(to, id, queue));
      onClose();
      go(toJob(to, id));
    },
  });
  return (
    <Dialog title={`${t("action.move")} ${id}`} onClose={onClose}>
      <DialogForm
        onSubmit={() => move.mutate()}
        onClose={onClose}
        button={t("action.move")}
        busy={move.isPending}
        disabled={to === "" || to === queue}
        error={move.error ? saying(move.error) : null}
      >
        <TargetQueue value={to} onChange={setTo} except={queue} />
      </DialogForm>
    </Dialog>
  );
}

interface TargetProps {
  value: string;
  onChange: (queue: string) => void;
  except: string;
}

/** A queue by name: one of those that there are, or a new one. */
export function TargetQueue({ value, onChange, except }: TargetProps) {
  const t = useT();
  const queues = useOverview().data?.queues ?? [];
  return (
    <Field label={t("bulk.to")}>
      <input
        className="field"
        list="queues"
        autoFocus
        autoComplete="off"
        value={value}
        onChange={(event) => onChange(event.target.value)}
      />
      <datalist id="queues">
        {queues
          .filter((one) => one.queue !== except)
          .map((one) => (
            <option key={one.queue} value={one.queue} />
          ))}
      </datalist>
    </Field>
  );
}
