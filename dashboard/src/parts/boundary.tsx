import { Component, type ReactNode } from "react";
import { useT } from "../i18n/i18n";
import { Button, saying } from "./basics";

interface BoundaryProps {
  children: ReactNode;
  /** What is shown; another one is tried again. */
  shown?: string;
}

/** What a view cannot draw ends that view and not the page. */
export class Boundary extends Component<BoundaryProps, { error: unknown; broken: boolean }> {
  override state = { error: null, broken: false };

  static getDerivedStateFromError(error: unknown) {
    return { error, broken: true };
  }

  override componentDidUpdate(before: BoundaryProps): void {
    if (this.state.broken && before.shown !== this.props.shown) this.setState({ error: null, broken: false });
  }

  override render(): ReactNode {
    return this.state.broken ? <Broken error={this.state.error} /> : this.props.children;
  }
}

function Broken({ error }: { error: unknown }) {
  const t = useT();
  return (
    <div role="alert" className="m-4 rounded-lg border border-line bg-danger-soft px-4 py-3 md:m-6">
      <p className="font-medium text-danger">{t("broken.title")}</p>
      <p className="mt-0.5">{t("broken.text")}</p>
      <p className="mt-2 font-mono text-xs break-words text-muted">{saying(error)}</p>
      <Button className="mt-3" onClick={() => location.reload()}>
        {t("broken.reload")}
      </Button>
    </div>
  );
}
