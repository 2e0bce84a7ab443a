import { fileURLToPath } from "node:url";

import tailwindcss from "@tailwindcss/vite";
import react from "@vitejs/plugin-react";
import { defineConfig } from "vitest/config";

/** Where `npm run dev` and `npm run preview` find the server. It checks that a page is its own, so the host stays. */
const proxy = { "/api": { target: process.env["SERVER"] ?? "http://127.0.0.1:8000", changeOrigin: false } };

export default defineConfig({
  plugins: [react(), tailwindcss()],
  resolve: { alias: { "@": fileURLToPath(new URL("./src", import.meta.url)) } },
  build: {
    // Nothing is inlined, so that a policy without `data:` and `unsafe-inline` scripts can be served with the page.
    assetsInlineLimit: 0,
    modulePreload: { polyfill: false },
    rollupOptions: {
      output: {
        // What changes rarely is apart from what changes often; browsers keep it over releases.
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
  test: { include: ["src/**/*.test.{ts,tsx}"] },
});
