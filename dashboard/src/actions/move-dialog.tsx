import { useMutation } from "@tanstack/react-query";
import { useState } from "react";
import { moveJob } from "../api/jobs";
import { useOverview } from "../api/overview";
import { errorMessage } from "../components/basics";
import { Dialog, DialogForm, Field } from "../components/dialog";
import { useToasts } from "../components/toasts";
import { useT } from "../i18n/i18n";
import { navigate, toJob } from "../routing";

interface MoveProps {
  queue: string;
  id: string;
  onClose: () => void;
}

export function MoveDialog({ queue, id, onClose }: MoveProps) {
  const t = useT();
  const { showSuccess } = useToasts();
  const [to, setTo] = useState("");
  const move = useMutation({
    mutationFn: () => moveJob(queue, id, to),
    onSuccess: () => {
      showSuccess(t("done.move", { id, to }), () => moveJob(to, id, queue));
      onClose();
      navigate(toJob(to, id));
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
        error={move.error ? errorMessage(move.error) : null}
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

/** The name of an existing queue or of a new one. */
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
