// Requests to the server: what it runs, and the events of an answer.

export class Problem extends Error {
  // kind: a word of `problemWords`; status: of HTTP; wait: seconds until it is worth asking again.
  constructor(kind, { status, wait, message } = {}) {
    super(message ?? "");
    Object.assign(this, { kind, status, wait });
  }
}

// The token lives as long as the tab. Browsers that block storage keep it until the page is left.
let token = null;
try { token = sessionStorage.getItem("token"); } catch { /* not kept */ }

export const hasToken = () => Boolean(token);

export function keepToken(value) {
  token = value;
  try { sessionStorage.setItem("token", value); } catch { /* not kept */ }
}

async function request(path, { headers = {}, ...options } = {}) {
  if (/[^ -~]/.test(token ?? "")) throw new Problem("unauthorized", { status: 401 }); // no header can hold it
  const all = token ? { ...headers, Authorization: `Bearer ${token}` } : headers;
  let response;
  try {
    response = await fetch(path, { ...options, headers: all, cache: "no-store", credentials: "same-origin" });
  } catch (error) {
    throw error.name === "AbortError" ? error : new Problem("unreachable");
  }
  if (response.ok) return response;
  const { error = {} } = await response.json().catch(() => ({}));
  const wait = Number.parseInt(response.headers.get("Retry-After"), 10);
  throw new Problem(error.type, { status: response.status, wait, message: error.message });
}

export const health = async () => (await request("health")).json();
export const info = async () => (await request("v1/info")).json();

async function* lines(body) {
  const reader = body.pipeThrough(new TextDecoderStream()).getReader();
  let rest = "";
  try {
    for (;;) {
      const { value, done } = await reader.read();
      rest += value ?? "";
      // A carriage return at the end may be the first half of a line break.
      const whole = rest.split(done ? /\r\n|\r|\n/ : /\r\n|\n|\r(?!$)/);
      rest = whole.pop();
      yield* whole;
      if (done) return;
    }
  } finally {
    reader.cancel().catch(() => {}); // closing the connection stops the work on the server
  }
}

async function* events(body) {
  let name = "message";
  let data = [];
  for await (const line of lines(body)) {
    if (line === "") {
      if (data.length) yield { name, data: JSON.parse(data.join("\n")) };
      [name, data] = ["message", []];
    } else if (!line.startsWith(":")) {
      const [, field, value] = /^([^:]*):? ?(.*)$/.exec(line);
      if (field === "event") name = value;
      if (field === "data") data.push(value);
    }
  }
}

// Yields the events of a question, after the turns before it, until its answer; whatever ends it earlier is a `Problem`, or an AbortError.
export async function* answering(question, turns, signal) {
  const response = await request("v1/answers", {
    method: "POST",
    headers: { "Content-Type": "application/json", Accept: "text/event-stream" },
    body: JSON.stringify({ question, ...(turns.length ? { turns } : {}), stream: true }),
    signal,
  });
  try {
    for await (const { name, data } of events(response.body)) {
      if (name === "error") throw new Problem(data.error.type, data.error);
      yield { name, data };
      if (name === "answer") return;
    }
  } catch (error) {
    if (error instanceof Problem || error.name === "AbortError") throw error;
    throw new Problem("broken"); // the network, or something that is not JSON
  }
  throw new Problem("broken");
}
