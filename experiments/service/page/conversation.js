// The conversation of this tab: its questions in order, what goes with the next one, and what outlives a reload.

import { Entry } from "./answers.js";
import { find } from "./elements.js";

const KEY = "conversation";
const MOST_TURNS = 6; // the server uses no more
const LONGEST = 2000; // characters of a turn's text that are sent

export const entries = () => [...document.querySelectorAll(".entry")].map((element) => element.entry); // oldest first

// The newest stands last and open; the others fold.
export function add(entry) {
  for (const { fold } of entries()) fold.open = false;
  find("empty").hidden = true;
  find("answers").append(entry.element);
}

// Of the questions that have an answer, the last ones.
export function turns() {
  const cut = (text) => [...text].slice(0, LONGEST).join("");
  return entries().filter(({ result }) => result).slice(-MOST_TURNS).map((entry) => {
    const { question, answer } = entry.turn();
    return { question: cut(question), answer: cut(answer) };
  });
}

// Keeps it as the token is, until the tab is closed. If there is no room for all, the oldest go.
export function keep() {
  const all = entries().map((entry) => entry.saved());
  for (let first = 0; first <= all.length; first += 1) {
    try {
      sessionStorage.setItem(KEY, JSON.stringify(all.slice(first)));
      return;
    } catch { /* too much, or nothing is kept in this browser */ }
  }
}

// Shows again what was kept; `again` asks anew. What another version of the page kept, or nobody can read, is left out.
export function restore(again) {
  try {
    for (const saved of JSON.parse(sessionStorage.getItem(KEY)) ?? []) add(Entry.restored(saved, again));
  } catch { /* nothing more is shown */ }
}

export function clear() {
  find("answers").replaceChildren(find("empty"));
  find("empty").hidden = false;
  try { sessionStorage.removeItem(KEY); } catch { /* nothing is kept */ }
}
