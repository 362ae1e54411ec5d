import { useT } from "../i18n/i18n";
import { Dialog } from "../parts/dialog";
import { useDialog } from "../parts/dialogs";
import { go } from "../routing";
import { SEARCH_ID } from "./header";
import { useKeys } from "./keys";

/** Keys that work on every page. */
export function useShortcuts(): void {
  const open = useDialog();
  useKeys((event) => {
    if (event.key === "/") {
      event.preventDefault();
      focusSearch();
    } else if (event.key === "?") {
      open((close) => <Help onClose={close} />);
    } else if (event.key === "o") {
      go("/");
    } else if (event.key === "j" || event.key === "k") {
      walk(event.key === "j" ? 1 : -1);
    }
  });
}

function focusSearch(): void {
  const field = document.getElementById(SEARCH_ID) as HTMLInputElement | null;
  field?.focus();
  field?.select();
}

/** Moves the focus through what is listed. A table of jobs has too many rows for that: see `useRowKeys`. */
function walk(step: 1 | -1): void {
  const stops = [...document.querySelectorAll<HTMLElement>("main [data-walk]")];
  const here = stops.findIndex((one) => one === document.activeElement);
  stops[Math.min(Math.max(here + step, 0), stops.length - 1)]?.focus();
}

const KEYS = [
  ["/", "keys.search"],
  ["j  k", "keys.move"],
  ["Enter", "keys.open"],
  ["x", "keys.select"],
  ["[  ]", "keys.tab"],
  ["o", "keys.overview"],
  ["Esc", "keys.close"],
  ["?", "keys.help"],
] as const;

function Help({ onClose }: { onClose: () => void }) {
  const t = useT();
  return (
    <Dialog title={t("keys.title")} onClose={onClose}>
      <dl className="grid grid-cols-[5rem_1fr] gap-y-2">
        {KEYS.map(([key, word]) => (
          <div key={key} className="contents">
            <dt>
              <kbd className="rounded border border-line bg-sunken px-1.5 py-0.5 font-mono text-xs whitespace-pre">
                {key}
              </kbd>
            </dt>
            <dd>{t(word)}</dd>
          </div>
        ))}
      </dl>
    </Dialog>
  );
}
