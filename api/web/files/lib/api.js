// Requests to the server of this page, with the caller's key.

const keyName = "weir.key";
// Pages are at /NAME/, so that paths are relative to ../, as they are behind a proxy with a prefix, too.
const base = new URL("../", location.href);

let memory = ""; // where the browser keeps nothing
export const key = {
  get() { try { return sessionStorage.getItem(keyName) || memory; } catch { return memory; } },
  set(value) {
    memory = value;
    try { value ? sessionStorage.setItem(keyName, value) : sessionStorage.removeItem(keyName); } catch { /* kept in memory */ }
  },
};

/** The address of a path, as people would call it. */
export function address(path) { return new URL(path.replace(/^\//, ""), base).href; }

/** What a server refused, or why none answered (status 0). */
export class Fault extends Error {
  constructor({ message, status = 0, code = "", param = "", requestId = "", retryAfter = 0 }) {
    super(message);
    Object.assign(this, { name: "Fault", status, code, param, requestId, retryAfter });
  }
  get needsKey() { return this.status === 401; }
  get unreachable() { return this.status === 0; }
}

async function faultOf(response) {
  let body = "";
  try { body = (await response.text()).slice(0, 1 << 16); } catch { /* cut off */ }
  let said = {};
  try { said = JSON.parse(body); } catch { /* no JSON */ }
  const e = said.error && typeof said.error === "object" ? said.error : { message: typeof said.error === "string" ? said.error : said.message };
  return new Fault({
    message: String(e.message || body.slice(0, 300) || `the server answered ${response.status}`), status: response.status, code: String(e.code || e.type || ""),
    param: String(e.param || ""), requestId: response.headers.get("x-request-id") || "", retryAfter: Number(response.headers.get("retry-after")) || 0,
  });
}

/** Sends a request. body: an object becomes JSON. Resolves to the Response where it is ok; throws a Fault, or AbortError. */
export async function send(path, { method, body, signal, headers = {} } = {}) {
  const h = { ...headers };
  const k = key.get();
  if (/[^ -~]/.test(k)) throw new Fault({ message: "the key has signs that no key has, such as … or a dash that a text program made: copy it again", status: 401, code: "invalid_api_key" });
  if (k) h.Authorization = `Bearer ${k}`;
  if (body !== undefined) h["Content-Type"] = "application/json";
  let response;
  try {
    response = await fetch(new URL(path.replace(/^\//, ""), base), {
      method: method || (body === undefined ? "GET" : "POST"), headers: h, signal, body: body === undefined ? undefined : JSON.stringify(body),
      cache: "no-store", credentials: "omit", redirect: "error", referrerPolicy: "no-referrer",
    });
  } catch (e) {
    if (e.name === "AbortError") throw e;
    throw new Fault({ message: "the server does not answer: it may have stopped, or the network is down" });
  }
  if (!response.ok) throw await faultOf(response);
  return response;
}

/** send, and the answer's JSON. */
export async function ask(path, options) {
  const response = await send(path, options);
  const text = await response.text();
  try { return text ? JSON.parse(text) : null; } catch { throw new Fault({ message: "the answer is not JSON", status: response.status }); }
}

/** Reads server-sent events from a Response. on.event({event, data, id}), on.comment(text). Ends when the stream does. */
export async function readEvents(response, on) {
  const reader = response.body.pipeThrough(new TextDecoderStream()).getReader();
  let rest = "", event = "", data = [], id = "", cr = false;
  const line = (text) => {
    if (text === "") {
      if (data.length) on.event?.({ event: event || "message", data: data.join("\n"), id });
      event = ""; data = [];
      return;
    }
    if (text[0] === ":") { on.comment?.(text.slice(1).trim()); return; }
    const at = text.indexOf(":");
    const name = at < 0 ? text : text.slice(0, at);
    const value = at < 0 ? "" : text.slice(at + 1).replace(/^ /, "");
    if (name === "data") data.push(value);
    else if (name === "event") event = value;
    else if (name === "id") id = value;
  };
  try {
    for (;;) {
      const { value, done } = await reader.read();
      if (done) break;
      let text = cr && value[0] === "\n" ? value.slice(1) : value; // a CR LF that came in two pieces
      cr = text ? text.endsWith("\r") : cr;
      text = rest + text;
      const lines = text.split(/\r\n|\n|\r/);
      rest = lines.pop();
      lines.forEach(line);
    }
    if (rest) line(rest);
  } finally {
    reader.cancel().catch(() => {});
  }
}

/** Reads JSON lines from a Response: on(object) for each. Ends when the stream does, or with what on throws. */
export async function readLines(response, on) {
  const reader = response.body.pipeThrough(new TextDecoderStream()).getReader();
  let rest = "";
  const line = (text) => { let v; try { v = JSON.parse(text); } catch { return; } if (v && typeof v === "object") on(v); };
  try {
    for (;;) {
      const { value, done } = await reader.read();
      if (done) break;
      const lines = (rest + value).split("\n");
      rest = lines.pop();
      lines.forEach(line);
    }
    line(rest);
  } finally {
    reader.cancel().catch(() => {});
  }
}

/**
 * Follows a stream of events for as long as the page is open: it comes back after a cut, with waits of 1 to 30 s, and while the page is
 * hidden it rests. on.event as for readEvents, on.state("connecting" | "open" | "waiting" | "refused", fault). Returns a function that ends it.
 */
export function follow(path, on) {
  let ended = false, controller = null, wait = 1000, timer = 0, last = "", running = false;
  const run = async () => {
    if (ended || running || document.hidden) return;
    running = true;
    controller = new AbortController();
    on.state?.("connecting");
    try {
      const response = await send(path, { signal: controller.signal, headers: { Accept: "text/event-stream", ...(last ? { "Last-Event-ID": last } : {}) } });
      on.state?.("open");
      await readEvents(response, {
        event(e) { wait = 1000; if (e.id) last = e.id; on.event(e); },
        comment() { wait = 1000; },
      });
      if (!ended) on.state?.("waiting");
    } catch (e) {
      if (ended) return;
      if (e instanceof Fault && e.status >= 400 && e.status < 500 && e.status !== 429) { on.state?.("refused", e); ended = true; return; }
      if (e.name !== "AbortError") on.state?.("waiting", e);
    } finally {
      running = false;
    }
    if (ended || document.hidden) return;
    timer = setTimeout(run, wait * (0.75 + Math.random() / 2));
    wait = Math.min(2 * wait, 30000);
  };
  const visibility = () => {
    clearTimeout(timer);
    if (document.hidden) controller?.abort();
    else { wait = 1000; timer = setTimeout(run, 50); }
  };
  document.addEventListener("visibilitychange", visibility);
  run();
  return () => {
    ended = true;
    clearTimeout(timer);
    document.removeEventListener("visibilitychange", visibility);
    controller?.abort();
  };
}
