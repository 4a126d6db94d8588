// What runs, what waits and for what, who has the KV cache, and how the steps went.
import { html, useMemo } from "../lib/html.js";
import { Badge, Empty, Stat, Stats, Table, Trouble } from "../lib/ui.js";
import { Lines } from "../lib/chart.js";
import { count, duration, percent, short } from "../lib/format.js";
import { engineName, prompts } from "./live.js";
import { waits } from "./reasons.js";
import { Blocks, Steps } from "./plots.js";

const phaseKind = { decode: "good", prefill: "tint", waiting: "warn", paused: "warn", preempted: "bad", compute: "good" };

export function Phase({ engine }) {
  if (!engine) return html`<${Badge}>not in an engine<//>`;
  return html`<${Badge} kind=${phaseKind[engine.phase] || ""}>${engine.phase}<//>`;
}

export function RequestLink({ id }) { return html`<a class="id" href=${`#/request/${encodeURIComponent(id)}`}>${id}</a>`; }

const running = [
  { name: "id", title: "Request", cell: (r) => html`<${RequestLink} id=${r.id} />` },
  { name: "tenant", title: "Tenant", cell: (r) => r.tenant || html`<span class="muted">none</span>` },
  { name: "model", title: "Model" },
  { name: "phase", title: "Does", sort: (r) => r.engine?.phase, cell: (r) => html`<${Phase} engine=${r.engine} />${r.engine?.waits_for && html` <span class="hint">${waits[r.engine.waits_for] || r.engine.waits_for}</span>`}` },
  { name: "ahead", title: "Ahead", number: true, sort: (r) => r.engine?.requests_ahead || 0, cell: (r) => (r.engine?.requests_ahead ? count(r.engine.requests_ahead) : "") },
  { name: "prompt", title: "Prompt read", number: true, sort: (r) => r.engine?.prefill_tokens || 0, cell: (r) => (r.engine ? `${count(r.engine.prefill_tokens)} of ${count(r.engine.prompt_tokens)}` : "") },
  { name: "output", title: "Tokens out", number: true, sort: (r) => r.engine?.output_tokens || 0, cell: (r) => (r.engine ? count(r.engine.output_tokens) : "") },
  { name: "seconds", title: "Age", number: true, cell: (r) => duration(1000 * r.seconds) },
];

export const ended = [
  { name: "id", title: "Request", cell: (r) => html`<${RequestLink} id=${r.id} />` },
  { name: "tenant", title: "Tenant", cell: (r) => r.tenant || html`<span class="muted">unknown</span>` },
  { name: "model", title: "Model", cell: (r) => r.model || "" },
  { name: "status", title: "Status", cell: (r) => !r.status ? html`<${Badge} kind="tint">running<//>` : html`<${Badge} kind=${r.status < 400 ? "good" : r.status < 500 ? "warn" : "bad"}>${r.status}<//>${r.code && html` <span class="hint">${r.code}</span>`}` },
  { name: "ttft_seconds", title: "First token", number: true, cell: (r) => (r.ttft_seconds ? duration(1000 * r.ttft_seconds) : "") },
  { name: "output_tokens", title: "Tokens out", number: true, cell: (r) => (r.output_tokens ? count(r.output_tokens) : "") },
  { name: "seconds", title: "Took", number: true, cell: (r) => duration(1000 * r.seconds) },
];

const wait = (seconds) => (seconds < 0 ? "not known yet" : duration(1000 * seconds));

const queueColumns = (several) => [
  ...(several ? [{ name: "model", title: "Model" }] : []), { name: "class", title: "Class" }, { name: "tenant", title: "Tenant", cell: (q) => q.tenant || html`<span class="muted">none</span>` },
  { name: "waiting", title: "Waiting", number: true, cell: (q) => count(q.waiting) },
  { name: "place", title: "Places", number: true, sort: (q) => q.requests_ahead, cell: (q) => (q.waiting > 1 ? `${count(q.requests_ahead + 1)} to ${count(q.requests_ahead_of_last + 1)}` : count(q.requests_ahead + 1)) },
  { name: "expected", title: "Expected wait", number: true, sort: (q) => q.expected_wait_seconds, cell: (q) => (q.waiting > 1 && q.expected_wait_seconds_of_last > q.expected_wait_seconds ? `${wait(q.expected_wait_seconds)} to ${wait(q.expected_wait_seconds_of_last)}` : wait(q.expected_wait_seconds)) },
  { name: "oldest", title: "Oldest waits", number: true, sort: (q) => q.oldest_seconds, cell: (q) => duration(1000 * q.oldest_seconds) }, { name: "prompt_tokens", title: "Prompt tokens", number: true, cell: (q) => count(q.prompt_tokens) },
  { name: "debt", title: "Fairness debt", number: true, sort: (q) => q.fairness_debt_seconds, cell: (q) => duration(1000 * q.fairness_debt_seconds) },
  { name: "waits_for", title: "The first waits for", cell: (q) => html`<span class="why">${waits[q.waits_for] || q.waits_for}</span>` },
];

function Engine({ engine, kept }) {
  const e = engine, rates = kept?.rates || [], rate = kept?.rate;
  return html`<section class="card stack" aria-label=${`Model ${e.model}`}>
    <div class="row"><h2>${e.model}</h2><span class="muted id" title=${e.version}>${e.version.slice(0, 12)}</span>${e.kind !== "llm" && html`<${Badge}>${e.kind === "encoder" ? "text encoder" : e.kind}<//>`}</div>
    ${e.kind === "encoder" ? html`<p class="hint">Text encoders have no KV cache; their passes are in <code>/metrics</code>.</p>` : html`
    <${Stats} label=${`Figures of ${e.model}`}>
      <${Stat} label="Sequences running" value=${`${count(e.running)} of ${count(e.max_num_seqs)}`} /><${Stat} label="Requests waiting" value=${count(e.waiting)} />
      <${Stat} label="Paused" value=${count(e.paused)} hint="They gave their slot to another tenant or class, and keep their KV blocks" />
      <${Stat} label="Preempted" value=${count(e.preempted)} hint="They gave their KV blocks, and wait to run again" />
      <${Stat} label="Tokens out per second" value=${rate ? short(Math.round(rate.decode)) : "–"} /><${Stat} label="Prompt tokens per second" value=${rate ? short(Math.round(rate.prefill)) : "–"} />
      <${Stat} label="Computing" value=${rate ? percent(rate.busy, 0) : "–"} hint="The share of the last second that steps took" /><//>
    <div class="two"><${Steps} steps=${kept?.steps || []} target=${e.itl_target_seconds} />
      <${Lines} label="Tokens per second" series=${[{ name: "out", values: rates.map((r) => r.decode) }, { name: "of prompts", values: rates.map((r) => r.prefill) }]} x=${[rates.length > 1 ? `${rates.length} s ago` : "", "now"]} /></div>
    ${e.kv_blocks > 0 && html`<${Blocks} engine=${e} />`}`}
  </section>`;
}

export function Now({ live }) {
  const { now, engines } = live;
  const rows = useMemo(() => (now ? prompts(now.requests) : []), [now]);
  if (!now) return null;
  return html`<div class="page stack">
    <div class="row"><h1>Now</h1><${Badge} kind=${now.ready ? "good" : "bad"}>${now.ready ? "ready" : now.why || "not ready"}<//>
      ${now.engine_error && html`<${Badge} kind="warn" title=${now.engine_error}>an engine does not answer<//>`}</div>
    ${now.engine_error && html`<${Trouble} title="What requests do cannot be asked" fault=${{ message: now.engine_error }} />`}
    ${now.engines.map((e) => html`<${Engine} key=${engineName(e)} engine=${e} kept=${engines.get(engineName(e))} />`)}
    ${!now.engines.length && html`<${Empty} icon="box" title="No language model is in memory"><p>Models load when a request comes, or by <code>weir models load MODEL</code>.</p><//>`}
    <section class="stack" aria-labelledby="queue"><h2 id="queue">Queue</h2>
      <${Table} caption="Waiting requests by class and tenant" columns=${queueColumns(now.engines.length > 1)} rows=${now.queue} rowKey=${(q) => `${q.model}/${q.class}/${q.tenant}`} empty=${html`<p class="hint">Nothing waits.</p>`} /></section>
    <section class="stack" aria-labelledby="running"><h2 id="running">Running <span class="badge">${count(now.running)}</span></h2>
      ${now.running > now.requests.length && html`<p class="hint">These are the ${count(now.requests.length)} oldest of ${count(now.running)}.</p>`}
      <${Table} caption="Requests that run or wait" columns=${running} rows=${rows} rowKey=${(r) => r.key} limit=${50} empty=${html`<p class="hint">No request runs.</p>`} /></section>
    <section class="stack" aria-labelledby="ended"><h2 id="ended">Ended last</h2>
      <${Table} caption="Requests that ended last" columns=${ended} rows=${now.ended} rowKey=${(r) => r.id} empty=${html`<p class="hint">No request has ended yet.</p>`} /></section>
  </div>`;
}
