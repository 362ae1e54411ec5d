import { Component, type ReactNode } from "react";
import { useT } from "../i18n/i18n";
import { Button, errorMessage } from "./basics";

interface ErrorBoundaryProps {
  children: ReactNode;
  /** A new value renders the children again after an error. */
  resetKey?: string;
}

/** An error while rendering a view replaces that view only. */
export class ErrorBoundary extends Component<ErrorBoundaryProps, { error: unknown; failed: boolean }> {
  override state = { error: null, failed: false };

  static getDerivedStateFromError(error: unknown) {
    return { error, failed: true };
  }

  override componentDidUpdate(previous: ErrorBoundaryProps): void {
    if (this.state.failed && previous.resetKey !== this.props.resetKey) this.setState({ error: null, failed: false });
  }

  override render(): ReactNode {
    return this.state.failed ? <ErrorFallback error={this.state.error} /> : this.props.children;
  }
}

function ErrorFallback({ error }: { error: unknown }) {
  const t = useT();
  return (
    <div role="alert" className="m-4 rounded-lg border border-line bg-danger-soft px-4 py-3 md:m-6">
      <p className="font-medium text-danger">{t("crash.title")}</p>
      <p className="mt-0.5">{t("crash.text")}</p>
      <p className="mt-2 font-mono text-xs break-words text-muted">{errorMessage(error)}</p>
      <Button className="mt-3" onClick={() => location.reload()}>
        {t("crash.reload")}
      </Button>
    </div>
  );
}
