/** Form fields from JSON Schemas, and the values that users enter in them. */

import { isObject } from "@studio/api/json";
import type { Json, JsonObject } from "@studio/api/types";

export type FieldKind =
  | { type: "text" }
  | { type: "number"; integer: boolean }
  | { type: "boolean" }
  | { type: "choice"; values: Json[] }
  | { type: "texts" }
  | { type: "messages" }
  | { type: "json" };

export interface FormField {
  name: string;
  title: string;
  description: string | null;
  required: boolean;
  kind: FieldKind;
  /** Text in the form before the user changes it. */
  initial: string;
}

/** The texts that the user entered, by field name. Fields with an empty or missing text are omitted from the input. */
export type Draft = Readonly<Record<string, string>>;

/** Largest number of references that are followed, so that a schema cannot refer to itself forever. */
const MAX_REFERENCES = 16;

/** Returns the fields of an object schema, or null if the schema describes no fields. */
export function fieldsOf(schema: JsonObject | null): FormField[] | null {
  if (schema === null) return null;
  const whole = resolve(schema, schema);
  const properties = whole["properties"];
  if (!isObject(properties) || Object.keys(properties).length === 0) return null;
  const required = Array.isArray(whole["required"]) ? whole["required"] : [];
  return Object.entries(properties).map(([name, it]) => {
    const property = isObject(it) ? resolve(it, schema) : {};
    const kind = kindOf(name, property, schema);
    return {
      name,
      title: text(property["title"]) ?? name,
      description: text(property["description"]),
      required: required.includes(name),
      kind,
      initial: property["default"] === undefined || property["default"] === null ? "" : show(kind, property["default"]),
    };
  });
}

function text(value: Json | undefined): string | null {
  return typeof value === "string" && value !== "" ? value : null;
}

/** Follows `$ref`, and chooses the alternative of `anyOf` that is not null if there is only one. */
function resolve(schema: JsonObject, root: JsonObject): JsonObject {
  let found = schema;
  for (let count = 0; count < MAX_REFERENCES; count += 1) {
    const reference = found["$ref"];
    const options = [found["anyOf"], found["oneOf"]].find(Array.isArray)?.filter(isObject) ?? [];
    const useful = options.filter((it) => it["type"] !== "null");
    if (typeof reference === "string") found = { ...target(reference, root), ...without(found, "$ref") };
    else if (useful.length === 1) found = { ...useful[0], ...without(found, "anyOf", "oneOf") };
    else return found;
  }
  return {};
}

function target(reference: string, root: JsonObject): JsonObject {
  let at: Json | undefined = root;
  for (const part of reference.replace(/^#\/?/, "").split("/").filter(Boolean)) {
    at = isObject(at) ? at[part.replaceAll("~1", "/").replaceAll("~0", "~")] : undefined;
  }
  return isObject(at) ? at : {};
}

function without(object: JsonObject, ...names: string[]): JsonObject {
  return Object.fromEntries(Object.entries(object).filter(([name]) => !names.includes(name)));
}

function kindOf(name: string, schema: JsonObject, root: JsonObject): FieldKind {
  if (Array.isArray(schema["enum"])) return { type: "choice", values: schema["enum"] };
  const types = [schema["type"]].flat().filter((it) => it !== "null");
  switch (types.length === 1 ? types[0] : null) {
    case "string":
      return { type: "text" };
    case "integer":
    case "number":
      return { type: "number", integer: types[0] === "integer" };
    case "boolean":
      return { type: "boolean" };
    case "array":
      return listKind(name, schema, root);
    default:
      return { type: "json" };
  }
}

function listKind(name: string, schema: JsonObject, root: JsonObject): FieldKind {
  const items = isObject(schema["items"]) ? resolve(schema["items"], root) : {};
  if (items["type"] === "string" && !items["enum"]) return { type: "texts" };
  return name === "messages" ? { type: "messages" } : { type: "json" };
}

/** Returns a value as the text of its field. */
export function show(kind: FieldKind, value: Json): string {
  if (kind.type === "texts" && Array.isArray(value)) return value.map(String).join("\n");
  if (kind.type === "text" && typeof value === "string") return value;
  if (kind.type === "choice" || kind.type === "number" || kind.type === "boolean") return JSON.stringify(value);
  return JSON.stringify(value, null, 2);
}

/** The value of a form, or the name of the first invalid field with the problem. */
export type FormValue = { value: JsonObject } | { field: string; problem: string };

/** Returns the value that the user entered. */
export function valueOf(fields: readonly FormField[], draft: Draft): FormValue {
  const value: JsonObject = {};
  for (const field of fields) {
    const entered = draft[field.name] ?? field.initial;
    if (entered.trim() === "") {
      if (field.required) return { field: field.name, problem: `Enter ${field.title}.` };
      continue;
    }
    const parsed = parse(field.kind, entered);
    if ("problem" in parsed) return { field: field.name, problem: `${field.title}: ${parsed.problem}` };
    value[field.name] = parsed.value;
  }
  return { value };
}

function parse(kind: FieldKind, entered: string): { value: Json } | { problem: string } {
  switch (kind.type) {
    case "text":
      return { value: entered };
    case "texts":
      return { value: entered.split("\n").filter((it) => it.trim() !== "") };
    case "messages":
      return { value: [{ type: "human", content: entered }] };
    case "number": {
      const number = Number(entered);
      if (!Number.isFinite(number)) return { problem: "enter a number." };
      if (kind.integer && !Number.isInteger(number)) return { problem: "enter a whole number." };
      return { value: number };
    }
    default:
      return parseJson(entered);
  }
}

/** Parses JSON that the user entered. */
export function parseJson(entered: string): { value: Json } | { problem: string } {
  try {
    return { value: JSON.parse(entered) as Json };
  } catch (error) {
    return { problem: `this is not valid JSON (${(error as Error).message}).` };
  }
}
