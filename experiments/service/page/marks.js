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
