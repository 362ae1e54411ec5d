import { type FormEvent, type KeyboardEvent, type ReactNode, useEffect, useRef, useState } from "react";
import { useT } from "../i18n/i18n";
import { Button, cx } from "./basics";
import { Icon } from "./icons";

interface DialogProps {
  title: string;
  onClose: () => void;
  children: ReactNode;
  wide?: boolean;
  /** Close without asking even if something was typed. */
  discardable?: boolean;
}

/** A modal `<dialog>`: the browser keeps the focus inside, and Escape closes it.
 *
 * If something was typed, closing asks first.
 */
export function Dialog({ title, onClose, children, wide, discardable }: DialogProps) {
  const t = useT();
  const ref = useRef<HTMLDialogElement>(null);
  const edited = useRef(false);
  const pressedOn = useRef<EventTarget | null>(null);
  const [confirmingDiscard, setConfirmingDiscard] = useState(false);
  const requestClose = () => {
    if (edited.current && !discardable) setConfirmingDiscard(true);
    else onClose();
  };
  const onKeyDown = (event: KeyboardEvent) => {
    if (event.key !== "Escape" || event.defaultPrevented) return;
    event.preventDefault();
    if (confirmingDiscard) setConfirmingDiscard(false);
    else requestClose();
  };
  useEffect(() => {
    const dialog = ref.current;
    if (dialog && !dialog.open) dialog.showModal();
    return () => dialog?.close();
  }, []);
  return (
    <dialog
      ref={ref}
      aria-label={title}
      onKeyDown={onKeyDown}
      onCancel={(event) => {
        // A close request of the browser, such as a gesture; a file picker that is cancelled bubbles here too.
        if (event.target !== ref.current) return;
        event.preventDefault();
        requestClose();
      }}
      onInput={() => {
        edited.current = true;
      }}
      onPointerDown={(event) => {
        pressedOn.current = event.target;
      }}
      onClick={(event) => {
        // A selection dragged out of a field ends on the backdrop, but did not begin there.
        if (event.target === ref.current && pressedOn.current === ref.current) requestClose();
      }}
      className={cx(
        "arrive m-auto max-h-[90dvh] w-[calc(100vw-2rem)] overflow-hidden rounded-xl border border-line bg-surface p-0 text-ink shadow-raised",
        wide ? "max-w-5xl" : "max-w-lg",
      )}
    >
      <div className="flex max-h-[90dvh] flex-col">
        <header className="flex items-center gap-3 border-b border-line py-2.5 pr-2.5 pl-5">
          <h2 className="min-w-0 flex-1 truncate font-semibold">{title}</h2>
          <Button variant="quiet" className="w-8 px-0" onClick={requestClose} aria-label={t("action.close")}>
            <Icon name="close" />
          </Button>
        </header>
        {confirmingDiscard && (
          <div role="alert" className="arrive flex flex-wrap items-center gap-2 border-b border-line bg-warn-soft px-5 py-2.5">
            <span className="font-medium text-warn">{t("dialog.discard")}</span>
            <span className="ml-auto flex gap-2">
              <Button autoFocus onClick={() => setConfirmingDiscard(false)}>
                {t("dialog.keep")}
              </Button>
              <Button variant="danger" onClick={onClose}>
                {t("dialog.discard.yes")}
              </Button>
            </span>
          </div>
        )}
        <div className="min-h-0 overflow-y-auto px-5 py-4">{children}</div>
      </div>
    </dialog>
  );
}

interface FormProps {
  onSubmit: () => void;
  children: ReactNode;
  button: string;
  busy?: boolean;
  disabled?: boolean;
  danger?: boolean;
  onClose: () => void;
  error?: string | null;
}

/** A form in a dialog, with its two buttons. */
export function DialogForm(props: FormProps) {
  const t = useT();
  const submit = (event: FormEvent) => {
    event.preventDefault();
    if (!props.busy && !props.disabled) props.onSubmit();
  };
  return (
    <form onSubmit={submit} className="flex flex-col gap-4">
      {props.children}
      {props.error && (
        <p role="alert" className="rounded-md bg-danger-soft px-3 py-2 break-words text-danger">
          {props.error}
        </p>
      )}
      <div className="flex justify-end gap-2">
        <Button onClick={props.onClose}>{t("action.back")}</Button>
        <Button
          type="submit"
          variant={props.danger ? "danger" : "primary"}
          disabled={props.busy || props.disabled}
        >
          {props.button}
        </Button>
      </div>
    </form>
  );
}

export function Field({ label, children }: { label: ReactNode; children: ReactNode }) {
  return (
    <label className="flex min-w-0 flex-col gap-1">
      <span className="head">{label}</span>
      {children}
    </label>
  );
}
