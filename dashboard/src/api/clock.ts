/** The store's time, in seconds since 1970, as far as this page can know it.
 *
 * It is counted from the answers of the service by a clock that nobody sets: what the browser
 * believes the date to be changes nothing.
 */
class StoreClock {
  private offset: number | null = null;

  /** Note that the store said `now`, in an answer to a request of this moment. */
  heard(now: number, askedAt: number): void {
    const middle = (askedAt + performance.now()) / 2;
    this.offset = now - middle / 1000;
  }

  /** The time, or null as long as the store has not said it. */
  now(): number | null {
    return this.offset === null ? null : performance.now() / 1000 + this.offset;
  }

  forget(): void {
    this.offset = null;
  }
}

export const clock = new StoreClock();

/** Ask for something that comes with the store's time. */
export async function timed<T extends { now: number }>(ask: () => Promise<T>): Promise<T> {
  const askedAt = performance.now();
  const answer = await ask();
  clock.heard(answer.now, askedAt);
  return answer;
}
