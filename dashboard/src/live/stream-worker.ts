/** The shared worker of all tabs. */
import { SharedStreams, type TabMessage } from "./shared-stream";

const streams = new SharedStreams();

self.addEventListener("connect", (event) => {
  const port = (event as MessageEvent).ports[0]!;
  port.onmessage = ({ data }: MessageEvent<TabMessage>) => streams.receive(port, data);
});
