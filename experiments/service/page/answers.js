// One question on the page: its hops while they arrive, then the answer with its passages and costs.

import { button, clean, copyText, make, said } from "./elements.js";
import { costTable, sum } from "./costs.js";
import { drawHop, newHop } from "./hops.js";
import { pagesOf, Passages } from "./passages.js";
import { cited } from "./marks.js";
import { costWords, count, lossWords, stopWords, understoodWords } from "./words.js";

let entries = 0;

export class Entry {
  constructor(question) {
    entries += 1;
    this.question = question;
    this.hops = []; // { line, hop, cost } as they arrived
    this.understood = null; // what a follow-up was taken to mean
    this.result = null;
    this.ending = null; // arguments of `end`
    this.followed = false; // whether the page scrolled to show a hop, so that it scrolls back to the answer
    const title = said("h2", question, { id: `question-${entries}` });
    this.short = make("span", { className: "short soft" });
    this.summary = make("summary", {}, title, this.short);
    this.summary.dataset.stop = "question";
    this.meant = make("p", { className: "understood soft", hidden: true });
    this.note = make("p", { className: "note", hidden: true });
    this.answer = make("section", { className: "result", hidden: true, "aria-label": "Answer" });
    this.list = make("ol", { className: "hops" });
    this.steps = make("section", { hidden: true, "aria-label": "Hops" }, make("h3", {}, "Hops"), this.list);
    this.costs = make("section", { className: "costs", hidden: true, "aria-label": "Cost" });
    this.aside = make("aside", { "aria-label": "Passages", tabIndex: -1 });
    this.columns = make("div", { className: "columns", hidden: true },
      make("div", {}, this.answer, this.steps), this.aside, this.costs);
    this.fold = make("details", { open: true }, this.summary, this.meant, this.note, this.columns);
    this.element = make("article", { className: "entry running", "aria-labelledby": title.id }, this.fold);
    this.element.entry = this;
  }

  understand(understood) {
    this.understood = understood;
    const words = understoodWords(understood);
    const asked = understood.how === "as asked" ? [] : [" ", said("bdi", understood.question)];
    this.meant.replaceChildren(words, ...asked);
    this.meant.hidden = !words;
  }

  // What the next question may follow up: the rewritten question names more than the one asked.
  turn() {
    const question = this.understood?.how === "rewritten" ? this.understood.question : this.question;
    return { question, answer: this.#answered() ? this.result.response || this.result.answer : "" };
  }

  saved() {
    const hops = this.hops.map(({ hop, cost }) => ({ hop, cost }));
    const { question, understood, result, ending } = this;
    return { question, understood, hops, result, ending };
  }

  // As it was before the page was loaded anew; `again` asks a question that had no answer.
  static restored({ question, understood, hops, result, ending }, again) {
    const entry = new Entry(question);
    if (understood) entry.understand(understood);
    hops.forEach(({ hop, cost }, index) => entry.addHop({ number: index + 1, hop, cost }));
    if (result) entry.finish(result);
    else entry.end(ending?.sentence ?? "The page was left before the answer came.", { ...ending, again: () => again(entry) });
    return entry;
  }

  addHop({ number, hop, cost }) {
    const line = newHop();
    const before = this.list.lastElementChild ?? this.summary;
    const atEnd = this.fold.open && before.getBoundingClientRect().bottom <= innerHeight;
    this.hops.push({ line, hop, cost });
    drawHop(line, number, hop, cost);
    this.columns.hidden = this.steps.hidden = false;
    this.list.append(line);
    if (!atEnd) return; // who reads something else stays there
    const from = scrollY;
    line.scrollIntoView({ block: "nearest" });
    this.followed ||= scrollY !== from;
  }

  cost() {
    return this.result?.cost ?? sum([this.understood, ...this.hops].map((step) => step?.cost ?? {}));
  }

  finish(result) {
    this.result = result;
    if (result.understood) this.understand(result.understood);
    this.passages = new Passages(result);
    this.element.classList.remove("running");
    this.columns.hidden = false;
    this.#settleHops(result.hops);
    this.#showAnswer(result);
    this.#showCosts(result.rest_cost, result.cost);
    this.aside.replaceChildren(...this.passages.elements);
    this.short.replaceChildren("Answer: ", said("bdi", this.#answered() ? result.answer : "none"));
    if (this.followed) this.element.scrollIntoView();
  }

  // Ended without an answer: what was settled stays.
  end(sentence, { detail = "", again = null, bad = true } = {}) {
    this.ending = { sentence, detail, bad };
    this.element.classList.remove("running");
    this.note.replaceChildren(sentence);
    if (detail) this.note.append(" ", make("span", { className: "soft" }, "The server says: ", said("bdi", detail)));
    if (again) this.note.append(" ", button(again, {}, "Ask again"));
    this.note.classList.toggle("bad", bad);
    this.note.hidden = false;
    this.short.textContent = sentence;
    if (this.hops.length) this.#showCosts(null, null);
  }

  // The final list rules: a program may go back over a hop, so lines are drawn again where they are.
  #settleHops(hops) {
    hops.forEach((hop, index) => {
      const line = this.hops[index]?.line ?? newHop();
      drawHop(line, index + 1, hop, this.hops[index]?.cost, this.passages);
      if (!line.isConnected) this.list.append(line);
    });
    for (const { line } of this.hops.slice(hops.length)) line.remove();
    this.steps.hidden = hops.length === 0;
  }

  #answered() {
    return Boolean(this.result?.answer?.trim()) && !this.result.abstained;
  }

  #showAnswer({ answer, response, abstained, unreadable = null, stop_reason: reason, cost }) {
    const none = unreadable !== null && !answer?.trim() ? "No answer: a reply of the language model could not be read."
      : reason === "withheld" ? "No answer: the one found may be wrong."
      : abstained ? "No answer: what was read does not settle the question."
      : "No answer: the program gave none.";
    const main = this.#answered() ? said("p", answer, { className: answer.length > 90 ? "found long" : "found" })
      : make("p", { className: "found none" }, none);
    const parts = [main, make("p", { className: "soft" }, said("span", stopWords(reason))),
      make("p", { className: "soft" }, costWords(cost ?? {}))];
    const loss = lossWords(cost ?? {});
    if (loss) parts.push(make("p", { className: "loss" }, loss));
    const long = response && response.trim() !== answer?.trim();
    const marks = cited(clean(response)).some(([, numbers]) => numbers.some((one) => this.passages.cards.has(one)));
    const render = (shown) => this.#linked(shown);
    if (long || marks) parts.push(said("p", response, { className: "response" }, { render }));
    if (!marks && this.passages.citedNumbers.length) {
      const links = this.passages.citedNumbers.flatMap((number) => [" ", this.passages.link(number)]);
      parts.push(make("p", { className: "soft" }, "Cited:", ...links));
    }
    this.copied = make("span", { className: "soft", role: "status" });
    parts.push(make("div", { className: "buttons" },
      button(() => this.copy(this.asText()), {}, "Copy answer and sources ", make("kbd", {}, "c")),
      button(() => this.copy(JSON.stringify(this.result, null, 2)), {}, "Copy JSON"), this.copied));
    this.answer.replaceChildren(...parts);
    this.answer.hidden = false;
  }

