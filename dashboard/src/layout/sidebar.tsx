import { useOverview } from "../api/overview";
import { Button, cx } from "../components/basics";
import { Icon, type IconName } from "../components/icons";
import { count } from "../format/numbers";
import { useT } from "../i18n/i18n";
import mark from "../mark.svg";
import { Link, toQueue, type View } from "../routing";

const PAGES = ["overview", "workers", "events", "schedules", "keyspace", "analytics"] as const;

interface SidebarProps {
  view: View;
  open: boolean;
  onClose: () => void;
}

/** A column beside the page; on narrow screens an overlay. */
export function Sidebar({ view, open, onClose }: SidebarProps) {
  const t = useT();
  return (
    <>
      {open && (
        <div aria-hidden className="fixed inset-0 z-20 bg-black/40 lg:hidden" onClick={onClose} />
      )}
      <nav
        aria-label={t("nav.main")}
        className={cx(
          "z-30 flex w-56 shrink-0 flex-col overflow-y-auto border-r border-line bg-canvas px-3 pb-4",
          "max-lg:fixed max-lg:inset-y-0 max-lg:left-0 max-lg:shadow-raised",
          !open && "max-lg:hidden",
        )}
      >
        <div className="flex h-14 shrink-0 items-center justify-between">
          <Link href="/" className="flex items-center gap-2.5 px-2 text-base font-semibold tracking-tight">
            <img src={mark} alt="" className="size-6" />
            Ackline
          </Link>
          <Button variant="quiet" className="w-8 px-0 lg:hidden" aria-label={t("action.close")} onClick={onClose}>
            <Icon name="close" />
          </Button>
        </div>
        <ul className="flex flex-col gap-px">
          {PAGES.map((page) => (
            <li key={page}>
              <NavLink
                href={page === "overview" ? "/" : `/${page}`}
                icon={page}
                current={view.page === page}
                label={t(`nav.${page}`)}
              />
            </li>
          ))}
        </ul>
        <QueueList view={view} />
      </nav>
    </>
  );
}

function NavLink(props: { href: string; icon: IconName; current: boolean; label: string }) {
  return (
    <Link
      href={props.href}
      aria-current={props.current ? "page" : undefined}
      className={cx(
        "flex h-8 items-center gap-2.5 rounded-md px-2 font-medium",
        props.current ? "bg-sunken text-ink" : "text-muted hover:bg-sunken hover:text-ink",
      )}
    >
      <Icon name={props.icon} />
      {props.label}
    </Link>
  );
}

function QueueList({ view }: { view: View }) {
  const t = useT();
  const queues = useOverview().data?.queues ?? [];
  const current = view.page === "queue" || view.page === "job" ? view.queue : null;
  if (queues.length === 0) return null;
  return (
    <>
      <h2 className="head px-2 pt-5 pb-1">{t("nav.queues")}</h2>
      <ul className="flex flex-col gap-px">
        {queues.map((one) => (
          <li key={one.queue}>
            <Link
              href={toQueue(one.queue)}
              aria-current={current === one.queue ? "true" : undefined}
              className={cx(
                "flex h-7 items-center justify-between gap-2 rounded-md px-2",
                current === one.queue ? "bg-sunken font-medium text-ink" : "text-muted hover:bg-sunken hover:text-ink",
              )}
            >
              <span className="truncate">{one.queue}</span>
              <span className="text-xs tabular-nums">{liveCount(one.counts)}</span>
            </Link>
          </li>
        ))}
      </ul>
    </>
  );
}

function liveCount(counts: Partial<Record<string, number>>): string {
  const n = (counts.queued ?? 0) + (counts.processing ?? 0) + (counts.failing ?? 0);
  return n ? count(n) : "";
}
