/** The frame around every view: navigation, search, and whether what is shown is live. */
import { type Query, useQueryClient } from "@tanstack/react-query";
import { useEffect, useState } from "react";
import { onRefused, Problem, token } from "./api/client";
import { type Me, meKey, useMe, useSignOut } from "./api/session";
import { useT } from "./i18n/i18n";
import { LiveProvider, useLive } from "./live/live";
import { Analytics } from "./pages/analytics";
import { Events } from "./pages/events";
import { JobPage } from "./pages/job";
import { Keyspace } from "./pages/keyspace";
import { Login, LoginAgain } from "./pages/login";
import { OverviewPage } from "./pages/overview";
import { QueuePage } from "./pages/queue";
import { Schedules } from "./pages/schedules";
import { SearchPage } from "./pages/search";
import { Workers } from "./pages/workers";
import { Button, Empty, Trouble } from "./parts/basics";
import { Boundary } from "./parts/boundary";
import { Icon } from "./parts/icons";
import { type View, useAddress, viewOf } from "./routing";
import { Header } from "./shell/header";
import { Sidebar } from "./shell/sidebar";
import { useShortcuts } from "./shell/shortcuts";

export function App() {
  const me = useMe();
  const client = useQueryClient();
  const [expired, setExpired] = useState(false);
  const [session, setSession] = useState(0);

  useEffect(
    () =>
      onRefused(() => {
        // Who was never known is asked to sign in, and has lost nothing.
        if (client.getQueryData(meKey) === undefined) return;
        setExpired(true);
        token.forget();
      }),
    [client],
  );
  const enter = (now: Me) => {
    const before = client.getQueryData<Me>(meKey);
    client.setQueryData(meKey, now);
    setExpired(false);
    setSession((one) => one + 1);
    // Somebody else must not see what was fetched for the one before.
    const other = before?.tenant !== now.tenant || before.name !== now.name;
    const rest = { predicate: (query: Query) => query.queryKey[0] !== meKey[0] };
    if (other) client.removeQueries(rest);
    else void client.invalidateQueries(rest);
  };

  if (me.isPending) return <div className="h-full bg-canvas" />;
  if (!me.data && me.error instanceof Problem && me.error.status === 401) return <Login onEnter={enter} />;
  if (!me.data) return <Trouble error={me.error} retry={() => void me.refetch()} />;
  if (!me.data.scopes.includes("read")) return <MayNotRead me={me.data} />;
  return (
    <>
      <LiveProvider key={`${me.data.tenant} ${me.data.name}`} from={me.data.cursor} session={session}>
        <Frame />
      </LiveProvider>
      {expired && <LoginAgain onEnter={enter} />}
    </>
  );
}

/** All that is shown here is read: without the right to it there is nothing to wait for. */
function MayNotRead({ me }: { me: Me }) {
  const t = useT();
  const leave = useSignOut();
  return (
    <main className="h-full bg-canvas">
      <Empty title={t("login.mayNotRead")} action={<Button onClick={leave}>{t("login.out")}</Button>}>
        {t("login.mayNotRead.text", { name: me.name, scopes: me.scopes.join(", ") || "—" })}
      </Empty>
    </main>
  );
}

function Frame() {
  const t = useT();
  const { path } = useAddress();
  const [menuOpen, setMenuOpen] = useState(false);
  const view = viewOf(path);
  useShortcuts();
  useEffect(() => setMenuOpen(false), [path]);
  return (
    <div className="flex h-full">
      <a
        href="#content"
        className="absolute -top-20 left-2 z-50 rounded-md bg-surface px-3 py-2 shadow-raised focus:top-2"
      >
        {t("nav.skip")}
      </a>
      <Sidebar view={view} open={menuOpen} onClose={() => setMenuOpen(false)} />
      <div className="flex min-w-0 flex-1 flex-col">
        <Header onMenu={() => setMenuOpen(true)} />
        <LostBanner />
        <main id="content" tabIndex={-1} className="flex min-h-0 flex-1 flex-col outline-none">
          <Boundary shown={path}>
            <Shown view={view} />
          </Boundary>
        </main>
      </div>
    </div>
  );
}

function LostBanner() {
  const t = useT();
  const { connection } = useLive();
  if (connection !== "lost") return null;
  return (
    <div role="alert" className="flex items-center gap-2 bg-warn-soft px-4 py-2 font-medium text-warn md:px-6">
      <Icon name="warning" />
      {t("connection.lost")}
    </div>
  );
}

function Shown({ view }: { view: View }) {
  const t = useT();
  switch (view.page) {
    case "overview":
      return <OverviewPage />;
    case "queue":
      return <QueuePage key={view.queue} queue={view.queue} tab={view.tab} />;
    case "job":
      return <JobPage key={`${view.queue} ${view.id}`} queue={view.queue} id={view.id} />;
    case "workers":
      return <Workers />;
    case "events":
      return <Events />;
    case "schedules":
      return <Schedules />;
    case "keyspace":
      return <Keyspace />;
    case "analytics":
      return <Analytics />;
    case "search":
      return <SearchPage />;
    case "nowhere":
      return <Empty title={t("nowhere.title")}>{t("nowhere.text")}</Empty>;
  }
}
