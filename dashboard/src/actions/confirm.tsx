import { useMutation } from "@tanstack/react-query";
import { type ReactNode, useState } from "react";
import { errorMessage } from "../components/basics";
import { Dialog, DialogForm, Field } from "../components/dialog";
import { interpolate, useT } from "../i18n/i18n";

interface ConfirmProps {
  title: string;
  button: string;
  /** What has to be typed to confirm. */
  expected: string;
  act: () => Promise<unknown>;
  onClose: () => void;
  disabled?: boolean;
  children?: ReactNode;
}

/** Confirms an action that cannot be undone. */
export function Confirm({ title, button, expected, act, onClose, disabled, children }: ConfirmProps) {
  const t = useT();
  const [typed, setTyped] = useState("");
  const mutation = useMutation({ mutationFn: act, onSuccess: onClose });
  return (
    <Dialog title={title} onClose={onClose} discardable>
      <DialogForm
        onSubmit={() => mutation.mutate()}
        onClose={onClose}
        button={button}
        danger
        busy={mutation.isPending}
        disabled={disabled || typed !== expected}
        error={mutation.error ? errorMessage(mutation.error) : null}
      >
        {children}
        <p className="font-medium text-danger">{t("bulk.irreversible")}</p>
        <ConfirmInput expected={expected} value={typed} onChange={setTyped} />
      </DialogForm>
    </Dialog>
  );
}

function ConfirmInput(props: { expected: string; value: string; onChange: (value: string) => void }) {
  const t = useT();
  return (
    <Field
      label={interpolate(t("bulk.type"), {
        expected: <code className="rounded bg-sunken px-1 py-px font-mono text-ink break-all">{props.expected}</code>,
      })}
    >
      <input
        className="field font-mono"
        autoComplete="off"
        autoFocus
        value={props.value}
        onChange={(event) => props.onChange(event.target.value)}
      />
    </Field>
  );
}
