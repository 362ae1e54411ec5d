import "./language";
import { QueryClient, QueryClientProvider } from "@tanstack/react-query";
import { StrictMode } from "react";
import { createRoot } from "react-dom/client";
import { Problem } from "./api/client";
import { App } from "./app";
import { I18nProvider } from "./i18n/i18n";
import { ErrorBoundary } from "./components/error-boundary";
import { DialogProvider } from "./components/dialog-provider";
import { ToastProvider } from "./components/toasts";
import "./style.css";
import { ThemeProvider } from "./theme";

const client = new QueryClient({
  defaultOptions: {
    queries: {
      // The event stream invalidates what is stale. Client errors are not retried.
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
      <I18nProvider>
        <ThemeProvider>
          <ToastProvider>
            <ErrorBoundary>
              <DialogProvider>
                <App />
              </DialogProvider>
            </ErrorBoundary>
          </ToastProvider>
        </ThemeProvider>
      </I18nProvider>
    </QueryClientProvider>
  </StrictMode>,
);
