import { Dialog } from "../components/dialog";
import { useDialog } from "../components/dialog-provider";
import { useT } from "../i18n/i18n";
import { navigate } from "../routing";
import { SEARCH_ID } from "./header";
import { useKeyPress } from "./key-press";

/** Keyboard shortcuts of every page. */
export function useShortcuts(): void {
  const open = useDialog();
  useKeyPress((event) => {
    if (event.key === "/") {
      event.preventDefault();
      focusSearch();
    } else if (event.key === "?") {
      open((close) => <Help onClose={close} />);
    } else if (event.key === "o") {
      navigate("/");
    } else if (event.key === "j" || event.key === "k") {
      moveFocus(event.key === "j" ? 1 : -1);
    }
  });
}

function focusSearch(): void {
  const field = document.getElementById(SEARCH_ID) as HTMLInputElement | null;
  field?.focus();
  field?.select();
}

/** Move the focus between rows. Job tables are virtual and use `useRowNavigation` instead. */
function moveFocus(step: 1 | -1): void {
  const rows = [...document.querySelectorAll<HTMLElement>("main [data-focusable-row]")];
  const current = rows.findIndex((one) => one === document.activeElement);
  rows[Math.min(Math.max(current + step, 0), rows.length - 1)]?.focus();
}

const SHORTCUTS = [
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
        {SHORTCUTS.map(([key, label]) => (
          <div key={key} className="contents">
            <dt>
              <kbd className="rounded border border-line bg-sunken px-1.5 py-0.5 font-mono text-xs whitespace-pre">
                {key}
              </kbd>
            </dt>
            <dd>{t(label)}</dd>
          </div>
        ))}
      </dl>
    </Dialog>
  );
}
