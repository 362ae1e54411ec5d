/** What was done, for a moment, with a way back where there is one; what went wrong, until it is dismissed. */
import { createContext, type ReactNode, useCallback, useContext, useMemo, useState } from "react";
import { useT } from "../i18n/i18n";
import { Button, cx, saying } from "./basics";
import { Icon } from "./icons";

interface Toast {
  number: number;
  text: string;
  wrong: boolean;
  undo?: (() => Promise<unknown>) | undefined;
}

interface Toasts {
  say: (text: string, undo?: () => Promise<unknown>) => void;
  complain: (error: unknown) => void;
}

const SHOWN = 7000;
/** More than these would cover the page. */
const MOST = 3;
const MOST_WRONG = 5;
let made = 0;

/** The last ones; what went wrong is not pushed out by what went well. */
const latest = (all: Toast[]): Toast[] => {
  const kept = new Set([...all.filter((one) => one.wrong).slice(-MOST_WRONG), ...all.filter((one) => !one.wrong).slice(-MOST)]);
  return all.filter((one) => kept.has(one));
};

const Context = createContext<Toasts>({ say: () => {}, complain: () => {} });
export const useToasts = (): Toasts => useContext(Context);

export function ToastProvider({ children }: { children: ReactNode }) {
  const t = useT();
  const [shown, setShown] = useState<Toast[]>([]);

  const drop = useCallback((number: number) => {
    setShown((all) => all.filter((one) => one.number !== number));
  }, []);
  const show = useCallback(
    (toast: Omit<Toast, "number">) => {
      const number = ++made;
      setShown((all) => latest([...all, { number, ...toast }]));
      if (!toast.wrong) setTimeout(() => drop(number), SHOWN);
    },
    [drop],
  );
  const toasts = useMemo<Toasts>(
    () => ({
      say: (text, undo) => show({ text, wrong: false, undo }),
      complain: (error) => show({ text: saying(error), wrong: true }),
    }),
    [show],
  );
  const undo = (toast: Toast) => {
    drop(toast.number);
    toast.undo?.().then(() => toasts.say(t("done.undone")), toasts.complain);
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
            role={toast.wrong ? "alert" : undefined}
            className={cx(
              "arrive pointer-events-auto flex max-w-md items-center gap-4 rounded-lg border border-line px-4 py-2.5 shadow-raised",
              toast.wrong ? "bg-danger-soft text-danger" : "bg-surface",
            )}
          >
            <span className="min-w-0 break-words">{toast.text}</span>
            {toast.undo && (
              <button type="button" className="font-medium text-accent" onClick={() => undo(toast)}>
                {t("action.undo")}
              </button>
            )}
            {toast.wrong && (
              <Button look="quiet" className="-mr-2 w-8 px-0" aria-label={t("action.dismiss")} onClick={() => drop(toast.number)}>
                <Icon name="close" />
              </Button>
            )}
          </div>
        ))}
      </div>
    </Context>
  );
}
