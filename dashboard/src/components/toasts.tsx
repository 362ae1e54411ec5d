/** Short messages: successes disappear by themselves and may offer Undo, errors stay until dismissed. */
import { createContext, type ReactNode, useCallback, useContext, useMemo, useState } from "react";
import { useT } from "../i18n/i18n";
import { Button, cx, errorMessage } from "./basics";
import { Icon } from "./icons";

interface Toast {
  number: number;
  text: string;
  isError: boolean;
  undo?: (() => Promise<unknown>) | undefined;
}

interface Toasts {
  showSuccess: (text: string, undo?: () => Promise<unknown>) => void;
  showError: (error: unknown) => void;
}

const SHOW_FOR = 7000;
/** More would cover the page. */
const MAX_SUCCESSES = 3;
const MAX_ERRORS = 5;
let lastNumber = 0;

/** The latest messages; successes do not push out errors. */
const mostRecent = (all: Toast[]): Toast[] => {
  const kept = new Set([...all.filter((one) => one.isError).slice(-MAX_ERRORS), ...all.filter((one) => !one.isError).slice(-MAX_SUCCESSES)]);
  return all.filter((one) => kept.has(one));
};

const Context = createContext<Toasts>({ showSuccess: () => {}, showError: () => {} });
export const useToasts = (): Toasts => useContext(Context);

export function ToastProvider({ children }: { children: ReactNode }) {
  const t = useT();
  const [shown, setShown] = useState<Toast[]>([]);

  const dismiss = useCallback((number: number) => {
    setShown((all) => all.filter((one) => one.number !== number));
  }, []);
  const show = useCallback(
    (toast: Omit<Toast, "number">) => {
      const number = ++lastNumber;
      setShown((all) => mostRecent([...all, { number, ...toast }]));
      if (!toast.isError) setTimeout(() => dismiss(number), SHOW_FOR);
    },
    [dismiss],
  );
  const toasts = useMemo<Toasts>(
    () => ({
      showSuccess: (text, undo) => show({ text, isError: false, undo }),
      showError: (error) => show({ text: errorMessage(error), isError: true }),
    }),
    [show],
  );
  const undo = (toast: Toast) => {
    dismiss(toast.number);
    toast.undo?.().then(() => toasts.showSuccess(t("done.undone")), toasts.showError);
  };

  return (
    <Context value={toasts}>
      {children}
      <div
        role="status"
        className="pointer-events-none fixed right-4 bottom-4 z-50 flex max-w-[calc(100vw-2rem)] flex-col items-end gap-2"
      >
        {shown.map((toast) => (
          <div
            key={toast.number}
            role={toast.isError ? "alert" : undefined}
            className={cx(
              "arrive pointer-events-auto flex max-w-md items-center gap-4 rounded-lg border border-line px-4 py-2.5 shadow-raised",
              toast.isError ? "bg-danger-soft text-danger" : "bg-surface",
            )}
          >
            <span className="min-w-0 break-words">{toast.text}</span>
            {toast.undo && (
              <button type="button" className="font-medium text-accent" onClick={() => undo(toast)}>
                {t("action.undo")}
              </button>
            )}
            {toast.isError && (
              <Button variant="quiet" className="-mr-2 w-8 px-0" aria-label={t("action.dismiss")} onClick={() => dismiss(toast.number)}>
                <Icon name="close" />
              </Button>
            )}
          </div>
        ))}
      </div>
    </Context>
  );
}
