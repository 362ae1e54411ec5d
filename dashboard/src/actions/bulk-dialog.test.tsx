import { QueryClient, QueryClientProvider } from "@tanstack/react-query";
import { render, screen } from "@testing-library/react";
import userEvent from "@testing-library/user-event";
import { afterEach, beforeAll, expect, it, vi } from "vitest";
import { SpeechProvider } from "../i18n/i18n";
import { ToastProvider } from "../parts/toasts";
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

it("acts on what was counted first, whatever else is fetched again meanwhile", async () => {
  const asked: Record<string, unknown>[] = [];
  vi.stubGlobal("fetch", (_: string, request: RequestInit) => {
    asked.push(JSON.parse(String(request.body)));
    const counted = asked.length === 1 ? { count: 250, as_of: "first" } : { count: 400, as_of: "second" };
    return Promise.resolve(
      new Response(JSON.stringify({ ...counted, cursor: null }), { headers: { "content-type": "application/json" } }),
    );
  });
  const client = new QueryClient();
  render(
    <QueryClientProvider client={client}>
      <SpeechProvider>
        <ToastProvider>
          <BulkDialog queue="mail" action="delete" which={{ states: ["queued"] }} onClose={() => {}} />
        </ToastProvider>
      </SpeechProvider>
    </QueryClientProvider>,
  );
  const button = await screen.findByRole("button", { name: /250/ });
  await userEvent.type(screen.getByRole("textbox"), "mail");

  // As after a gap in the stream of events.
  await client.invalidateQueries();
  await userEvent.click(button);

  expect(asked).toMatchObject([{ dry_run: true }, { as_of: "first" }]);
});
