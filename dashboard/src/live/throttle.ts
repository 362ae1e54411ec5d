/** Runs each thing at most once in a while; what is asked for meanwhile is done once, at the end.
 *
 * What takes long is done more rarely: it never takes more than a third of the time.
 */
export class Throttle {
  private readonly busy = new Map<string, boolean>();
  private closed = false;

  run(name: string, pause: number, work: () => Promise<unknown>): void {
    if (this.closed) return;
    if (this.busy.has(name)) {
      this.busy.set(name, true);
      return;
    }
    this.busy.set(name, false);
    const began = performance.now();
    const rest = () => {
      const took = performance.now() - began;
      setTimeout(() => this.again(name, pause, work), Math.max(pause - took, took * 2));
    };
    void work().then(rest, rest);
  }

  close(): void {
    this.closed = true;
  }

  private again(name: string, pause: number, work: () => Promise<unknown>): void {
    const asked = this.busy.get(name);
    this.busy.delete(name);
    if (asked) this.run(name, pause, work);
  }
}
