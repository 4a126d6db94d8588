// One request from its arrival to its end: what it did when, what it waited for, where it went, and why it was refused.
import { html, useEffect, useState } from "../lib/html.js";
import { ask } from "../lib/api.js";
import { go, useLoad } from "../lib/hooks.js";
import { Badge, Button, CopyButton, Empty, Spinner, Stat, Stats, Table, TextField, Trouble } from "../lib/ui.js";
import { count, duration, moment, percent } from "../lib/format.js";
import { Phase, ended } from "./now.js";
import { codes, gave, stageWords, waits } from "./reasons.js";

/** Asks for a request's id, and lists the last ones. */
export function Requests({ live }) {
  const [id, set] = useState("");
  const all = live.now ? [...live.now.requests, ...live.now.ended] : [];
  return html`<div class="page stack"><h1>Requests</h1>
    <form class="row" onSubmit=${(e) => { e.preventDefault(); if (id.trim()) go("request", id.trim()); }}>
      <div class="grow"><${TextField} label="Find a request" hint="The id of an answer (chatcmpl-…), or the x-request-id that a client has" value=${id} onValue=${set} /></div><${Button} kind="primary" type="submit">Show<//></form>
    <${Table} caption="Requests" columns=${ended} rows=${all} rowKey=${(r) => r.id} limit=${50} empty=${html`<p class="hint">No request has come yet.</p>`} /></div>`;
}

const kinds = { waiting: "warn", load: "warn", route: "warn", paused: "s3", preempted: "bad", prefill: "s1", decode: "s0", compute: "s0", upstream: "s0", send: "s2" };

// Why a stage was as it was.
function why(s) {
  const list = [];
  if (s.waits_for && s.stage !== "paused" && s.stage !== "preempted") list.push(`for ${waits[s.waits_for] || s.waits_for}${s.requests_ahead ? `; ${count(s.requests_ahead)} went before it` : ""}`);
  if (s.gave_way_to) list.push(gave[s.gave_way_to] || s.gave_way_to);
  if (s.replica) list.push(`${s.replica}${s.reason ? `, ${s.reason}` : ""}`);
  else if (s.reason) list.push(codes[s.reason] || s.reason);
  if (s.failed) list.push(s.failed);
  return list.join("; ");
}

