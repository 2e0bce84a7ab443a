// The only code that creates elements. Strings only become text nodes or attribute values, so the values of a run
// are never parsed as HTML.

const el = (name, attributes, ...children) => fill(document.createElement(name), attributes, children);
const svg = (name, attributes, ...children) =>
  fill(document.createElementNS("http://www.w3.org/2000/svg", name), attributes, children);

function fill(element, attributes, children) {
  for (const [name, value] of Object.entries(attributes ?? {})) {
    if (name === "on") for (const [event, listener] of Object.entries(value)) element.addEventListener(event, listener);
    else if (value !== undefined) element.setAttribute(name, String(value));
  }
  element.append(...children.flat().filter((it) => it !== undefined && it !== null && it !== false));
  return element;
}

const byId = (id) => document.getElementById(id);
const plural = (count, one, many = one + "s") => `${count.toLocaleString("en")} ${count === 1 ? one : many}`;

// Formats a time in microseconds.
function formatTime(time) {
  if (time < 1000) return `${Math.round(time)} µs`;
  if (time < 1e6) return `${(time / 1e3).toFixed(time < 1e5 ? 1 : 0)} ms`;
  if (time < 6e7) return `${(time / 1e6).toFixed(time < 1e7 ? 2 : 1)} s`;
  return `${Math.floor(time / 6e7)} min ${Math.round((time % 6e7) / 1e6)} s`;
}

// Replaces control and formatting characters with visible ones.
const visible = (text) =>
  text.replace(/[\u0000-\u0008\u000b-\u001f\u007f]/g, (it) => (it === "\u007f" ? "␡" : String.fromCharCode(0x2400 + it.charCodeAt(0))))
    .replace(/[\u0080-\u009f\u200b-\u200f\u202a-\u202e\u2060-\u2069\ufeff]/g, "\ufffd");

const short = (text, length) => (text.length > length ? text.slice(0, Math.max(1, length - 1)) + "…" : text);
