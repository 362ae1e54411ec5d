import { createContext, type ReactNode, useContext, useEffect, useMemo, useState } from "react";
import { stored } from "./format/stored";

export type Theme = "auto" | "light" | "dark";
export type Shade = "light" | "dark";

const NAME = "ackline.theme";
const DARK = "(prefers-color-scheme: dark)";

interface Chosen {
  theme: Theme;
  shade: Shade;
  choose: (theme: Theme) => void;
}

const Context = createContext<Chosen>({ theme: "auto", shade: "light", choose: () => {} });
export const useTheme = (): Chosen => useContext(Context);

const chosenBefore = (): Theme => {
  const said = stored.read(NAME);
  return said === "light" || said === "dark" ? said : "auto";
};

export function ThemeProvider({ children }: { children: ReactNode }) {
  const [theme, setTheme] = useState(chosenBefore);
  const [systemDark, setSystemDark] = useState(() => matchMedia(DARK).matches);
  useEffect(() => {
    const system = matchMedia(DARK);
    const note = () => setSystemDark(system.matches);
    system.addEventListener("change", note);
    return () => system.removeEventListener("change", note);
  }, []);
  const shade: Shade = theme === "auto" ? (systemDark ? "dark" : "light") : theme;
  document.documentElement.dataset.theme = shade;
  const chosen = useMemo<Chosen>(
    () => ({
      theme,
      shade,
      choose: (next) => {
        stored.write(NAME, next);
        setTheme(next);
      },
    }),
    [theme, shade],
  );
  return <Context value={chosen}>{children}</Context>;
}
