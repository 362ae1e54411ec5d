import { QueryClient, QueryClientProvider } from "@tanstack/react-query";
import { render, screen } from "@testing-library/react";
import userEvent from "@testing-library/user-event";
import { beforeAll, expect, it, vi } from "vitest";
import { SpeechProvider } from "../i18n/i18n";
import { ToastProvider } from "../parts/toasts";
import { BulkDialog } from "./bulk-dialog";

const answered = vi.hoisted(() => vi.fn());
vi.mock("../api/queues", async (original) => ({ ...(await original<object>()), bulk: answered }));

beforeAll(() => {
  HTMLDialogElement.prototype.showModal = function () {
    this.open = true;
  };
  HTMLDialogElement.prototype.close = function () {
    this.open = false;
  };
});

it("acts on what was counted first, whatever else is fetched again meanwhile", async () => {
  answered.mockResolvedValueOnce({ count: 250, as_of: "first" });
  answered.mockResolvedValue({ count: 400, as_of: "second" });
  const client = new QueryClient();
  render(
    <QueryClientProvider client={client}>
      <SpeechProvider>
        <ToastProvider>
          <BulkDialog queue="mail" action="delete" which={{ jobs: { states: ["queued"] } }} onClose={() => {}} />
        </ToastProvider>
      </SpeechProvider>
    </QueryClientProvider>,
  );
  const button = await screen.findByRole("button", { name: /250/ });
  await userEvent.type(screen.getByRole("textbox"), "mail");

  // As after a gap in the stream of events.
  await client.invalidateQueries();
  await userEvent.click(button);

  expect(answered.mock.calls.map(([, , , options]) => options)).toEqual([{ dryRun: true }, { asOf: "first" }]);
});
