// The page of `verihop serve`: a conversation of one question at a time, and moves by keys.

import { clean, dotted, find, make } from "./elements.js";
import { Entry } from "./answers.js";
import { add, clear, entries, keep, restore, turns } from "./conversation.js";
import { tokenGiven } from "./door.js";
import { Passages } from "./passages.js";
import { answering, health, info, Problem } from "./stream.js";
import { count, number, problemWords, seconds } from "./words.js";

const field = find("question");
let running = null; // { entry, controller, started } of the question that is being answered
let limits = {};
let mostCalls = null;

const IDLE = matchMedia("(pointer: coarse)").matches ? "" : "Enter asks, Shift+Enter starts a new line.";

function announce(text) {
  find("said").textContent = clean(text).slice(0, 500);
}

function state(text, bad = false) {
  find("state").textContent = text;
  find("state").classList.toggle("bad", bad);
}

function titled(prefix, question) {
  const short = question.length > 60 ? `${question.slice(0, 60)}…` : question;
  document.title = prefix ? `${prefix} ${short} · verihop` : "verihop";
}

// Asking

const lengthOf = (text) => [...text].length; // characters as Python counts them

function roomLeft() {
  const most = limits.question_characters;
  const length = lengthOf(field.value.trim());
  const tight = most && length > 0.9 * most;
  find("room").hidden = !tight;
  if (tight) find("room").textContent = `${number(length)} of ${number(most)} characters`;
  find("room").classList.toggle("bad", length > most);
  return !(length > most);
}

function submit() {
  const question = field.value.trim();
  const refused = running ? "The last question is still being answered: Escape stops it."
    : !question ? "Type a question first."
      : !roomLeft() ? "The question is too long: shorten it first." : null;
  if (refused) {
    if (!running) state(refused, true);
    announce(refused);
    if (!running) field.focus();
    return;
  }
  // Kept in the fragment, which browsers do not send to servers.
  history.replaceState(null, "", `#${new URLSearchParams({ question })}`);
  ask(question);
}

async function ask(question) {
  const entry = new Entry(question);
  const before = turns();
  add(entry);
  field.value = "";
  roomLeft();
  running = { entry, controller: new AbortController(), started: performance.now() };
  busy(true);
  state("Sending the question.");
  titled("Answering:", question);
  entry.summary.focus({ preventScroll: true });
  entry.element.scrollIntoView({ block: "nearest" });
  keep();
  try {
    await follow(entry, before);
    titled("Answered:", question);
  } catch (problem) {
    titled("No answer:", question);
    ended(entry, problem);
  } finally { // also after an error of this page itself, so that the next question can be asked
    const inside = find("stop") === document.activeElement;
    running = null;
    busy(false);
    keep();
    if (inside) entry.summary.focus({ preventScroll: true });
  }
}

async function follow(entry, before) {
  const { signal } = running.controller;
  for (;;) {
    try {
      for await (const { name, data } of answering(entry.question, before, signal)) HEARD.get(name)?.(entry, data);
      return;
    } catch (problem) {
      if (problem.status !== 401 || entry.hops.length) throw problem;
      if (!(await tokenGiven())) throw new Problem("unauthorized");
      if (signal.aborted) throw signal.reason;
    }
  }
}

function heardStart(entry, { waiting }) {
  state(waiting ? `Waiting: ${count(waiting, "question")} before this one.` : "Working on the first step.");
}

function heardUnderstood(entry, understood) {
  entry.understand(understood);
  announce(entry.meant.textContent);
}

function heardHop(entry, event) {
  entry.addHop(event);
  const calls = entry.cost().calls ?? 0;
  const most = mostCalls ? ` of at most ${number(mostCalls + (entry.understood ? 1 : 0))}` : "";
  state(`${count(entry.hops.length, "hop")} settled, working on the next step. ${count(calls, "call")}${most}.`);
  announce(`Hop ${event.number}: ${event.hop.question} ${event.hop.answer ?? ""}`);
}

function heardAnswer(entry, result) {
  entry.finish(result);
  announce(result.answer && !result.abstained ? `Answer: ${result.answer}` : "There is no answer.");
}

const HEARD = new Map(Object.entries({
  started: heardStart, understood: heardUnderstood, hop: heardHop, answer: heardAnswer,
}));

function ended(entry, problem) {
  if (problem.name === "AbortError") {
    const kept = entry.hops.length ? ` after hop ${entry.hops.length}: what was settled is kept here.` : ".";
    entry.end(`You stopped it${kept}`, { bad: false, again: () => again(entry) });
    announce("Stopped.");
    return;
  }
  const known = problem instanceof Problem ? problem : new Problem("internal", { message: "" });
  const sentence = problemWords({ ...known, hops: entry.hops.length });
  entry.end(sentence, { detail: known.message, again: () => again(entry) });
  announce(sentence);
  if (!(problem instanceof Problem)) throw problem; // an error of this page belongs in the console
}

function again(entry) {
  field.value = entry.question;
  submit();
}

// Forgets what was asked, which the next question then does not follow up.
function begin() {
  if (running || !entries().length) return;
  clear();
  history.replaceState(null, "", location.pathname + location.search);
  titled("", "");
  busy(false);
  field.focus();
  announce("A new conversation.");
}

