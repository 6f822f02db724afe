// The page of a review. All text is inserted as text, never as HTML: questions, answers and passages are not trusted.
"use strict";

let session = null; // the server's data, updated with every saved decision
let place = 0; // the card shown
let current = 0; // the item on the card that keys act on
let editing = null; // the item whose wording is being changed
let saving = Promise.resolve(); // decisions are sent one after another, in order
const waiting = new Map(); // item id -> unsaved decision, with the reason if sending failed

const find = (id) => document.getElementById(id);
const card = () => session.cards[place];
const undecided = (item) => item.value === null;

function make(tag, properties = {}, ...children) {
  const element = document.createElement(tag);
  for (const [name, value] of Object.entries(properties)) {
    if (name in element) element[name] = value;
    else element.setAttribute(name, value);
  }
  element.append(...children);
  return element;
}

function say(text, bad = false) {
  find("state").textContent = text;
  find("state").classList.toggle("bad", bad);
}

// Saving

async function post(item, decision) {
  const sent = await fetch("decisions", {
    method: "POST",
    headers: { "Content-Type": "application/json" },
    body: JSON.stringify({ item: item.id, ...decision }),
  });
  const answer = await sent.json();
  if (!sent.ok) throw new Error(answer.error);
  return answer;
}

async function save(item, decision) {
  say("Saving.");
  try {
    const saved = await post(item, decision);
    if (waiting.get(item.id)?.decision === decision) waiting.delete(item.id);
    Object.assign(item, { value: saved.value, edited: saved.text });
    say(waiting.size ? `${waiting.size} not saved.` : "Saved.", waiting.size > 0);
  } catch (error) {
    const unreachable = error instanceof TypeError; // the server has stopped
    const why = unreachable ? "the review has ended; start the command again, then press Try again" : error.message;
    if (waiting.get(item.id)?.decision === decision) waiting.set(item.id, { decision, why });
    say(`Not saved: ${why}`, true);
  }
  show();
}

function decide(item, decision) {
  const first = undecided(item) && decision.value !== null;
  editing = null;
  waiting.set(item.id, { decision, why: null });
  if (first) forward(item);
  else show();
  saving = saving.then(() => save(item, decision));
}

function grade(item, value) {
  if (value === session.edit) startEditing(item);
  else decide(item, { value });
}

// Moving

function forward(item) {
  const items = card().items;
  const after = [...items.keys()].filter((n) => undecided(items[n]) && items[n] !== item && !waiting.has(items[n].id));
  const next = after.find((n) => n > current) ?? after[0];
  if (next === undefined) {
    show();
    find(place + 1 < session.cards.length ? "next" : "previous").focus();
  } else {
    choose(next);
  }
}

function choose(number) {
  const chosen = Math.max(0, Math.min(number, card().items.length - 1));
  show(); // restores the focus, so the new item is focused afterwards
  find("items").children[chosen].focus();
}

function turn(number) {
  if (number < 0 || number >= session.cards.length) return;
  place = number;
  editing = null;
  current = Math.max(0, card().items.findIndex(undecided));
  show();
  find("question").focus({ preventScroll: true });
  scrollTo(0, 0);
}

function turnToOpen() {
  const count = session.cards.length;
  const order = [...Array(count).keys()].map((n) => (place + 1 + n) % count);
  const open = order.find((n) => session.cards[n].items.some(undecided));
  if (open === undefined) say("All items are decided. Thank you.");
  else turn(open);
}

// Editing

function startEditing(item) {
  editing = { id: item.id, text: item.edited ?? item.text };
  current = card().items.indexOf(item);
  show();
  const area = find("wording");
  area.focus();
  area.setSelectionRange(area.value.length, area.value.length);
}

function stopEditing() {
  editing = null;
  choose(current);
}

function editor(item) {
  const area = make("textarea", { id: "wording", value: editing.text, maxLength: session.longest });
  area.addEventListener("input", () => { editing.text = area.value; });
  area.addEventListener("keydown", (event) => {
    if (event.key === "Escape") stopEditing();
    if (event.key === "Enter" && (event.ctrlKey || event.metaKey)) done();
  });
  const done = () => {
    if (area.value.trim()) decide(item, { value: session.edit, text: area.value });
    else say("An edited key fact needs words. Reject it to remove it.", true);
  };
  return make("div", { className: "edit" },
    make("label", { htmlFor: "wording", textContent: "New wording" }), area,
    make("div", { className: "grades" },
      make("button", { type: "button", onclick: done }, "Save ", make("kbd", {}, "Ctrl Enter")),
      make("button", { type: "button", className: "plain", onclick: stopEditing }, "Cancel ", make("kbd", {}, "Esc"))));
}

// Showing

function pairs(list) {
  return make("dl", {}, ...list.flatMap(([label, text]) => [make("dt", {}, label), make("dd", {}, text)]));
}

function gradeButtons(item, chosen) {
  const buttons = session.grades.map(({ value, label, key }) =>
    make("button", {
      type: "button", "aria-pressed": String(chosen === value), onclick: () => grade(item, value),
    }, `${label} `, make("kbd", {}, key)));
  if (chosen !== null) {
    buttons.push(make("button", {
      type: "button", className: "plain", onclick: () => decide(item, { value: null }),
    }, "Undo ", make("kbd", {}, "u")));
  }
  return make("div", { className: "grades", role: "group", "aria-label": `Judge this ${session.unit}` }, ...buttons);
}

