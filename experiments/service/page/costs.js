// What each step cost, as a small table.

import { make } from "./elements.js";
import { dollars, number, seconds } from "./words.js";

const COLUMNS = [
  // heading, value, shown as, only if a step has one
  ["Calls", ({ calls }) => calls, number, false],
  ["From cache", ({ cached_calls: cached }) => cached, number, true],
  ["Tokens sent", ({ prompt_tokens: sent }) => sent, number, false],
  ["Tokens written", ({ completion_tokens: written }) => written, number, false],
  ["Time", (cost) => cost.seconds, seconds, false],
  ["Price", ({ usd }) => usd, dollars, true],
];

// steps: [name, cost] in their order; total: of all of them; whole: whether they are all that the question cost.
export function costTable(steps, total, whole) {
  const last = [whole ? "Total" : "Settled hops", total];
  const all = [...steps, last];
  const columns = COLUMNS.filter(([, value, , rare]) => !rare || all.some(([, cost]) => value(cost) > 0));
  const cells = (cost) => columns.map(([, value, shown]) => make("td", {}, shown(value(cost) ?? 0)));
  const row = ([name, cost]) => make("tr", {}, make("th", { scope: "row" }, name), ...cells(cost));
  const headings = ["Step", ...columns.map(([heading]) => heading)];
  const heads = headings.map((heading) => make("th", { scope: "col" }, heading));
  return make("table", {}, make("caption", { className: "unseen" }, "Cost of each step"),
    make("thead", {}, make("tr", {}, ...heads)), make("tbody", {}, ...steps.map(row)),
    make("tfoot", {}, row(last)));
}

export function sum(costs) {
  const total = {};
  for (const cost of costs) {
    for (const [name, value] of Object.entries(cost)) total[name] = (total[name] ?? 0) + Number(value ?? 0);
  }
  return total;
}
