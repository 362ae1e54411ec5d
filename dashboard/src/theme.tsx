import { createContext, type ReactNode, useContext, useEffect, useMemo, useState } from "react";
import { storage } from "./format/storage";

export type Theme = "auto" | "light" | "dark";
export type Shade = "light" | "dark";

const STORAGE_KEY = "ackline.theme";
const DARK = "(prefers-color-scheme: dark)";

interface ThemeChoice {
  theme: Theme;
  shade: Shade;
  setTheme: (theme: Theme) => void;
}

const Context = createContext<ThemeChoice>({ theme: "auto", shade: "light", setTheme: () => {} });
export const useTheme = (): ThemeChoice => useContext(Context);

const storedTheme = (): Theme => {
  const value = storage.read(STORAGE_KEY);
  return value === "light" || value === "dark" ? value : "auto";
};

export function ThemeProvider({ children }: { children: ReactNode }) {
  const [theme, setTheme] = useState(storedTheme);
  const [systemDark, setSystemDark] = useState(() => matchMedia(DARK).matches);
  useEffect(() => {
    const system = matchMedia(DARK);
    const update = () => setSystemDark(system.matches);
    system.addEventListener("change", update);
    return () => system.removeEventListener("change", update);
  }, []);
  const shade: Shade = theme === "auto" ? (systemDark ? "dark" : "light") : theme;
  document.documentElement.dataset.theme = shade;
  const choice = useMemo<ThemeChoice>(
    () => ({
      theme,
      shade,
      setTheme: (next) => {
        storage.write(STORAGE_KEY, next);
        setTheme(next);
      },
    }),
    [theme, shade],
  );
  return <Context value={choice}>{children}</Context>;
}
