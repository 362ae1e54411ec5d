/** Opens dialogs from anywhere; one at a time. */
import { createContext, type ReactNode, useContext, useState } from "react";

type Draw = (close: () => void) => ReactNode;

const Context = createContext<(draw: Draw) => void>(() => {});

/** Show a dialog; it gets what closes it. */
export const useDialog = (): ((draw: Draw) => void) => useContext(Context);

export function DialogProvider({ children }: { children: ReactNode }) {
  const [draw, setDraw] = useState<Draw | null>(null);
  return (
    <Context value={(next) => setDraw(() => next)}>
      {children}
      {draw?.(() => setDraw(null))}
    </Context>
  );
}
