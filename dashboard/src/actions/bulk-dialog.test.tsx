import { QueryClient, QueryClientProvider } from "@tanstack/react-query";
import { render, screen } from "@testing-library/react";
import userEvent from "@testing-library/user-event";
import { afterEach, beforeAll, expect, it, vi } from "vitest";
import { ToastProvider } from "../components/toasts";
import { I18nProvider } from "../i18n/i18n";
import { BulkDialog } from "./bulk-dialog";

afterEach(() => vi.unstubAllGlobals());

beforeAll(() => {
  HTMLDialogElement.prototype.showModal = function () {
    this.open = true;
  };
  HTMLDialogElement.prototype.close = function () {
    this.open = false;
  };
});

it("acts on the jobs that were counted first, whatever is refetched meanwhile", async () => {
  const requests: Record<string, unknown>[] = [];
  vi.stubGlobal("fetch", (_: string, request: RequestInit) => {
    requests.push(JSON.parse(String(request.body)));
    const counted = requests.length === 1 ? { count: 250, as_of: "first" } : { count: 400, as_of: "second" };
    return Promise.resolve(
      new Response(JSON.stringify({ ...counted, cursor: null }), { headers: { "content-type": "application/json" } }),
    );
  });
  const client = new QueryClient();
  render(
    <QueryClientProvider client={client}>
      <I18nProvider>
        <ToastProvider>
          <BulkDialog queue="mail" action="delete" filter={{ states: ["queued"] }} onClose={() => {}} />
        </ToastProvider>
      </I18nProvider>
    </QueryClientProvider>,
  );
  const button = await screen.findByRole("button", { name: /250/ });
  await userEvent.type(screen.getByRole("textbox"), "mail");

  // As after a gap in the event stream.
  await client.invalidateQueries();
  await userEvent.click(button);

  expect(requests).toMatchObject([{ dry_run: true }, { as_of: "first" }]);
});
