/** Builds the studio, which `graph-server` embeds. */

import { fileURLToPath } from "node:url";

import { defineConfig, mergeConfig } from "vite";

import page from "./vite.config";

const inPackage = (path: string): string => fileURLToPath(new URL(path, import.meta.url));

/** Proxy of the development server to the routes of LangGraph's API. */
const target = process.env["SERVER"] ?? "http://127.0.0.1:2024";
const routes = ["/assistants", "/threads", "/runs", "/store", "/info"];
const proxy = Object.fromEntries(routes.map((it) => [it, { target, changeOrigin: false }]));

export default mergeConfig(
  page,
  defineConfig({
    root: inPackage("studio"),
    base: "/studio/",
    build: { outDir: inPackage("../graph-server/studio"), emptyOutDir: true },
    server: { proxy },
    preview: { proxy },
  }),
);
