import * as DropdownMenu from "@radix-ui/react-dropdown-menu";
import type { ReactNode } from "react";
import { cx } from "./basics";

export interface MenuItem {
  label: string;
  onSelect: () => void;
  danger?: boolean;
  checked?: boolean;
}

interface MenuProps {
  button: ReactNode;
  /** Groups, with a line between them. */
  groups: (MenuItem[] | { title: string; items: MenuItem[] })[];
  align?: "start" | "end";
}

/** A menu behind a button. It does not lock the page: that would need styles in the document. */
export function Menu({ button, groups, align = "end" }: MenuProps) {
  const shown = groups
    .map((group) => (Array.isArray(group) ? { title: "", items: group } : group))
    .filter((group) => group.items.length > 0);
  return (
    <DropdownMenu.Root modal={false}>
      <DropdownMenu.Trigger asChild>{button}</DropdownMenu.Trigger>
      <DropdownMenu.Portal>
        <DropdownMenu.Content
          align={align}
          sideOffset={4}
          className="arrive z-40 min-w-44 rounded-lg border border-line bg-surface p-1 text-sm shadow-raised"
        >
          {shown.map((group, at) => (
            <DropdownMenu.Group key={group.title || at} aria-label={group.title || undefined}>
              {at > 0 && <DropdownMenu.Separator className="-mx-1 my-1 h-px bg-line" />}
              {group.title && (
                <DropdownMenu.Label className="head px-2.5 pt-1 pb-0.5">{group.title}</DropdownMenu.Label>
              )}
              {group.items.map((item) => (
                <Item key={item.label} item={item} />
              ))}
            </DropdownMenu.Group>
          ))}
        </DropdownMenu.Content>
      </DropdownMenu.Portal>
    </DropdownMenu.Root>
  );
}

function Item({ item }: { item: MenuItem }) {
  return (
    <DropdownMenu.Item
      onSelect={item.onSelect}
      className={cx(
        "flex items-center justify-between gap-4 rounded-md px-2.5 py-1.5 outline-none select-none data-[highlighted]:bg-sunken",
        item.danger && "text-danger",
      )}
    >
      {item.label}
      {item.checked && <span aria-hidden>✓</span>}
    </DropdownMenu.Item>
  );
}
