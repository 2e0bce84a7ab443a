// Renders the OpenAPI document of this server. The page loads nothing from other servers.
"use strict";

const element = (name, text, children = []) => {
  const created = document.createElement(name);
  if (text) created.textContent = text;
  created.append(...children);
  return created;
};

const resolve = (schema, schemas) => (schema?.$ref ? schemas[schema.$ref.split("/").pop()] : schema);

const schemaBlock = (title, schema, schemas) =>
  element("div", "", [element("h4", title), element("pre", JSON.stringify(resolve(schema, schemas), null, 2))]);

const operationBlock = (method, path, operation, schemas) => {
  const summary = element("summary", "", [element("b", method), element("code", path), ` ${operation.summary}`]);
  const parts = [summary];
  const parameters = operation.parameters.map((it) => `${it.name} (${it.in}${it.required ? ", required" : ""})`);
  if (parameters.length) parts.push(element("p", `Parameters: ${parameters.join(", ")}`));
  const body = operation.requestBody?.content["application/json"].schema;
  if (body) parts.push(schemaBlock("Body", body, schemas));
  for (const [status, response] of Object.entries(operation.responses)) {
    parts.push(element("p", `${status}: ${response.description}`));
  }
  return element("details", "", parts);
};

const render = (api) => {
  const byTag = new Map();
  for (const [path, operations] of Object.entries(api.paths)) {
    for (const [method, operation] of Object.entries(operations)) {
      const tag = operation.tags[0];
      const blocks = byTag.get(tag) ?? [];
      blocks.push(operationBlock(method, path, operation, api.components.schemas));
      byTag.set(tag, blocks);
    }
  }
  const sections = [...byTag].map(([tag, blocks]) => element("section", "", [element("h2", tag), ...blocks]));
  document.getElementById("operations").replaceChildren(...sections);
};

fetch("openapi.json")
  .then((response) => response.json())
  .then(render)
  .catch((error) => {
    document.getElementById("operations").textContent = `Cannot load openapi.json: ${error}`;
  });