function itemText(item, wording) {
  // A whole answer is already shown above.
  if (session.unit === "answer") return [];
  if (wording === null) return [make("div", { className: "text" }, item.text)];
  return [make("div", { className: "was" }, item.text), make("div", { className: "text" }, wording)];
}

function itemLine(item, number) {
  const open = waiting.get(item.id);
  const chosen = open ? open.decision.value : item.value;
  const wording = chosen === session.edit && chosen !== null ? (open ? open.decision.text : item.edited) : null;
  const line = make("li", { tabIndex: -1 });
  line.dataset.item = item.id;
  line.classList.toggle("decided", !open && item.value !== null);
  line.classList.toggle("unsaved", Boolean(open));
  line.classList.toggle("rejected", chosen === "reject");
  line.append(...itemText(item, wording));
  if (item.details.length) line.append(pairs(item.details));
  line.append(editing?.id === item.id ? editor(item) : gradeButtons(item, chosen));
  if (open?.why) {
    const again = make("button", { type: "button", onclick: () => decide(item, open.decision) }, "Try again");
    line.append(make("p", { className: "bad" }, `Not saved: ${open.why}. `, again));
  }
  line.addEventListener("focusin", () => mark(number));
  return line;
}

function mark(number) {
  current = number;
  [...find("items").children].forEach((line, n) => line.setAttribute("aria-current", String(n === number)));
}

function passage({ title, segments, gold }) {
  const text = segments.map(([piece, marked]) => (marked ? make("mark", {}, piece) : piece));
  const tag = gold ? [make("span", { className: "tag" }, "gold")] : [];
  return make("div", { className: "passage" }, make("h3", {}, title, ...tag), make("p", {}, ...text));
}

function showCard() {
  const shown = card();
  find("place").textContent = `${session.unit === "key fact" ? "Question" : "Answer"} ${place + 1} of ${session.cards.length}`;
  find("question").textContent = shown.question;
  find("golds").textContent = shown.golds.length ? `Accepted answers: ${shown.golds.join(" / ")}` : "";
  find("response").replaceChildren(...(shown.response ? [make("h3", {}, "Answer"), shown.response] : []));
  const steps = shown.steps.map(({ question, answer }) => make("li", {}, `${question} `, make("b", {}, answer)));
  find("steps").replaceChildren(...(steps.length ? [make("h3", {}, "Steps"), make("ol", {}, ...steps)] : []));
  find("items").replaceChildren(...shown.items.map(itemLine));
  mark(current);
  const references = shown.references.map(passage);
  const none = make("p", { className: "soft" }, "No references are available.");
  find("references").replaceChildren(make("h3", {}, "References"), ...(references.length ? references : [none]));
  find("previous").disabled = place === 0;
  find("next").disabled = place + 1 === session.cards.length;
}

// Redrawing removes the focus from replaced elements, so it is restored.
function show() {
  const held = document.activeElement;
  const line = held?.closest("#items > li");
  const label = held?.tagName === "BUTTON" ? held.firstChild.textContent : null;
  showCard();
  const items = session.cards.flatMap(({ items }) => items);
  const decided = items.filter((item) => !undecided(item)).length;
  find("count").textContent = `${decided} of ${items.length} decided`;
  Object.assign(find("bar"), { max: items.length, value: decided });
  const redrawn = line && [...find("items").children].find((other) => other.dataset.item === line.dataset.item);
  if (!redrawn) return;
  const inside = held.id === "wording" ? find("wording")
    : [...redrawn.querySelectorAll("button")].find((button) => label && button.firstChild.textContent === label);
  (inside ?? redrawn).focus({ preventScroll: true });
}

// Keys

const KEYS = [
  ["j", "next item", () => choose(current + 1)],
  ["k", "previous item", () => choose(current - 1)],
  ["n", "next question", () => turn(place + 1)],
  ["p", "previous question", () => turn(place - 1)],
  ["g", "next undecided question", turnToOpen],
  ["u", "undo the decision", () => card().items[current].value !== null && decide(card().items[current], { value: null })],
  ["?", "these keys", () => { find("help").open = !find("help").open; }],
];

function keyPressed(event) {
  if (event.ctrlKey || event.metaKey || event.altKey || event.repeat || event.target.tagName === "TEXTAREA") return;
  const pressedGrade = session.grades.find(({ key }) => key === event.key.toLowerCase());
  const command = KEYS.find(([key]) => key === event.key.toLowerCase());
  if (!pressedGrade && !command) return;
  event.preventDefault();
  if (pressedGrade) grade(card().items[current], pressedGrade.value);
  else command[2]();
}

async function start() {
  const answer = await fetch("session");
  session = await answer.json();
  find("who").textContent = `${session.reviewer}: ${session.scale}`;
  document.title = `verihop review: ${session.scale}`;
  if (!session.cards.length) {
    find("empty").textContent = "No items are left to judge: other reviewers have agreed on all of them.";
    return;
  }
  find("empty").hidden = true;
  find("card").hidden = false;
  find("task").textContent = session.task;
  const grades = session.grades.map(({ key, label }) => [key, label]);
  find("keys").replaceWith(pairs([...grades, ...KEYS.map(([key, what]) => [key, what])]));
  find("previous").onclick = () => turn(place - 1);
  find("next").onclick = () => turn(place + 1);
  find("open").onclick = turnToOpen;
  document.addEventListener("keydown", keyPressed);
  addEventListener("beforeunload", (event) => { if (waiting.size || editing) event.preventDefault(); });
  turn(0);
}

start().catch(() => { find("empty").hidden = true; say("The review cannot be loaded. Start the command again.", true); });
