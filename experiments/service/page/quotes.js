// Where quoted words and an answer stand in a text: functions of texts alone.

import { cited } from "./marks.js";

const SIGNS = { "「": '"', "」": '"', "『": '"', "』": '"', "‘": "'", "’": "'", "“": '"', "”": '"', "–": "-", "—": "-", "‐": "-", "‑": "-", "−": "-", İ: "I" };
const SIGN = new RegExp(`[${Object.keys(SIGNS).join("")}]`, "g");
const WIDE = /[０-９Ａ-Ｚａ-ｚ]/g; // letters and digits as wide as Han characters
const EDGE = " \"'.,;:…。，；：、"; // what is in front of a quote or behind it and does not count
const SPACE = /\s+/g;
// Of a text that is not in composed form (NFC): what may become another character.
const CHARACTER =
  /\s+|[\u1100-\u1112][\u1161-\u1175][\u11a8-\u11c2]?|[\uac00-\ud7a3][\u11a8-\u11c2]|\P{M}\p{M}*/gu;

// Neighbours of a place, which is written as a line break. Chinese, Japanese and others have no spaces between words.
const SPACELESS = ["Han", "Hiragana", "Katakana", "Thai", "Lao", "Khmer", "Myanmar"]
  .map((script) => `\\p{scx=${script}}`).join("");
const IN_SPACELESS = new RegExp(`[${SPACELESS}]\n|\n[${SPACELESS}]`, "u");
const IN_WORD = /[\p{L}\p{M}\p{N}]\n[\p{L}\p{M}\p{N}]|n\n't/iu; // "can" is a part of "can't"
const IN_NUMBER = /\p{Nd}\n[.,']\p{Nd}|\p{Nd}[.,']\n\p{Nd}/u; // 12,000 and 12.5
const BEFORE_SIGN = /\n[.,;:!?)]/;

const SHORTEST = 12; // characters of a part of a quote that is looked for alone; shorter ones stand anywhere
const LONG = 5; // characters of an answer that is looked for without its capitals where it does not stand with them
const LEAD = /^\W*(?:passage|document|source|reference|段落|文档|资料|参考)\s*\d+\s*[:：.、–—-]/i;

function around(text, start, end = start) {
  return `${text.slice(Math.max(0, start - 2), start)}\n${text.slice(end, end + 2)}`;
}

function insteadOf(found, text, start) {
  if (found.trim()) return found.normalize("NFC");
  const place = around(text, start, start + found.length);
  return IN_SPACELESS.test(place) || BEFORE_SIGN.test(place) ? "" : " ";
}

// A text as it is compared: composed characters, single spaces, plain quotation marks and hyphens, no citation marks.
// `key` is `plain` in small letters, character by character; `changes` lead from places in both to the text.
function folded(text) {
  const bare = cited(text).map(([words, numbers]) => (numbers.length ? " ".repeat(words.length) : words)).join("");
  const changes = [];
  const parts = [];
  let [length, done] = [0, 0];
  for (const { 0: found, index } of bare.matchAll(bare === bare.normalize("NFC") ? SPACE : CHARACTER)) {
    const instead = insteadOf(found, bare, index);
    if (instead === found) continue;
    parts.push(bare.slice(done, index), instead);
    const from = length + index - done;
    [length, done] = [from + instead.length, index + found.length];
    changes.push({ from, to: length, start: index, end: done });
  }
  const plain = [...parts, bare.slice(done)].join("").replace(SIGN, (sign) => SIGNS[sign])
    .replace(WIDE, (sign) => String.fromCharCode(sign.charCodeAt(0) - 0xfee0));
  return { plain, key: plain.toLowerCase().replaceAll("ς", "σ"), changes };
}

