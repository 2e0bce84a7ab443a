/** Bundles the page with the installed packages and serves it. Its origin differs from that of the graphs' server. */

import { createServer } from "node:http";
import path from "node:path";
import { fileURLToPath } from "node:url";

import { build } from "vite";

const PAGE = fileURLToPath(new URL("page.jsx", import.meta.url));

async function bundle() {
  const root = path.resolve(process.env.GRAPH_CLIENTS_NODE);
  const packages = {
    name: "packages",
    enforce: "pre",
    /** Resolves the imports of the page to the installed packages, which are not in a directory above the page. */
    resolveId(source, importer) {
      return importer === PAGE ? this.resolve(source, path.join(root, "page.jsx"), { skipSelf: true }) : null;
    },
  };
  const { output } = await build({
    configFile: false,
    logLevel: "error",
    root,
    plugins: [packages],
    build: { write: false, rolldownOptions: { input: PAGE } },
  });
  return output[0].code;
}

export async function servePage() {
  const html = '<!doctype html><title>useStream</title><body><script type="module" src="/page.js"></script>';
  const files = new Map([
    ["/", { type: "text/html", body: html }],
    ["/page.js", { type: "text/javascript", body: await bundle() }],
  ]);
  const server = createServer((request, response) => {
    const file = files.get(new URL(request.url, "http://localhost").pathname);
    response.writeHead(file ? 200 : 204, { "Content-Type": file?.type ?? "text/plain" }).end(file?.body);
  });
  await new Promise((resolve) => server.listen(0, "127.0.0.1", resolve));
  return {
    url: `http://127.0.0.1:${server.address().port}`,
    async stop() {
      server.closeAllConnections();
      await new Promise((resolve) => server.close(resolve));
    },
  };
}
