import { useMutation } from "@tanstack/react-query";
import { type ReactNode, useState } from "react";
import { filled, useT } from "../i18n/i18n";
import { saying } from "../parts/basics";
import { Dialog, DialogForm, Field } from "../parts/dialog";

interface ConfirmProps {
  title: string;
  button: string;
  /** What has to be typed, so that nobody destroys anything by a slip. */
  word: string;
  act: () => Promise<unknown>;
  onClose: () => void;
  disabled?: boolean;
  children?: ReactNode;
}

/** The last question before something that cannot be undone. */
export function Confirm({ title, button, word, act, onClose, disabled, children }: ConfirmProps) {
  const t = useT();
  const [typed, setTyped] = useState("");
  const doing = useMutation({ mutationFn: act, onSuccess: onClose });
  return (
    <Dialog title={title} onClose={onClose} careless>
      <DialogForm
        onSubmit={() => doing.mutate()}
        onClose={onClose}
        button={button}
        danger
        busy={doing.isPending}
        disabled={disabled || typed !== word}
        error={doing.error ? saying(doing.error) : null}
      >
        {children}
        <p className="font-medium text-danger">{t("bulk.irreversible")}</p>
        <Typed word={word} value={typed} onChange={setTyped} />
      </DialogForm>
    </Dialog>
  );
}

function Typed(props: { word: string; value: string; onChange: (value: string) => void }) {
  const t = useT();
  return (
    <Field
      label={filled(t("bulk.type"), {
        word: <code className="rounded bg-sunken px-1 py-px font-mono text-ink break-all">{props.word}</code>,
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
