/** Runs each named task at most once per interval; calls in between run it once more afterwards.
 *
 * Slow tasks run less often: no task takes more than a third of the time.
 */
export class Throttle {
  private readonly running = new Map<string, boolean>();
  private closed = false;

  run(name: string, interval: number, task: () => Promise<unknown>): void {
    if (this.closed) return;
    if (this.running.has(name)) {
      this.running.set(name, true);
      return;
    }
    this.running.set(name, false);
    const startedAt = performance.now();
    const schedule = () => {
      const took = performance.now() - startedAt;
      setTimeout(() => this.rerunIfRequested(name, interval, task), Math.max(interval - took, took * 2));
    };
    void task().then(schedule, schedule);
  }

  close(): void {
    this.closed = true;
  }

  private rerunIfRequested(name: string, interval: number, task: () => Promise<unknown>): void {
    const again = this.running.get(name);
    this.running.delete(name);
    if (again) this.run(name, interval, task);
  }
}
