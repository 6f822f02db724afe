// Elements of the page. All text is inserted as text, never as HTML: questions, answers and passages are not trusted.

const LONGEST = 4000; // characters of a text that are shown until the rest is asked for

// Invisible, or a command to the terminal that a copied text is pasted into, or an order to show letters backwards.
const CONTROL = /[\u0000-\u0008\u000b\u000c\u000e-\u001f\u007f-\u009f\u202d\u202e]/g;

export const find = (id) => document.getElementById(id);

// A value of any kind as text: an object or a list, which metadata may hold, as its names and values.
function plain(value, depth = 0) {
  if (value === null || typeof value !== "object") return String(value ?? "");
  if (depth > 3) return "…";
  const pairs = Array.isArray(value) ? value.map((one) => plain(one, depth + 1))
    : Object.entries(value).map(([name, one]) => `${name}: ${plain(one, depth + 1)}`);
  const inside = pairs.filter(Boolean).join(", ");
  return depth && inside && !Array.isArray(value) ? `(${inside})` : inside;
}

export function clean(text) {
  return plain(text).replace(/\r\n?/g, "\n").replace(CONTROL, "\ufffd");
}

export function make(tag, properties = {}, ...children) {
  const element = document.createElement(tag);
  for (const [name, value] of Object.entries(properties)) {
    if (name in element) element[name] = value;
    else element.setAttribute(name, value);
  }
  element.append(...children.map((child) => (child instanceof Node ? child : clean(child))));
  return element;
}

export function button(onclick, properties, ...children) {
  return make("button", { type: "button", onclick, ...properties }, ...children);
}

// Text of a person, of the server or of a model: in its own direction, and cut if it is very long.
export function said(tag, text, properties = {}, { render = (shown) => [shown], longest = LONGEST } = {}) {
  const whole = clean(text);
  const element = make(tag, { dir: "auto", ...properties });
  if (whole.length <= longest) {
    element.append(...render(whole));
    return element;
  }
  const showAll = () => {
    element.replaceChildren(...render(whole));
    element.tabIndex = -1; // the button that had the focus is gone
    element.focus();
  };
  const rest = (whole.length - longest).toLocaleString("en");
  const more = button(showAll, { className: "more" }, `Show ${rest} more characters`);
  element.append(...render(whole.slice(0, longest)), " … ", more);
  return element;
}

// Parts in a row with a dot between them, which a copy of the text keeps.
export const dotted = (parts) => parts.flatMap((part, index) => (index ? [" · ", part] : [part]));

// Opens all that an element is folded into, and moves to it.
export function reveal(element, inside = element) {
  for (let at = element; at; at = at.parentElement) {
    if (at.tagName === "DETAILS") at.open = true;
  }
  inside.focus({ preventScroll: true });
  element.scrollIntoView({ block: "nearest" });
}

export async function copyText(text) {
  if (navigator.clipboard) return navigator.clipboard.writeText(text);
  // A page that was not loaded by https has no clipboard, but a selection can be copied.
  const held = document.activeElement;
  const area = make("textarea", { value: text, readOnly: true, className: "unseen" });
  document.body.append(area);
  area.select();
  const copied = document.execCommand("copy");
  area.remove();
  held?.focus({ preventScroll: true });
  if (!copied) throw new Error("The browser does not allow it.");
}
