/** What a browser keeps for the next visit; one that keeps nothing is as if it had forgotten. */
export const stored = {
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
      // It holds for this visit.
    }
  },
};
