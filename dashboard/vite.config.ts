import tailwindcss from "@tailwindcss/vite";
import react from "@vitejs/plugin-react";
import { defineConfig } from "vitest/config";

export default defineConfig({
  plugins: [react(), tailwindcss()],
  build: {
    outDir: "../src/ackline/service/ui/static/dashboard",
    emptyOutDir: true,
    target: "es2023",
    modulePreload: { polyfill: false },
    // Inlined images would need `data:` in more directives of the content security policy.
    assetsInlineLimit: 0,
    chunkSizeWarningLimit: 600,
  },
  worker: { format: "es" },
  server: { proxy: { "/api": "http://127.0.0.1:8000" } },
  test: {
    environment: "jsdom",
    include: ["src/**/*.test.{ts,tsx}"],
    setupFiles: ["vitest.setup.ts"],
    restoreMocks: true,
    // Rendering a large payload takes a second, and five on a busy machine.
    testTimeout: 20_000,
    // One document for all tests: creating them took most of the time.
    isolate: false,
    maxWorkers: 1,
  },
});
