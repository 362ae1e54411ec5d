/** The local storage; reads null and ignores writes where the browser denies access to it. */
export const storage = {
  read(name: string): string | null {
    try {
      return localStorage.getItem(name);
    } catch {
      return null;
    }
  },
  write(name: string, value: string): void {
    try {
      localStorage.setItem(name, value);
    } catch {
      // The setting applies to this visit only.
    }
  },
};
