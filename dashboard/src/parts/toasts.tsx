/** What was done, for a moment, with a way back where there is one. */
import { createContext, type ReactNode, useCallback, useContext, useMemo, useState } from "react";
import { useT } from "../i18n/i18n";
import { cx, saying } from "./basics";

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
let made = 0;

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
      setShown((all) => [...all.slice(-2), { number, ...toast }]);
      setTimeout(() => drop(number), SHOWN);
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
            className={cx(
              "arrive pointer-events-auto flex max-w-md items-center gap-4 rounded-lg border px-4 py-2.5 shadow-raised",
              toast.wrong ? "border-line bg-danger-soft text-danger" : "border-line bg-surface",
            )}
          >
            <span className="min-w-0 break-words">{toast.text}</span>
            {toast.undo && (
              <button type="button" className="font-medium text-accent" onClick={() => undo(toast)}>
                {t("action.undo")}
              </button>
            )}
          </div>
        ))}
      </div>
    </Context>
  );
}
