// One hop: its question and answer, the draft it corrected, what it quotes and weighed, and what it cost.

import { clean, make, said } from "./elements.js";
import { costWords, count, matchWords, verdictWords } from "./words.js";

const same = (one, other) => one.trim().toLowerCase() === other.trim().toLowerCase();

function answerLine(hop) {
  const { answer, draft, candidates } = hop;
  const verdict = verdictWords(hop);
  const other = draft && !same(draft, answer);
  // Beside candidates a draft is a second answer, given without them; nothing was corrected.
  const second = other && candidates?.length;
  const parts = other && !second ? [make("span", { className: "unseen" }, "Draft: "), said("del", draft), " "] : [];
  if (answer) parts.push(said("b", answer));
  if (verdict) parts.push(" ", said("span", verdict, { className: "verdict soft" }));
  const lines = parts.length ? [make("p", { className: "settled" }, ...parts)] : [];
  if (second) lines.push(make("p", { className: "soft" }, "The second answer was: ", said("bdi", draft)));
  return lines;
}

// A paraphrase stands beside its passage and never looks like a quotation; evidence in no passage says so.
function quotation({ evidence, match, passage_ids: ids }, passages) {
  if (!evidence) return [];
  const read = passages && match !== "absent" ? passages.numbersOf(ids) : [];
  const numbers = read.length === 1 ? read : []; // of several, nobody said which
  const links = numbers.flatMap((number) => [" ", passages.link(number)]);
  const words = passages || match !== "verbatim" ? matchWords(match, numbers.length) : "";
  const line = words ? [make("p", { className: "soft" }, words, ...links)] : [];
  if (match !== "near") {
    return [make(match === "absent" ? "div" : "blockquote", { className: "evidence" }, said("p", evidence), ...line)];
  }
  const beside = numbers.map((number) => make("div", {},
    make("p", { className: "soft" }, "The passage ", passages.link(number)),
    said("p", passages.passages[number - 1].text, {}, { longest: 800 })));
  return [make("div", { className: "evidence beside" }, make("div", {}, ...line, said("p", evidence)), ...beside)];
}

function readLine({ passage_ids: ids = [] }, passages) {
  if (!ids.length) return [];
  if (!passages) return [make("p", { className: "soft" }, `${count(ids.length, "passage")} read.`)];
  const links = passages.numbersOf(ids).flatMap((number) => [" ", passages.link(number)]);
  return links.length ? [make("p", { className: "soft" }, "Read:", ...links)] : [];
}

function candidateLine({ text, passage_id: id, score, kept, reason, gates = {} }, passages) {
  const share = (value) => (value === null || value === undefined ? "unread" : value.toFixed(2));
  const scores = Object.entries(gates).map(([name, value]) => `${name} ${share(value)}`);
  if (score !== null && score !== undefined) scores.unshift(`score ${share(score)}`);
  const link = (id && passages?.numbersOf([id]).flatMap((number) => [passages.link(number), " "])) || [];
  return make("li", { className: kept ? "kept" : "dropped" },
    make("span", { className: "tag" }, kept ? "kept" : "dropped"), " ", ...link,
    said("span", text, {}, { longest: 240 }),
    make("div", { className: "soft" }, said("bdi", reason ?? ""), scores.length ? ` (${scores.join(", ")})` : ""));
}

function weighed(candidates, open, passages) {
  if (!candidates?.length) return [];
  const kept = candidates.filter((candidate) => candidate.kept).length;
  const name = `${count(candidates.length, "candidate")} weighed: ${kept} kept, ${candidates.length - kept} dropped`;
  return [make("details", { className: "candidates", open }, make("summary", {}, name),
    make("ul", {}, ...candidates.map((candidate) => candidateLine(candidate, passages))))];
}

// Draws a hop into its list item, also a second time when the passages are known: what is open stays open.
export function drawHop(line, number, hop, cost, passages = null) {
  const open = line.querySelector(".candidates")?.open ?? false;
  const held = line.contains(document.activeElement) && line !== document.activeElement;
  line.setAttribute("aria-label", clean(`Hop ${number}: ${hop.question} ${hop.answer}`).slice(0, 300));
  line.replaceChildren(
    make("div", { className: "top soft" }, make("span", { className: "tag" }, `Hop ${number}`),
      make("span", {}, cost ? costWords(cost) : "")),
    said("h4", hop.question), ...answerLine(hop), ...quotation(hop, passages), ...readLine(hop, passages),
    ...weighed(hop.candidates, open, passages));
  if (held) line.focus({ preventScroll: true });
}

export function newHop() {
  const line = make("li", { className: "hop", tabIndex: -1 });
  line.dataset.stop = "hop";
  return line;
}
