import { fileURLToPath } from "node:url";

import tailwindcss from "@tailwindcss/vite";
import react from "@vitejs/plugin-react";
import { defineConfig } from "vitest/config";

/** Proxy of `npm run dev` and `npm run preview`. The host header is kept because the server checks the origin. */
const proxy = { "/api": { target: process.env["SERVER"] ?? "http://127.0.0.1:8000", changeOrigin: false } };

export default defineConfig({
  plugins: [react(), tailwindcss()],
  resolve: {
    alias: {
      "@studio": fileURLToPath(new URL("./studio", import.meta.url)),
      "@": fileURLToPath(new URL("./src", import.meta.url)),
    },
  },
  build: {
    // Inline nothing, so that the content security policy can forbid `data:` URLs and inline scripts.
    assetsInlineLimit: 0,
    modulePreload: { polyfill: false },
    rollupOptions: {
      output: {
        // Separate rarely changing dependencies, so that browsers can cache them across releases.
        codeSplitting: {
          groups: [
            { name: "react", test: /node_modules[\\/](react|react-dom|scheduler)[\\/]/ },
            { name: "graph", test: /node_modules[\\/](@xyflow|@dagrejs|d3-|zustand)/ },
          ],
        },
      },
    },
  },
  server: { proxy },
  preview: { proxy },
  test: { include: ["{src,studio,sandbox}/**/*.test.{ts,tsx}"] },
});
