/** Differences between two states. */

import { isObject } from "@studio/api/json";
import type { Json, JsonObject } from "@studio/api/types";

export type Change = { path: string } & (
  { kind: "added"; after: Json } | { kind: "removed"; before: Json } | { kind: "changed"; before: Json; after: Json }
);

/**
 * Returns the differences between two states. Objects are compared by field, lists by position. A new field that is
 * empty is not a difference, because reducers start with empty values.
 */
export function diff(before: JsonObject, after: JsonObject): Change[] {
  return diffObjects("", before, after);
}

function diffObjects(path: string, before: JsonObject, after: JsonObject): Change[] {
  const names = [...new Set([...Object.keys(before), ...Object.keys(after)])];
  return names.flatMap((name) => diffValues(path === "" ? name : `${path}.${name}`, before[name], after[name]));
}

function diffValues(path: string, before: Json | undefined, after: Json | undefined): Change[] {
  if (before === undefined) return after === undefined || isEmpty(after) ? [] : [{ path, kind: "added", after }];
  if (after === undefined) return [{ path, kind: "removed", before }];
  if (Array.isArray(before) && Array.isArray(after)) {
    const length = Math.max(before.length, after.length);
    return Array.from({ length }, (_, at) => diffValues(`${path}[${at}]`, before[at], after[at])).flat();
  }
  if (isObject(before) && isObject(after)) return diffObjects(path, before, after);
  return before === after ? [] : [{ path, kind: "changed", before, after }];
}

function isEmpty(value: Json): boolean {
  return value === null || (typeof value === "object" && Object.keys(value).length === 0);
}
