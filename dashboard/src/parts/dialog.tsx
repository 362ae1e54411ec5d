import { type FormEvent, type KeyboardEvent, type ReactNode, useEffect, useRef, useState } from "react";
import { useT } from "../i18n/i18n";
import { Button, cx } from "./basics";
import { Icon } from "./icons";

interface DialogProps {
  title: string;
  onClose: () => void;
  children: ReactNode;
  wide?: boolean;
  /** What is typed here is quickly typed again. */
  careless?: boolean;
}

/** The browser's own dialog: it keeps the focus inside, and Escape closes it.
 *
 * What was typed is not lost by a slip: then it asks first.
 */
export function Dialog({ title, onClose, children, wide, careless }: DialogProps) {
  const t = useT();
  const ref = useRef<HTMLDialogElement>(null);
  const typed = useRef(false);
  const pressed = useRef<EventTarget | null>(null);
  const [asking, setAsking] = useState(false);
  const leave = () => {
    if (typed.current && !careless) setAsking(true);
    else onClose();
  };
  const press = (event: KeyboardEvent) => {
    if (event.key !== "Escape" || event.defaultPrevented) return;
    event.preventDefault();
    if (asking) setAsking(false);
    else leave();
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
      onKeyDown={press}
      onCancel={(event) => {
        // The browser's own ways out, a gesture for example; a file that is not chosen says it too.
        if (event.target !== ref.current) return;
        event.preventDefault();
        leave();
      }}
      onInput={() => {
        typed.current = true;
      }}
      onPointerDown={(event) => {
        pressed.current = event.target;
      }}
      onClick={(event) => {
        // Who drags a selection out of a field ends on the backdrop, but did not begin there.
        if (event.target === ref.current && pressed.current === ref.current) leave();
      }}
      className={cx(
        "arrive m-auto max-h-[90dvh] w-[calc(100vw-2rem)] overflow-hidden rounded-xl border border-line bg-surface p-0 text-ink shadow-raised",
        wide ? "max-w-5xl" : "max-w-lg",
      )}
    >
      <div className="flex max-h-[90dvh] flex-col">
        <header className="flex items-center gap-3 border-b border-line py-2.5 pr-2.5 pl-5">
          <h2 className="min-w-0 flex-1 truncate font-semibold">{title}</h2>
          <Button look="quiet" className="w-8 px-0" onClick={leave} aria-label={t("action.close")}>
            <Icon name="close" />
          </Button>
        </header>
        {asking && (
          <div role="alert" className="arrive flex flex-wrap items-center gap-2 border-b border-line bg-warn-soft px-5 py-2.5">
            <span className="font-medium text-warn">{t("dialog.discard")}</span>
            <span className="ml-auto flex gap-2">
              <Button autoFocus onClick={() => setAsking(false)}>
                {t("dialog.keep")}
              </Button>
              <Button look="danger" onClick={onClose}>
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

/** What a dialog asks, and the two ways out of it. */
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
          look={props.danger ? "danger" : "primary"}
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
