/** Opens dialogs from anywhere; one at a time. */
import { createContext, type ReactNode, useContext, useState } from "react";

type RenderDialog = (close: () => void) => ReactNode;

const Context = createContext<(render: RenderDialog) => void>(() => {});

/** Show a dialog; `render` gets the function that closes it. */
export const useDialog = (): ((render: RenderDialog) => void) => useContext(Context);

export function DialogProvider({ children }: { children: ReactNode }) {
  const [render, setRender] = useState<RenderDialog | null>(null);
  return (
    <Context value={(next) => setRender(() => next)}>
      {children}
      {render?.(() => setRender(null))}
    </Context>
  );
}