const stageColumns = (whole) => [
  { name: "stage", title: "What it did", sort: false, cell: (s) => html`<div class="stage"><span class=${`dot ${kinds[s.stage] || "quiet"}`}></span><span>${stageWords[s.stage] || s.stage}${s.now && html` <${Badge} kind="tint">now<//>`}</span></div>${why(s) && html`<p class="hint">${why(s)}</p>`}` },
  { name: "from", title: "After", number: true, sort: false, cell: (s) => duration(1000 * s.from_seconds) }, { name: "seconds", title: "Took", number: true, sort: false, cell: (s) => duration(1000 * s.seconds) },
  { name: "share", title: "Share", number: true, sort: false, cell: (s) => percent(s.seconds / whole, 0) },
];

// One prompt from its arrival to its end, as a bar over time and as a list. Each stage has some width, however short it was.
function Life({ life, whole, number, many }) {
  const least = 0.4, wide = (s) => Math.max(least, (100 * s.seconds) / whole);
  const sum = Math.max(100, life.stages.reduce((n, s) => n + wide(s), 0));
  let x = 0;
  const words = life.stages.map((s) => `${stageWords[s.stage] || s.stage} ${duration(1000 * s.seconds)}`).join(", ");
  return html`<figure class="life stack">${many && html`<figcaption>Prompt ${number + 1}</figcaption>`}
    <svg role="img" aria-label=${words} viewBox="0 0 100 6" preserveAspectRatio="none"><rect class="ground" width="100" height="6" />${life.stages.map((s, i) => {
      const w = (100 * wide(s)) / sum, r = html`<rect key=${i} class=${`part ${kinds[s.stage] || "quiet"}`} x=${x} width=${w} height="6"><title>${`${stageWords[s.stage] || s.stage}: ${duration(1000 * s.seconds)}`}</title></rect>`;
      x += w;
      return r;
    })}</svg>
    <div class="scale numbers" aria-hidden="true"><span>0</span><span>${duration(500 * whole)}</span><span>${duration(1000 * whole)}</span></div>
    <${Table} caption=${many ? `Stages of prompt ${number + 1}` : "Stages, in order of time"} columns=${stageColumns(whole)} rows=${life.stages} rowKey=${(s) => `${s.stage}/${s.from_seconds}`} />
    ${life.stages_left_out > 0 && html`<p class="hint">${count(life.stages_left_out)} stages between are not remembered.</p>`}</figure>`;
}

const considered = [
  { name: "replica", title: "Replica", cell: (c) => html`${c.replica} ${c.picked && html`<${Badge} kind="good">picked<//>`}` },
  { name: "cached_keys", title: "Prefix it has", number: true }, { name: "uncached_tokens", title: "Tokens to compute", number: true, cell: (c) => count(c.uncached_tokens) },
  { name: "tokens_ahead", title: "Tokens ahead", number: true, cell: (c) => count(c.tokens_ahead) }, { name: "load", title: "Requests", number: true },
  { name: "cost", title: "Cost", number: true, cell: (c) => c.cost.toPrecision(3) }, { name: "excluded", title: "Why not", cell: (c) => c.excluded || (c.gated ? "its breaker is open" : c.waits_for_slot ? "it waits for a slot" : "") },
];

function Tries({ tried }) {
  return html`<section class="stack" aria-labelledby="route"><h2 id="route">Where it went</h2>${tried.map((a, i) => html`<div key=${i} class="card stack"><div class="row"><strong>${a.replica || "this server"}</strong>
    <span class="hint">${a.reason}</span>${a.status > 0 && html`<${Badge} kind=${a.status < 400 ? "good" : "bad"}>${a.status}<//>`}${a.failed && html`<${Badge} kind="bad">${a.failed}<//>`}<span class="numbers">${duration(1000 * a.seconds)}</span></div>
    ${a.considered.length > 0 && html`<${Table} caption=${`What attempt ${i + 1} looked at`} columns=${considered} rows=${a.considered} rowKey=${(c) => c.replica} />`}</div>`)}</section>`;
}

function Prompt({ engine: e }) {
  return html`<div class="card stack"><div class="row"><${Phase} engine=${e} /><span class="muted id">${e.id}</span><${Badge}>${e.class}<//></div>
    ${e.waits_for && html`<p>It waits for ${waits[e.waits_for] || e.waits_for}.${e.requests_ahead ? ` ${count(e.requests_ahead)} requests go before it.` : ""}${e.expected_wait_seconds ? ` Expected: ${duration(1000 * e.expected_wait_seconds)}.` : ""}${e.gave_way_to ? ` It gave way ${gave[e.gave_way_to] || e.gave_way_to}.` : ""}</p>`}
    <${Stats} label="Figures of this prompt"><${Stat} label="Prompt read" value=${`${count(e.prefill_tokens)} of ${count(e.prompt_tokens)}`} /><${Stat} label="From the prefix cache" value=${count(e.cached_tokens || 0)} />
      <${Stat} label="Tokens out" value=${count(e.output_tokens)} /><${Stat} label="KV blocks of its own" value=${count(e.kv_blocks)} /><${Stat} label="Preemptions" value=${count(e.preemptions || 0)} />
      <${Stat} label="Overtaken" value=${count(e.overtaken || 0)} hint="Admissions that passed it while it waited" /><${Stat} label="Fairness debt" value=${duration(1000 * e.fairness_debt_seconds)} hint="What its tenant has had beyond the least served one that waits" /><//></div>`;
}

/** One request. It is asked again every second while it runs. */
export function Request({ id }) {
  const loaded = useLoad((signal) => ask(`admin/explain?request=${encodeURIComponent(id)}`, { signal }), [id]), r = loaded.value;
  useEffect(() => {
    if (r?.state !== "running" || loaded.loading) return;
    const timer = setTimeout(loaded.again, 1000);
    return () => clearTimeout(timer);
  }, [r, loaded.loading]);
  if (loaded.fault?.status === 404) return html`<${Empty} icon="now" title="This request is not known here"><p>The server remembers the requests that run and the last ones that ended. Its log and traces reach further back.</p><//>`;
  if (loaded.fault && !r) return html`<div class="page"><${Trouble} fault=${loaded.fault} onAgain=${loaded.again} /></div>`;
  if (!r) return html`<div class="page"><${Spinner} /></div>`;
  return html`<div class="page stack"><div class="row"><h1 class="id">${r.id}</h1><${CopyButton} text=${r.id} label="Copy the id" />
      <${Badge} kind=${r.state === "running" ? "tint" : r.status < 400 ? "good" : "bad"}>${r.state}${r.status ? ` · ${r.status}` : ""}<//>${r.code && html`<${Badge} kind="bad">${r.code}<//>`}</div>
    <${Stats} label="Figures of the request"><${Stat} label="Arrived" value=${moment(Date.parse(r.arrived))} /><${Stat} label=${r.state === "running" ? "Age" : "Took"} value=${duration(1000 * r.seconds)} />
      <${Stat} label="First token after" value=${r.ttft_seconds ? duration(1000 * r.ttft_seconds) : "–"} /><${Stat} label="Tenant" value=${r.tenant || "none"} /><${Stat} label="Model" value=${r.model || "–"} />
      <${Stat} label="Version" value=${html`${(r.version || "–").slice(0, 20)}${r.arm ? ` (${r.arm})` : ""}`} /><${Stat} label="Path" value=${r.route || "–"} /><${Stat} label="Prompt tokens" value=${count(r.prompt_tokens || 0)} />
      <${Stat} label="Of these cached" value=${count(r.cached_tokens || 0)} /><${Stat} label="Tokens out" value=${count(r.output_tokens || 0)} />${r.client_retries > 0 && html`<${Stat} label="Client's retries" value=${count(r.client_retries)} />`}<//>
    ${r.limit && html`<p class="note">A limit of its tenant ended the answer: ${r.limit}.</p>`}
    ${codes[r.code] && html`<p class="note">${codes[r.code]}</p>`}
    <section class="stack" aria-labelledby="life"><h2 id="life">From arrival to ${r.state === "running" ? "now" : "its end"}</h2>${r.life.map((l, i) => html`<${Life} key=${i} life=${l} number=${i} many=${r.life.length > 1} whole=${Math.max(r.seconds, 1e-6)} />`)}
      ${r.prompts_left_out > 0 && html`<p class="hint">${count(r.prompts_left_out)} more prompts of this request are not shown.</p>`}</section>
    ${(r.engine || []).map((e) => html`<${Prompt} key=${e.id} engine=${e} />`)}
    ${r.tried.length > 0 && html`<${Tries} tried=${r.tried} />`}
    ${r.moderation?.length > 0 && html`<section class="stack"><h2>What policies found</h2><${Table} caption="Findings of policies" rows=${r.moderation} columns=${["policy", "rule", "side", "action", "matches"].map((n) => ({ name: n, title: n }))} /></section>`}
  </div>`;
}