// Start and end in the text of one character of its folded form.
function placeOf(changes, at) {
  let [low, high] = [0, changes.length];
  while (low < high) {
    const middle = (low + high) >> 1;
    if (changes[middle].from <= at) low = middle + 1;
    else high = middle;
  }
  if (!low) return { start: at, end: at + 1 };
  const { to, start, end } = changes[low - 1];
  return at < to ? { start, end } : { start: end + at - to, end: end + at - to + 1 };
}

function wantedOf(words) {
  const { plain, key } = folded(words);
  let [start, end] = [0, key.length];
  while (start < end && EDGE.includes(key[start])) start += 1;
  while (end > start && EDGE.includes(key[end - 1])) end -= 1;
  return { plain: plain.slice(start, end), key: key.slice(start, end) };
}

function divides(text, at) {
  const place = around(text, at);
  return !IN_NUMBER.test(place) && (!IN_WORD.test(place) || IN_SPACELESS.test(place));
}

// Whole words and numbers only: "he" does not stand in "she", nor "12" in "12,000".
function occurrences({ plain, key, changes }, { key: wanted }, fits = () => true) {
  const found = [];
  for (let at = key.indexOf(wanted), end; wanted && at !== -1; at = key.indexOf(wanted, end)) {
    end = at + wanted.length;
    if (!divides(plain, at) || !divides(plain, end) || !fits(at)) continue;
    found.push({ start: placeOf(changes, at).start, end: placeOf(changes, end - 1).end });
  }
  return found;
}

function withoutTitle(quote, title) {
  const { key: name } = wantedOf(title);
  const ends = name ? quote.slice(0, 2 * title.length + 20).matchAll(/[:：.|\n–—-]/g) : [];
  for (const { index } of ends) {
    if (wantedOf(quote.slice(0, index)).key === name) return quote.slice(index + 1);
  }
  return quote;
}

// The quote as it is, or without the number or title that models see in front of a text and copy with it.
function findWhole(folds, quote, title) {
  const found = occurrences(folds, wantedOf(quote));
  if (found.length) return found;
  const bare = quote.replace(LEAD, "");
  const rest = withoutTitle(bare, title);
  return rest === quote ? [] : [bare, rest].flatMap((words) => occurrences(folds, wantedOf(words)));
}

function findQuote(folds, quote, title) {
  const whole = findWhole(folds, quote, title);
  if (whole.length) return whole;
  // Models join quotes from several places, with or without an ellipsis.
  const parts = quote.split(/…|\.\.\.|[.!?]\s|[。！？]|\n/).map(wantedOf).filter(({ key }) => key.length >= SHORTEST);
  return parts.flatMap((part) => occurrences(folds, part));
}

// Capitals count, so that "US" is not "us" and "May" not "may"; a long answer may have those of a heading.
function findAnswer(folds, answer) {
  const wanted = wantedOf(answer);
  if (["yes", "no"].includes(wanted.key)) return [];
  const capitals = [...wanted.key].flatMap((_, index) => (wanted.key[index] !== wanted.plain[index] ? [index] : []));
  const same = (at) => capitals.every((index) => folds.plain[at + index] === wanted.plain[index]);
  const found = occurrences(folds, wanted, same);
  return found.length || wanted.key.length < LONG ? found : occurrences(folds, wanted);
}

// The text as pieces: [words, what they are]: "quote", "answer", "quote answer" or "".
export function marked(text, quotes, answer, title = "") {
  const folds = folded(text);
  const levels = new Uint8Array(text.length);
  for (const { start, end } of findAnswer(folds, answer)) levels.fill(1, start, end);
  for (const { start, end } of quotes.flatMap((quote) => findQuote(folds, quote, title))) {
    for (let place = start; place < end; place += 1) levels[place] |= 2;
  }
  const pieces = [];
  for (let start = 0, end = 0; start < text.length; start = end) {
    while (end < text.length && levels[end] === levels[start]) end += 1;
    pieces.push([text.slice(start, end), ["", "answer", "quote", "quote answer"][levels[start]]]);
  }
  return pieces;
}
