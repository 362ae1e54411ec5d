import { cleanup, configure } from "@testing-library/react";
import { afterEach } from "vitest";

// The default of one second is too short for a busy machine.
configure({ asyncUtilTimeout: 10_000 });

// uPlot needs it when it is loaded, and jsdom has none.
window.matchMedia ??= () => new EventTarget() as MediaQueryList;

// All tests share one document.
afterEach(cleanup);
