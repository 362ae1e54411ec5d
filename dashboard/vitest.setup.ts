import { cleanup, configure } from "@testing-library/react";
import { afterEach } from "vitest";

// A busy machine takes longer than a second to draw what a test waits for.
configure({ asyncUtilTimeout: 10_000 });

// uPlot asks for it as soon as it is loaded, and jsdom has none.
window.matchMedia ??= () => new EventTarget() as MediaQueryList;

// All tests share one document: what one has drawn would be there for the next.
afterEach(cleanup);
