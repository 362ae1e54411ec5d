import { cloneElement, type KeyboardEvent, type ReactElement, type ToggleEvent, useId, useRef, useState } from "react";
import { cx } from "./basics";

export interface MenuItem {
  label: string;
  onSelect: () => void;
  danger?: boolean;
  checked?: boolean;
}

interface MenuProps {
  button: ReactElement<object>;
  /** Groups of items, with a separator between them. */
  groups: (MenuItem[] | { title: string; items: MenuItem[] })[];
  align?: "start" | "end";
}

const GAP = 4;
const MARGIN = 8;

/** A menu behind a button, as a popover: the browser closes it on a click outside. */
export function Menu({ button, groups, align = "end" }: MenuProps) {
  const id = useId();
  const menu = useRef<HTMLDivElement>(null);
  const [open, setOpen] = useState(false);
  const visibleGroups = groups
    .map((group) => (Array.isArray(group) ? { title: "", items: group } : group))
    .filter((group) => group.items.length > 0);

  const onToggle = (event: ToggleEvent<HTMLDivElement>) => {
    setOpen(event.newState === "open");
    if (event.newState !== "open") return;
    const anchor = document.querySelector(`[popovertarget="${id}"]`);
    if (anchor) positionMenu(event.currentTarget, anchor.getBoundingClientRect(), align);
    itemsOf(event.currentTarget)[0]?.focus();
  };
  const trigger = { popoverTarget: id, "aria-haspopup": "menu", "aria-expanded": open };
  return (
    <>
      {cloneElement(button, trigger)}
      <div
        ref={menu}
        id={id}
        popover="auto"
        role="menu"
        onToggle={onToggle}
        onKeyDown={moveFocus}
        className="arrive inset-auto m-0 min-w-44 rounded-lg border border-line bg-surface p-1 text-sm text-ink shadow-raised"
      >
        {visibleGroups.map((group, at) => (
          <div key={group.title || at} role="group" aria-label={group.title || undefined}>
            {at > 0 && <div role="separator" className="-mx-1 my-1 h-px bg-line" />}
            {group.title && <div className="head px-2.5 pt-1 pb-0.5">{group.title}</div>}
            {group.items.map((item) => (
              <Item key={item.label} item={item} close={() => menu.current?.hidePopover()} />
            ))}
          </div>
        ))}
      </div>
    </>
  );
}

function Item({ item, close }: { item: MenuItem; close: () => void }) {
  return (
    <button
      type="button"
      role="menuitem"
      tabIndex={-1}
      onPointerMove={(event) => event.currentTarget.focus()}
      onClick={() => {
        close();
        item.onSelect();
      }}
      className={cx(
        "flex w-full items-center justify-between gap-4 rounded-md px-2.5 py-1.5 text-left outline-none select-none focus:bg-sunken",
        item.danger && "text-danger",
      )}
    >
      {item.label}
      {item.checked && <span aria-hidden>✓</span>}
    </button>
  );
}

const itemsOf = (menu: Element) => [...menu.querySelectorAll<HTMLElement>("[role=menuitem]")];

function moveFocus(event: KeyboardEvent<HTMLDivElement>): void {
  const items = itemsOf(event.currentTarget);
  const current = items.findIndex((item) => item === document.activeElement);
  const target = {
    ArrowDown: (current + 1) % items.length,
    ArrowUp: (current - 1 + items.length) % items.length,
    Home: 0,
    End: items.length - 1,
  }[event.key];
  if (event.key === "Tab") event.currentTarget.hidePopover();
  if (target === undefined) return;
  event.preventDefault();
  items[target]?.focus();
}

/** Below the button, or above it where it does not fit; always inside the window. */
function positionMenu(menu: HTMLElement, anchor: DOMRect, align: "start" | "end"): void {
  const { offsetWidth: width, offsetHeight: height } = menu;
  const left = align === "end" ? anchor.right - width : anchor.left;
  const below = anchor.bottom + GAP;
  const top = below + height > innerHeight ? anchor.top - GAP - height : below;
  menu.style.left = `${Math.max(MARGIN, Math.min(left, innerWidth - width - MARGIN))}px`;
  menu.style.top = `${Math.max(MARGIN, top)}px`;
}
