/** The session and the layout around every page. */
import { type Query, useQueryClient } from "@tanstack/react-query";
import { useEffect, useState } from "react";
import { onUnauthorized, Problem, token } from "./api/client";
import { type Me, meKey, useMe, useSignOut } from "./api/session";
import { Button, Empty, ErrorPanel } from "./components/basics";
import { ErrorBoundary } from "./components/error-boundary";
import { Icon } from "./components/icons";
import { useT } from "./i18n/i18n";
import { Header } from "./layout/header";
import { useShortcuts } from "./layout/shortcuts";
import { Sidebar } from "./layout/sidebar";
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
import { useAddress, type View, viewOf } from "./routing";

export function App() {
  const me = useMe();
  const client = useQueryClient();
  const [expired, setExpired] = useState(false);
  const [session, setSession] = useState(0);

  useEffect(
    () =>
      onUnauthorized(() => {
        // Without a session there is nothing to keep: the login page is shown.
        if (client.getQueryData(meKey) === undefined) return;
        setExpired(true);
        token.clear();
      }),
    [client],
  );
  const signIn = (now: Me) => {
    const previous = client.getQueryData<Me>(meKey);
    client.setQueryData(meKey, now);
    setExpired(false);
    setSession((one) => one + 1);
    // Another user must not see what was fetched for the previous one.
    const changedUser = previous?.tenant !== now.tenant || previous.name !== now.name;
    const others = { predicate: (query: Query) => query.queryKey[0] !== meKey[0] };
    if (changedUser) client.removeQueries(others);
    else void client.invalidateQueries(others);
  };

  if (me.isPending) return <div className="h-full bg-canvas" />;
  if (!me.data && me.error instanceof Problem && me.error.status === 401) return <Login onEnter={signIn} />;
  if (!me.data) return <ErrorPanel error={me.error} retry={() => void me.refetch()} />;
  if (!me.data.scopes.includes("read")) return <ReadNotAllowed me={me.data} />;
  return (
    <>
      <LiveProvider key={`${me.data.tenant} ${me.data.name}`} cursor={me.data.cursor} session={session}>
        <Layout />
      </LiveProvider>
      {expired && <LoginAgain onEnter={signIn} />}
    </>
  );
}

/** Every page needs the scope `read`. */
function ReadNotAllowed({ me }: { me: Me }) {
  const t = useT();
  const signOut = useSignOut();
  return (
    <main className="h-full bg-canvas">
      <Empty title={t("login.readNotAllowed")} action={<Button onClick={signOut}>{t("login.out")}</Button>}>
        {t("login.readNotAllowed.text", { name: me.name, scopes: me.scopes.join(", ") || "—" })}
      </Empty>
    </main>
  );
}

function Layout() {
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
        <ConnectionLostBanner />
        <main id="content" tabIndex={-1} className="flex min-h-0 flex-1 flex-col outline-none">
          <ErrorBoundary resetKey={path}>
            <Page view={view} />
          </ErrorBoundary>
        </main>
      </div>
    </div>
  );
}

function ConnectionLostBanner() {
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

function Page({ view }: { view: View }) {
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
    case "notFound":
      return <Empty title={t("notFound.title")}>{t("notFound.text")}</Empty>;
  }
}
