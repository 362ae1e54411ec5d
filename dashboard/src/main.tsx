import "./language";
import { QueryClient, QueryClientProvider } from "@tanstack/react-query";
import { StrictMode } from "react";
import { createRoot } from "react-dom/client";
import { Problem } from "./api/client";
import { App } from "./app";
import { SpeechProvider } from "./i18n/i18n";
import { Boundary } from "./parts/boundary";
import { DialogProvider } from "./parts/dialogs";
import { ToastProvider } from "./parts/toasts";
import "./style.css";
import { ThemeProvider } from "./theme";

const client = new QueryClient({
  defaultOptions: {
    queries: {
      // The stream says when something is stale; and a refusal is not asked for again.
      staleTime: 1000,
      retry: (failures, error) =>
        failures < 2 && (!(error instanceof Problem) || error.unreachable || error.status >= 500),
      refetchOnWindowFocus: true,
      refetchOnReconnect: true,
      networkMode: "always",
    },
    mutations: { networkMode: "always" },
  },
});

createRoot(document.getElementById("root")!).render(
  <StrictMode>
    <QueryClientProvider client={client}>
      <SpeechProvider>
        <ThemeProvider>
          <ToastProvider>
            <Boundary>
              <DialogProvider>
                <App />
              </DialogProvider>
            </Boundary>
          </ToastProvider>
        </ThemeProvider>
      </SpeechProvider>
    </QueryClientProvider>
  </StrictMode>,
);
