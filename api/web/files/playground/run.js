// One request for answers of a chat, as it runs: reads the stream into the nodes of a conversation and measures it.
import { send, readEvents, Fault } from "../lib/api.js";

const maxGaps = 600;    // of an answer, for its plot; the oldest go
const maxTokens = 4000; // with log-probabilities

export class Run {
  /** nodes: one per choice. onChange is told of everything that comes. */
  constructor(body, nodes, onChange) {
    Object.assign(this, { body, nodes, onChange, state: "sending", controller: new AbortController(), started: performance.now(), last: 0, lastToken: 0 });
    for (const n of nodes) Object.assign(n, { content: "", state: "running", run: this, stats: { }, gaps: [] });
  }

  stop() { this.stopped = true; this.controller.abort(); }

  async go() {
    try {
      const response = await this.#open();
      this.requestId = response.headers.get("x-request-id") || "";
      this.warnings = response.headers.get("x-weir-warnings") || "";
      for (const n of this.nodes) { n.requestId = this.requestId; n.warnings = this.warnings; n.version = response.headers.get("x-weir-version") || ""; }
      await readEvents(response, { event: (e) => this.#event(e), comment: (text) => this.#comment(text) });
      if (!this.done) throw new Fault({ message: "the connection broke before the answer was whole", requestId: this.requestId });
      this.#end("done");
    } catch (e) {
      if (e.name === "AbortError" || this.stopped) this.#end("stopped");
      else {
        const fault = e instanceof Fault ? e : new Fault({ message: `the connection broke before the answer was whole (${e.message})`, requestId: this.requestId });
        for (const n of this.nodes) n.fault = { message: fault.message, status: fault.status, code: fault.code, requestId: fault.requestId, retryAfter: fault.retryAfter };
        this.#end("failed");
        this.fault = fault;
      }
    }
    this.onChange();
    return this;
  }

  // #open leaves out what only weir knows where the servers behind a model refuse it.
  async #open() {
    try {
      return await send("v1/chat/completions", { body: this.body, signal: this.controller.signal });
    } catch (e) {
      if (!(e instanceof Fault) || e.status !== 400 || !/stream_options|include_progress|continuous_usage/.test(e.message + e.param)) throw e;
      return send("v1/chat/completions", { body: { ...this.body, stream_options: { include_usage: true } }, signal: this.controller.signal });
    }
  }

  #comment(text) {
    const place = /^queue position=(\d+)/.exec(text), prefill = /^prefill (\d+)\/(\d+) cached=(\d+)/.exec(text);
    if (place) this.waiting = { position: Number(place[1]) };
    if (prefill) this.waiting = { prefilled: Number(prefill[1]), prompt: Number(prefill[2]), cached: Number(prefill[3]) };
    if (place || prefill) { this.state = place ? "queued" : "prefill"; this.onChange(); }
  }

  #event({ data }) {
    if (data === "[DONE]") { this.done = true; return; }
    let chunk;
    try { chunk = JSON.parse(data); } catch { throw new Fault({ message: "an event of the stream is not JSON" }); }
    if (chunk.error) {
      const e = typeof chunk.error === "object" ? chunk.error : { message: chunk.error };
      throw new Fault({ message: String(e.message || "the server ended the answer with an error"), code: String(e.code || ""), status: Number(e.status) || 200, requestId: this.requestId });
    }
    const now = performance.now();
    for (const choice of chunk.choices || []) {
      const node = this.nodes[choice.index || 0];
      if (node) this.#delta(node, choice, now);
    }
    if (chunk.usage) this.#usage(chunk.usage);
    this.onChange();
  }

  #delta(n, choice, now) {
    const d = choice.delta || {}, thought = d.reasoning_content ?? d.reasoning;
    const some = d.content || thought || d.tool_calls?.length;
    if (d.content) n.content += d.content;
    if (thought) n.reasoning = (n.reasoning || "") + thought;
    if (d.refusal) n.refusal = (n.refusal || "") + d.refusal;
    for (const call of d.tool_calls || []) {
      n.calls ||= [];
      const k = (n.calls[call.index || 0] ||= { id: "", name: "", arguments: "" });
      if (call.id) k.id = call.id;
      if (call.function?.name) k.name += call.function.name;
      if (call.function?.arguments) k.arguments += call.function.arguments;
    }
    for (const t of choice.logprobs?.content || []) {
      (n.tokens ||= []).push({ t: t.token, p: t.logprob, top: (t.top_logprobs || []).map((o) => [o.token, o.logprob]), r: thought ? 1 : undefined });
      if (n.tokens.length > maxTokens) n.tokens.splice(0, n.tokens.length - maxTokens);
    }
    if (choice.finish_reason) n.finish = choice.finish_reason;
    if (!some) return;
    if (!n.stats.first) { n.stats.first = now - this.started; n.stats.burst = 1; this.state = "answering"; }
    else {
      if (n.stats.burst === n.stats.pieces && now - n.last < leastGap) n.stats.burst++;
      n.gaps.push(Math.round((now - n.last) * 10) / 10); if (n.gaps.length > maxGaps) n.gaps.shift();
    }
    n.last = now;
    n.stats.pieces = (n.stats.pieces || 0) + 1;
    n.stats.spent = now - this.started;
  }

  #usage(u) {
    for (const n of this.nodes) {
      n.stats.prompt = u.prompt_tokens;
      n.stats.cached = u.prompt_tokens_details?.cached_tokens;
      if (this.nodes.length === 1) {
        n.stats.output = u.completion_tokens;
        n.stats.thought = u.completion_tokens_details?.reasoning_tokens;
      }
    }
  }

  #end(state) {
    for (const n of this.nodes) {
      n.state = state;
      n.stats.spent ??= performance.now() - this.started;
      delete n.run;
      delete n.last;
    }
    this.state = state;
  }
}

const leastSpan = 30; // ms: tokens that come at once tell no speed
const leastGap = 1; // ms: a token that is read sooner behind another had come with it

/** Tokens per second after those that were read with the first one; null: it cannot be told. */
export function rate(s) {
  const n = (s.output ?? s.pieces) - (s.burst ?? 1);
  return n > 0 && s.spent - s.first >= leastSpan ? (n * 1000) / (s.spent - s.first) : null;
}

/** The q-quantile of numbers. */
export function quantile(list, q) {
  if (!list?.length) return null;
  const sorted = [...list].sort((a, b) => a - b);
  return sorted[Math.min(sorted.length - 1, Math.floor(q * sorted.length))];
}
