/** Builds the page of `agent-sandbox serve`, which `reflexion-graph` embeds. */

import { fileURLToPath } from "node:url";

import { defineConfig, mergeConfig } from "vite";

import page from "./vite.config";

const inPackage = (path: string): string => fileURLToPath(new URL(path, import.meta.url));

/** Proxy of the development server to the routes of the HTTP API. */
const target = process.env["SERVER"] ?? "http://127.0.0.1:8080";
const proxy = Object.fromEntries(
  ["/execute", "/jobs", "/health", "/stats"].map((it) => [it, { target, changeOrigin: false }]),
);

export default mergeConfig(
  page,
  defineConfig({
    root: inPackage("sandbox"),
    build: { outDir: inPackage("../reflexion-graph/page"), emptyOutDir: true },
    server: { proxy },
    preview: { proxy },
  }),
);
