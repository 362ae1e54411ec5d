/** The worker that all tabs share. */
import { type Ask, Hubs } from "./hub";

const hubs = new Hubs();

self.addEventListener("connect", (event) => {
  const port = (event as MessageEvent).ports[0]!;
  port.onmessage = ({ data }: MessageEvent<Ask>) => hubs.take(port, data);
});
