// What the page says in plain words: verdicts, why a program stopped, costs, and problems with what to do.

const VERDICTS = {
  kept: ["Kept.", "The draft was kept."], // without and with a draft
  confirmed: ["The passages confirm it."],
  corrected: ["Corrected by what the passages say."],
  completed: ["Filled in from the passages."],
  read: ["Taken from what was read."],
  recalled: ["From memory: there was nothing to read."],
  edited: ["Replaced by what the passages say."],
  rewritten: ["Written again from the passages."],
  confident: ["The model was sure, so nothing was searched for."],
  accepted: ["Accepted: both answers agree."],
  disagreed: ["Not accepted: the two answers disagree."],
  agreed: ["A second reader gives the same answer."],
  revised: ["Revised: another search followed."],
  given: ["The last answer, without a second reader's agreement."],
  final: ["The last answer, which was not accepted."],
  unverified: ["Not verified."],
  unchecked: ["Not checked against passages."],
  answered: ["Answered from what was read."],
  abstained: ["Declined: what was read is not enough."],
  forced: ["Answered although it would rather have declined."],
  "no answer": ["What was read gives no answer."],
  unparseable: ["A reply of the language model could not be read."],
};
// Steps of agents that only search or read; they settle no answer of their own.
const ACTIONS = {
  keywords: "Searched by keywords.", search: "Searched by meaning.", searched: "Searched.",
  "looked up": "Looked up in the passage.", read: "Read whole passages.",
};

export function verdictWords({ verdict, draft, answer }) {
  if (!verdict) return "";
  if (!answer && Object.hasOwn(ACTIONS, verdict)) return ACTIONS[verdict];
  const words = Object.hasOwn(VERDICTS, verdict) ? VERDICTS[verdict] : null;
  return words ? ((draft && words[1]) || words[0]) : `Verdict: ${verdict}.`;
}

// How a follow-up question was understood; nothing if as it was asked.
const UNDERSTOOD = {
  rewritten: "Understood as:",
  "with the last turn": "Its rewriting could not be used, so it was asked together with the last question:",
  "as asked": "Asked as it is: its rewriting could not be used.",
};
export const understoodWords = ({ how }) => (Object.hasOwn(UNDERSTOOD, how) ? UNDERSTOOD[how] : "");

const MATCHES = { verbatim: "Word for word", near: "A paraphrase", absent: "In no passage that was read" };

export function matchWords(match, found) {
  if (!Object.hasOwn(MATCHES, match ?? "")) return "";
  return `${MATCHES[match]} (${match})${found ? (match === "near" ? " of" : " in") : ""}`;
}

const STOPS = {
  done: "All steps of this program were taken.",
  finished: "Finished: the program considers the answer settled.",
  cap: "Stopped at the most steps that its settings allow, so the answer may be incomplete.",
  repeated: "Stopped because the next step would have repeated an earlier one.",
  "nothing found": "Stopped because a search found nothing new.",
  unparseable: "Stopped because a reply of the language model could not be read.",
  withheld: "The answer found is not given: it is not likely enough to be right.",
};

export function stopWords(reason) {
  if (!reason) return "";
  return Object.hasOwn(STOPS, reason) ? STOPS[reason] : `Stopped: ${reason}.`;
}

// Numbers

export const number = (value) => Number(value ?? 0).toLocaleString("en");
export const count = (value, one, more = `${one}s`) => `${number(value)} ${value === 1 ? one : more}`;

export function seconds(value) {
  if (value < 0.05) return "0 s";
  if (value < 100) return `${value < 9.95 ? value.toFixed(1) : Math.round(value)} s`;
  const whole = Math.round(value);
  return `${Math.floor(whole / 60)} min ${whole % 60} s`;
}

const DOLLARS = new Intl.NumberFormat("en", { style: "currency", currency: "USD" });
const CENTS = new Intl.NumberFormat("en", { style: "currency", currency: "USD", maximumSignificantDigits: 2 });
export const dollars = (value) => (value < 1 ? CENTS : DOLLARS).format(value); // small prices have two digits that count

export function costWords(cost) {
  const { calls = 0, cached_calls: cached = 0, usd = 0 } = cost;
  const { prompt_tokens: sent = 0, completion_tokens: written = 0 } = cost;
  const fromCache = cached === calls ? "from the cache" : `${number(cached)} from the cache`;
  return [
    count(calls, "call") + (cached ? ` (${fromCache})` : ""),
    ...(sent + written ? [count(sent + written, "token")] : []),
    seconds(cost.seconds ?? 0),
    ...(usd > 0 ? [dollars(usd)] : []),
  ].join(" · ");
}

// What of the replies was lost; an answer may be worse for it.
export function lossWords({ parse_failures: unread = 0, cut_replies: cut = 0, truncated = 0 }) {
  return [
    unread && `${count(unread, "reply", "replies")} could not be read.`,
    cut && `${count(cut, "reply", "replies")} ended at the limit of tokens.`,
    truncated && `${count(truncated, "prompt")} had to be shortened to fit the model.`,
  ].filter(Boolean).join(" ");
}

// Problems: one sentence with what to do. What the server says is shown beside it.

const later = (wait) => (wait > 0 ? `in ${count(wait, "second")}` : "in a moment");

const PROBLEMS = {
  unreachable: () => "The server cannot be reached: check that it runs and that you are online, then ask again.",
  broken: (after) => `The connection broke ${after}: what was settled is kept here, and you can ask again.`,
  unauthorized: () => "The server needs a token to answer: ask again to enter one.",
  too_large: () => "The question is too long for this server: shorten it and ask again.",
  queue_full: (_, wait) => `Too many questions are waiting: ask again ${later(wait)}.`,
  invalid_request: () => "The server cannot read this question: change it and ask again.",
  budget_exceeded: (_, wait, status) => (status === 422
    ? "The question needs more than the server grants each question: ask for less at once."
    : "The server's budget is used up: the person who runs it can raise it."),
  content_filter: () => "A content filter of the language model refuses this question: ask in other words.",
  unavailable: (_, wait) => `The language model or the search does not answer: ask again ${later(wait)}.`,
  timeout: () => "The answer took longer than the server allows: ask again, or ask for less at once.",
  internal: () => "The server failed: ask again, and if it fails again, tell the person who runs it.",
};
const STATUSES = {
  400: "invalid_request", 401: "unauthorized", 413: "too_large", 422: "invalid_request", 429: "queue_full",
  503: "unavailable", 504: "timeout",
};

export function problemWords({ kind, status, wait, hops }) {
  const known = Object.hasOwn(PROBLEMS, kind ?? "") ? kind : null;
  const after = hops ? `after hop ${hops}` : "before the first hop";
  return PROBLEMS[known ?? STATUSES[status] ?? "internal"](after, wait, status);
}
