// Where quoted words stand in a text, and what a citation mark cites: functions of texts alone.

const SIGNS = { "‘": "'", "’": "'", "“": '"', "”": '"', "–": "-", "—": "-", "‐": "-", "‑": "-", "−": "-" };
const EDGES = /^[\s"'.…]+|[\s"'.…]+$/g;
const WITHOUT_SPACES = /[\p{Script=Han}\p{Script=Hiragana}\p{Script=Katakana}\p{Script=Thai}]/u;
const LETTER = /[\p{L}\p{N}]/u;
const SHORTEST = 12; // characters of a part of a quote that is looked for alone; shorter ones stand anywhere

// A text in lower case with single spaces and plain quotation marks, and for each character its place in the text.
function folded(text) {
  const places = [];
  let key = "";
  for (let place = 0; place < text.length; place += 1) {
    const space = /\s/.test(text[place]);
    if (space && (key === "" || key.endsWith(" "))) continue;
    const sign = space ? " " : (SIGNS[text[place]] ?? text[place].toLowerCase());
    key += sign;
    for (let count = sign.length; count > 0; count -= 1) places.push(place);
  }
  return { key, places };
}

const keyOf = (words) => folded(words).key.replace(EDGES, "");

function occurrences({ key, places }, wanted) {
  const found = [];
  for (let at = key.indexOf(wanted); wanted && at !== -1; at = key.indexOf(wanted, at + wanted.length)) {
    found.push({ start: places[at], end: places[at + wanted.length - 1] + 1 });
  }
  return found;
}

function findQuote(text, quote) {
  const whole = occurrences(text, keyOf(quote));
  if (whole.length) return whole;
  // Models join quotes from several places, with or without an ellipsis.
  const parts = quote.split(/…|\.\.\.|[.!?。！？]\s|\n/).map(keyOf).filter((part) => part.length >= SHORTEST);
  return parts.flatMap((part) => occurrences(text, part));
}

// Whole words only: "art" does not stand in "party". Chinese, Japanese and Thai have no spaces between words.
function findAnswer(text, folds, answer) {
  const wanted = keyOf(answer);
  if (["", "yes", "no"].includes(wanted)) return [];
  return occurrences(folds, wanted).filter(({ start, end }) => {
    const joined = (left, right) => LETTER.test(left) && LETTER.test(right) && !WITHOUT_SPACES.test(left + right);
    return !joined(text[start - 1] ?? "", text[start]) && !joined(text[end - 1], text[end] ?? "");
  });
}

export const stands = (text, quote) => occurrences(folded(text), keyOf(quote)).length > 0;

// The text as pieces: [words, what they are]: "quote", "answer", "quote answer" or "".
export function marked(text, quotes, answer) {
  const folds = folded(text);
  const levels = new Uint8Array(text.length);
  for (const { start, end } of findAnswer(text, folds, answer)) levels.fill(1, start, end);
  for (const { start, end } of quotes.flatMap((quote) => findQuote(folds, quote))) {
    for (let place = start; place < end; place += 1) levels[place] |= 2;
  }
  const pieces = [];
  for (let start = 0, end = 0; start < text.length; start = end) {
    while (end < text.length && levels[end] === levels[start]) end += 1;
    pieces.push([text.slice(start, end), ["", "answer", "quote", "quote answer"][levels[start]]]);
  }
  return pieces;
}

// Citation marks as signatures/citation_marks.py reads them: [1], [1, 2], [1-3], [^1], [[1]], also full-width.

const BRACKET =
  /\[\[[^[\]\n]{1,80}\]\]|\[[^[\]\n]{1,80}\]|［[^［］\n]{1,80}］|【[^【】\n]{1,80}】|〔[^〔〕\n]{1,80}〕/g;
const JOINT = /\s*(?:[,;、]\s*(?:and\b|和)?|\band\b|&|和|与)\s*/i;
const ITEM = /^\^?(\d{1,3})(?:\s*(?:[-–—~至]|to\b|through\b)\s*\^?(\d{1,3}))?$/i;
const WIDEST_RANGE = 20; // numbers; a wider one is rather a count of pages or of years

function numbersOf(bracket) {
  const inner = bracket.normalize("NFKC").replace(/^[[【〔]+|[\]】〕]+$/g, "").trim();
  const numbers = [];
  for (const item of inner.split(JOINT)) {
    const [, first, last = first] = ITEM.exec(item)?.map((digits) => digits && Number(digits)) ?? [];
    if (first === undefined || last < first || last >= first + WIDEST_RANGE) return [];
    for (let number = first; number <= last; number += 1) numbers.push(number);
  }
  return numbers;
}

// The text as pieces: [words, numbers cited]; words without a mark cite nothing.
export function cited(text) {
  const pieces = [];
  let end = 0;
  for (const match of text.matchAll(BRACKET)) {
    const numbers = numbersOf(match[0]);
    if (!numbers.length) continue;
    if (match.index > end) pieces.push([text.slice(end, match.index), []]);
    pieces.push([match[0], numbers]);
    end = match.index + match[0].length;
  }
  if (end < text.length) pieces.push([text.slice(end), []]);
  return pieces;
}
