// Values and their differences. Collapsed values are rendered when they are expanded, so that large values cost
// nothing.

const PAGE_ITEMS = 100; // Maximum number of items shown at once.
const MAX_TEXT = 600; // Maximum number of characters shown of a text.

const isTree = (value) => typeof value === "object" && value !== null;
const size = (value) => (Array.isArray(value) ? value.length : Object.keys(value).length);
const entries = (value) => (Array.isArray(value) ? value.map((it, nth) => [nth, it]) : Object.entries(value));

function same(a, b) {
  if (a === b) return true;
  if (!isTree(a) || !isTree(b) || Array.isArray(a) !== Array.isArray(b) || size(a) !== size(b)) return false;
  return entries(a).every(([key, value]) => Object.hasOwn(b, key) && same(value, b[key]));
}

// Summarises a value on one line.
function brief(value, length = 60) {
  if (!isTree(value)) return short(typeof value === "string" ? `"${visible(value)}"` : String(value), length);
  if (size(value) === 0) return Array.isArray(value) ? "[]" : "{}";
  let text = "";
  for (const [key, item] of entries(value)) {
    if (text.length > length) break;
    text += (text && ", ") + (Array.isArray(value) ? "" : visible(key) + ": ") + brief(item, length / 2);
  }
  return Array.isArray(value) ? `[${short(text, length)}]` : `{${short(text, length)}}`;
}

// Renders a value that is neither an array nor an object.
function leaf(value) {
  if (typeof value !== "string") return el("span", { class: "v " + (value === null ? "null" : typeof value) }, String(value));
  const text = el("span", { class: "v string" }, visible(value.slice(0, MAX_TEXT)));
  if (value.length > MAX_TEXT) {
    const rest = () => (text.textContent = visible(value));
    text.append(" ", el("button", { type: "button", on: { click: rest } }, `… ${plural(value.length - MAX_TEXT, "character")} more`));
  }
  return text;
}

// Renders a value, expanded if it is small.
function show(value, room = 24) {
  if (!isTree(value) || size(value) === 0) return isTree(value) ? el("span", { class: "v null" }, brief(value)) : leaf(value);
  const draw = () => pages(entries(value), ([key, item]) => field(key, show(item, room / 3)));
  if (size(value) <= Math.min(room, 4)) return el("div", { class: "tree" }, draw());
  const line = el("summary", {}, el("span", { class: "dim" }, Array.isArray(value) ? plural(size(value), "item") : plural(size(value), "field")), " ", el("span", { class: "brief" }, brief(value)));
  return collapsible(line, size(value) <= room, draw);
}

// A collapsible element, rendered when it is first expanded.
function collapsible(line, open, content) {
  const box = el("details", {}, line);
  const fillOnce = () => box.childElementCount === 1 && box.open && box.append(el("div", { class: "tree" }, content()));
  box.addEventListener("toggle", fillOnce);
  if (open) {
    box.open = true;
    fillOnce();
  }
  return box;
}

// The first items, and a button for more.
function pages(items, draw) {
  const box = document.createDocumentFragment();
  box.append(...items.slice(0, PAGE_ITEMS).map(draw));
  if (items.length > PAGE_ITEMS) {
    const rest = items.slice(PAGE_ITEMS);
    const more = el("button", { type: "button", on: { click: () => more.replaceWith(pages(rest, draw)) } }, `${plural(rest.length, "more", "more")}…`);
    box.append(more);
  }
  return box;
}

const field = (key, ...value) => el("div", { class: "field" }, el("span", { class: typeof key === "number" ? "key nth" : "key" }, visible(String(key))), el("div", { class: "value" }, ...value));

// Renders the changes from one value to another. `undefined` means no value.
function diff(before, after) {
  if (before === undefined && after === undefined) return [el("p", { class: "dim" }, "No state is available here.")];
  if (isTree(before) && isTree(after) && Array.isArray(before) === Array.isArray(after)) {
    return Array.isArray(before) ? diffItems(before, after) : diffFields(before, after);
  }
  if (isTree(after) && !Array.isArray(after) && before === undefined) return diffFields({}, after);
  return same(before, after) ? [show(after)] : change("", before, after);
}

function diffFields(before, after) {
  const keys = [...new Set([...Object.keys(before), ...Object.keys(after)])].sort();
  const at = (value, key) => (Object.hasOwn(value, key) ? value[key] : undefined);
  const changed = keys.filter((it) => !same(at(before, it), at(after, it)));
  const rest = keys.filter((it) => !changed.includes(it));
  return [...changed.flatMap((it) => change(it, at(before, it), at(after, it))), ...unchanged(rest.map((it) => [it, after[it]]), "field")];
}

function diffItems(before, after) {
  const least = Math.min(before.length, after.length);
  let head = 0;
  while (head < least && same(before[head], after[head])) head++;
  let tail = 0;
  while (tail < least - head && same(before[before.length - 1 - tail], after[after.length - 1 - tail])) tail++;
  const numbered = (list, from, to) => list.slice(from, to).map((it, nth) => [from + nth, it]);
  const removed = numbered(before, head, before.length - tail);
  const added = numbered(after, head, after.length - tail);
  const middle =
    removed.length === added.length
      ? [pages(removed, ([nth, item]) => el("div", {}, ...change(nth, item, added[nth - head][1])))]
      : [pages([...removed.map((it) => [...it, "-"]), ...added.map((it) => [...it, "+"])], ([nth, item, sign]) => marked(sign, nth, show(item)))];
  return [
    ...unchanged(numbered(after, 0, head), "item"),
    ...middle,
    ...unchanged(numbered(after, after.length - tail, after.length), "item"),
  ];
}

function change(key, before, after) {
  if (before === undefined) return [marked("+", key, show(after))];
  if (after === undefined) return [marked("-", key, show(before))];
  if (same(before, after)) return [field(key, show(after))];
  if (isTree(before) && isTree(after) && Array.isArray(before) === Array.isArray(after)) {
    return [marked("~", key, el("div", { class: "tree" }, ...diff(before, after)))];
  }
  return [marked("-", key, show(before)), marked("+", key, show(after))];
}

const words = { "+": "added", "-": "removed", "~": "changed" };
const classes = { "+": "added", "-": "removed", "~": "changed" };
const marked = (sign, key, ...value) =>
  el("div", { class: "change " + classes[sign] }, el("span", { class: "sign", role: "img", "aria-label": words[sign] }, sign === "-" ? "−" : sign), field(key, ...value));

function unchanged(items, word) {
  if (items.length === 0) return [];
  const line = el("summary", { class: "dim" }, `${plural(items.length, word)} unchanged`);
  return [collapsible(line, false, () => pages(items, ([key, item]) => field(key, show(item, 6))))];
}