  // A response with its marks as buttons that open the passages.
  #linked(text) {
    return cited(text).flatMap(([words, numbers]) => {
      if (!numbers.some((number) => this.passages.cards.has(number))) return [words];
      return numbers.flatMap((number, index) => [index ? " " : "", this.passages.link(number)]);
    });
  }

  #showCosts(rest, total) {
    const steps = this.hops.map(({ cost }, index) => [`Hop ${index + 1}`, cost ?? {}]);
    if (this.understood) steps.unshift(["Follow-up", this.understood.cost ?? {}]);
    if (rest && (rest.calls || rest.seconds >= 0.05 || !steps.length)) steps.push(["Answer", rest]);
    this.costs.replaceChildren(make("h3", {}, "Cost"), costTable(steps, total ?? this.cost(), total !== null));
    if (total === null) {
      this.costs.append(make("p", { className: "soft" }, "What the step that was not settled cost is not known."));
    }
    if (total?.rounds) {
      const rounds = `Calls were made in ${count(total.rounds, "round")}, those of a round at the same time.`;
      this.costs.append(make("p", { className: "soft" }, rounds));
    }
    this.costs.hidden = false;
  }

  asText() {
    const { answer, response } = this.result;
    const answered = this.#answered();
    const meant = understoodWords(this.understood ?? {}) && this.understood.question;
    const parts = [[clean(this.question), ...(meant ? [`(${clean(meant)})`] : [])].join("\n"), `Answer: ${answered ? clean(answer) : "none"}`];
    if (response?.trim() && response.trim() !== answer?.trim()) parts.push(clean(response));
    const sources = this.passages.citedNumbers.map((number) => {
      const passage = this.passages.passages[number - 1];
      const place = [clean(passage.source), pagesOf(passage), clean(passage.url)].filter(Boolean).join(", ");
      return `[${number}] ${clean(passage.title || passage.id)}${place ? ` (${place})` : ""}`;
    });
    parts.push(sources.length ? ["Sources", ...sources].join("\n") : "No passage is cited.");
    return `${parts.join("\n\n")}\n`;
  }

  async copy(text) {
    this.copied.textContent = "";
    try {
      await copyText(text);
      this.copied.textContent = "Copied.";
    } catch {
      this.copied.textContent = "The browser does not allow copying: select the text instead.";
    }
  }
}