const stop = () => running?.controller.abort();

let ticking = null;

function busy(on) {
  find("row").classList.toggle("running", on);
  find("send").hidden = on;
  find("stop").hidden = !on;
  find("timer").hidden = !on;
  find("fresh").hidden = on || !entries().length;
  clearInterval(ticking);
  if (on) {
    const tick = () => {
      const passed = Math.floor((performance.now() - running.started) / 1000);
      find("timer").textContent = passed < 100 ? `${passed} s` : seconds(passed);
    };
    tick();
    ticking = setInterval(tick, 1000);
  } else {
    state(IDLE);
  }
}

// Keys

const entryHere = () => (document.activeElement?.closest(".entry") ?? entries().at(-1)?.element)?.entry;

function move(by) {
  const stops = [...document.querySelectorAll("[data-stop]")].filter((element) => element.checkVisibility());
  if (!stops.length) return;
  const here = document.activeElement?.closest("[data-stop], .passage, .entry");
  const at = stops.indexOf(here?.querySelector(":scope > [data-stop], :scope > details > [data-stop]") ?? here);
  const next = stops[at === -1 ? 0 : Math.max(0, Math.min(at + by, stops.length - 1))];
  next.focus({ preventScroll: true });
  next.scrollIntoView({ block: "nearest" });
}

function copyHere() {
  const entry = entryHere();
  if (entry?.result) entry.copy(entry.asText());
}

function openHop() {
  const fold = document.activeElement.querySelector(":scope > .candidates");
  if (fold) fold.open = !fold.open;
}

const KEYS = [
  // keys, what they do, the command; without a command the browser or another listener does it
  [["/"], "go to the question", () => field.select()],
  [["Enter"], "ask; open or close a passage, a question or what a hop weighed", null],
  [["Shift Enter"], "a new line in the question", null],
  [["Esc"], "stop answering; leave the question", null],
  [["j", "↓"], "next hop or passage", () => move(1)],
  [["k", "↑"], "the one before", () => move(-1)],
  [["b"], "back from a passage to the mark that opened it", Passages.goBack],
  [["c"], "copy the answer and its sources", copyHere],
  [["n"], "a new conversation", begin],
  [["?"], "these keys", () => find("help").showModal()],
];
const ARROWS = { ArrowDown: "↓", ArrowUp: "↑" };

function keyPressed(event) {
  if (event.ctrlKey || event.metaKey || event.altKey || event.isComposing) return;
  if (document.querySelector("dialog[open]")) return;
  const here = document.activeElement;
  if (event.key === "Escape") {
    if (running) stop();
    else if (here === field) (entries().at(-1)?.summary ?? find("send")).focus();
    return;
  }
  if (here === field) return;
  if (event.key === "Enter" && here?.dataset.stop === "hop") openHop();
  // Arrows scroll, unless one moves between hops and passages already.
  if (event.key in ARROWS && !here?.closest("[data-stop]")) return;
  const pressed = ARROWS[event.key] ?? event.key;
  const command = KEYS.find(([keys]) => keys.includes(pressed))?.[2];
  if (!command) return;
  event.preventDefault();
  command();
}

// Start

function fromAddress() {
  const question = new URLSearchParams(location.hash.slice(1)).get("question");
  if (question) field.value = question;
  roomLeft();
}

async function describe() {
  const { version } = await health();
  find("version").textContent = `verihop ${version}`;
  for (;;) {
    try {
      return await info();
    } catch (problem) {
      if (problem.status !== 401 || !(await tokenGiven())) throw problem;
    }
  }
}

async function start() {
  fromAddress();
  restore(again);
  const last = entries().at(-1);
  if (field.value === last?.question) field.value = ""; // it is answered above
  last?.element.scrollIntoView();
  busy(false);
  const { program, title, lm, corpus, max_calls: most, limits: bounds } = await describe();
  limits = bounds ?? {};
  mostCalls = most ?? null;
  const passages = corpus ? [`${number(corpus.passages)} passages`] : [];
  find("about").replaceChildren(...dotted([`${program}: ${title}`, lm, ...passages]));
  roomLeft();
}

field.addEventListener("keydown", (event) => {
  // While an input method is open, Enter takes its suggestion.
  if (event.key !== "Enter" || event.shiftKey || event.isComposing || event.keyCode === 229) return;
  event.preventDefault();
  submit();
});
field.addEventListener("input", roomLeft);
find("ask").addEventListener("submit", (event) => { event.preventDefault(); submit(); });
find("stop").onclick = stop;
find("fresh").onclick = begin;
find("sheet").onclick = ({ target }) => { if (target === find("sheet")) find("sheet").close(); }; // beside it
find("keys").onclick = () => find("help").showModal();
find("key-list").append(...KEYS.flatMap(([keys, what]) =>
  [make("dt", {}, ...keys.map((key) => make("kbd", {}, key))), make("dd", {}, what)]));
document.addEventListener("keydown", keyPressed);
addEventListener("hashchange", fromAddress);
start().catch((problem) => {
  find("about").textContent = problem.status === 401 ? "This server needs a token; a question asks for it again."
    : problemWords(problem);
});
