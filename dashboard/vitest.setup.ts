// uPlot asks for it as soon as it is loaded, and jsdom has none.
window.matchMedia ??= () => new EventTarget() as MediaQueryList;
