import { type FormEvent, useEffect, useState } from "react";
import { base } from "../api/client";
import { useMe, useSignOut } from "../api/session";
import { Button, cx } from "../components/basics";
import { Icon } from "../components/icons";
import { Menu } from "../components/menu";
import { type Language, useI18n } from "../i18n/i18n";
import { useLive } from "../live/live";
import { navigate, useAddress } from "../routing";
import { type Theme, useTheme } from "../theme";

export const SEARCH_ID = "search";

export function Header({ onMenu }: { onMenu: () => void }) {
  const { t } = useI18n();
  return (
    <header className="flex h-14 shrink-0 items-center gap-2 border-b border-line bg-surface px-4 md:px-6">
      <Button variant="quiet" className="w-8 px-0 lg:hidden" aria-label={t("nav.main")} onClick={onMenu}>
        <Icon name="menu" />
      </Button>
      <Search />
      <ConnectionStatus />
      <SettingsMenu />
    </header>
  );
}

function Search() {
  const { t } = useI18n();
  const { path, query } = useAddress();
  const searched = path === "/search" ? (query.get("text") ?? "") : "";
  const [text, setText] = useState(searched);
  useEffect(() => setText(searched), [searched]);
  const submit = (event: FormEvent) => {
    event.preventDefault();
    if (text.trim()) navigate(`/search?${new URLSearchParams({ text: text.trim() })}`);
  };
  return (
    <form role="search" onSubmit={submit} className="relative mr-auto w-full max-w-sm">
      <Icon name="search" className="pointer-events-none absolute top-2 left-2.5 size-4 text-faint" />
      <input
        id={SEARCH_ID}
        type="search"
        value={text}
        onChange={(event) => setText(event.target.value)}
        onKeyDown={(event) => event.key === "Escape" && event.currentTarget.blur()}
        aria-label={t("search.label")}
        placeholder={t("search.placeholder")}
        className="field bg-canvas pl-8 md:pr-8"
      />
      <kbd className="pointer-events-none absolute top-1.5 right-2 rounded border border-line bg-surface px-1.5 font-sans text-xs text-faint max-md:hidden">
        /
      </kbd>
    </form>
  );
}

function ConnectionStatus() {
  const { t } = useI18n();
  const { connection } = useLive();
  const live = connection === "live";
  return (
    <span
      data-connection={connection}
      className="flex items-center gap-1.5 px-1 text-xs font-medium text-muted"
      title={t(live ? "connection.live" : "connection.connecting")}
    >
      <span aria-hidden className={cx("size-2 rounded-full", live ? "bg-completed" : "bg-failing")} />
      <span className="max-sm:sr-only">{t(live ? "connection.live" : "connection.connecting")}</span>
    </span>
  );
}

const THEMES: readonly Theme[] = ["auto", "light", "dark"];
const LANGUAGES: readonly [Language, string][] = [
  ["en", "English"],
  ["es", "Español"],
];

function SettingsMenu() {
  const { t, language, setLanguage } = useI18n();
  const { theme, setTheme } = useTheme();
  const signOut = useSignOut();
  const me = useMe().data;
  return (
    <Menu
      button={
        <Button variant="quiet" className="w-8 px-0" aria-label={t("menu.label")}>
          <Icon name="settings" />
        </Button>
      }
      groups={[
        {
          title: t("theme.label"),
          items: THEMES.map((one) => ({
            label: t(`theme.${one}`),
            checked: theme === one,
            onSelect: () => setTheme(one),
          })),
        },
        {
          title: t("language.label"),
          items: LANGUAGES.map(([one, label]) => ({
            label,
            checked: language === one,
            onSelect: () => setLanguage(one),
          })),
        },
        [
          { label: t("nav.docs"), onSelect: () => location.assign(`${base}/docs`) },
          ...(me?.auth ? [{ label: `${t("login.out")} (${me.name})`, onSelect: signOut }] : []),
        ],
      ]}
    />
  );
}
