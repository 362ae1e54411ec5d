/** The store's time, in seconds since 1970, estimated from responses of the service.
 *
 * It advances with the browser's monotonic clock, so a wrong system time changes nothing.
 */
class StoreClock {
  private offset: number | null = null;

  /** Set the time to `now`, from the response to a request sent at `sentAt` (`performance.now()`). */
  sync(now: number, sentAt: number): void {
    const middle = (sentAt + performance.now()) / 2;
    this.offset = now - middle / 1000;
  }

  /** The time, or null before the first response. */
  now(): number | null {
    return this.offset === null ? null : performance.now() / 1000 + this.offset;
  }

  reset(): void {
    this.offset = null;
  }
}

export const clock = new StoreClock();

/** Send a request whose response has the store's time, and set the clock by it. */
export async function syncClock<T extends { now: number }>(request: () => Promise<T>): Promise<T> {
  const sentAt = performance.now();
  const response = await request();
  clock.sync(response.now, sentAt);
  return response;
}
