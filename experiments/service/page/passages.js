// The passages of an answer: cited ones first, each opens with the quoted words marked.

import { button, clean, dotted, find, make, reveal, said } from "./elements.js";
import { marked } from "./quotes.js";
import { count } from "./words.js";

const MOST_OPEN = 2; // cited passages that a wide window shows open
const WIDE = "(min-width: 52rem)"; // passages stand beside the answer, as in page.css

function webAddress(text) {
  try {
    const address = new URL(text);
    return ["http:", "https:"].includes(address.protocol) ? address.href : null;
  } catch {
    return null;
  }
}

export function pagesOf({ page, last_page: last }) {
  const [first, end] = [clean(page), clean(last)];
  if (!first) return "";
  if (Array.isArray(page) && page.length > 1) return `pages ${first}`;
  return !end || end === first ? `page ${first}` : `pages ${first} to ${end}`;
}

function sourceLine(passage) {
  const { source, headings, url } = passage;
  const trail = Array.isArray(headings) ? headings.map(clean).filter(Boolean).join(" › ") : clean(headings);
  const parts = [clean(source), pagesOf(passage), trail].filter(Boolean).map((part) => said("bdi", part));
  const address = typeof url === "string" ? webAddress(url) : null;
  // A new tab, so that answers, which are kept only until this tab is closed, stay in sight.
  const safe = { rel: "noopener noreferrer", target: "_blank" };
  if (address) parts.push(make("a", { dir: "auto", href: address, ...safe }, address));
  else if (clean(url)) parts.push(said("bdi", url));
  return parts.length ? [make("p", { className: "source soft" }, ...dotted(parts))] : [];
}

function pieces(passage, quotes, answer) {
  return marked(clean(passage.text), quotes, clean(answer), clean(passage.title)).map(([words, kind]) => {
    if (!kind) return words;
    return make("mark", { className: kind, title: kind === "answer" ? "The answer" : "Quoted by a hop" }, words);
  });
}

// Of the hops that quote the passage; a hop that does not say what it read may quote any.
const quotesFor = (passage, hops) => hops
  .filter(({ match, passage_ids: ids }) => match === "verbatim" && (!ids?.length || ids.includes(passage.id)))
  .map(({ evidence }) => clean(evidence));

export class Passages {
  static #from = null; // the mark that opened a passage last
  static #back = button(() => Passages.goBack(), { className: "back" }, "Back ", make("kbd", {}, "b"));

  static goBack() {
    if (Passages.#from?.isConnected) reveal(Passages.#from);
  }

  constructor({ passages, citations, hops, answer }) {
    Object.assign(this, { passages, hops, answer });
    const numbers = passages.map((_, index) => index + 1);
    this.citedNumbers = numbers.filter((number) => citations.includes(passages[number - 1].id));
    const others = numbers.filter((number) => !this.citedNumbers.includes(number));
    this.cards = new Map(numbers.map((number) => [number, this.#card(number)]));
    this.elements = this.#sections(this.citedNumbers.map((number) => this.cards.get(number)),
      others.map((number) => this.cards.get(number)));
    if (matchMedia(WIDE).matches) {
      for (const number of this.citedNumbers.slice(0, MOST_OPEN)) this.cards.get(number).open = true;
    }
  }

  #title(number) {
    const { title, id } = this.passages[number - 1];
    return [make("span", { className: "number" }, `[${number}]`), " ", said("bdi", title || id)];
  }

  #inside(number) {
    const passage = this.passages[number - 1];
    const parts = pieces(passage, quotesFor(passage, this.hops), this.answer);
    return [make("p", { dir: "auto", className: "text" }, ...parts), ...sourceLine(passage),
      make("p", { className: "soft id" }, "Id: ", said("bdi", passage.id))];
  }

  #card(number) {
    const summary = make("summary", {}, ...this.#title(number));
    summary.dataset.stop = "passage";
    const card = make("details", { className: "passage" }, summary, ...this.#inside(number));
    card.dataset.number = number;
    return card;
  }

  #sections(cited, others) {
    if (!this.passages.length) return [make("p", { className: "soft" }, "No passage was read.")];
    const heading = cited.length ? `Cited: ${count(cited.length, "passage")}` : "No passage is cited";
    const elements = [make("h3", {}, heading), ...cited];
    if (others.length) {
      const summary = make("summary", {}, `${count(others.length, cited.length ? "other passage" : "passage")} read`);
      summary.dataset.stop = "others";
      elements.push(make("details", { className: "others" }, summary, make("div", { className: "stack" }, ...others)));
    }
    return elements;
  }

  // A button that opens a passage; a number that no passage has stays text.
  link(number) {
    const card = this.cards.get(number);
    if (!card) return String(number);
    const { title, id } = this.passages[number - 1];
    const label = `Passage ${number}: ${clean(title || id).slice(0, 200)}`;
    return button((event) => this.open(number, event.currentTarget), { className: "cite", "aria-label": label },
      `[${number}]`);
  }

  // Beside the answer; on a narrow window, where that is far below, from the lower edge.
  open(number, from) {
    if (!matchMedia(WIDE).matches) {
      this.#openSheet(number);
      return;
    }
    const card = this.cards.get(number);
    Passages.#from = from;
    card.append(Passages.#back);
    reveal(card, card.querySelector("summary"));
    card.querySelector("mark.quote, mark")?.scrollIntoView({ block: "nearest" });
  }

  #openSheet(number) {
    const sheet = find("sheet");
    find("sheet-title").replaceChildren(...this.#title(number));
    find("sheet-text").replaceChildren(...this.#inside(number));
    sheet.showModal(); // Escape closes it, and the mark has the focus again
    sheet.scrollTop = 0;
    sheet.querySelector("mark.quote, mark")?.scrollIntoView({ block: "nearest" });
  }

  numbersOf(ids) {
    return (ids ?? []).map((id) => this.passages.findIndex((passage) => passage.id === id) + 1).filter(Boolean);
  }
}
