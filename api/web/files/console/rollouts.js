// Rollouts: which versions answer which share, what was seen of both beside the gates, and an operator's decisions.
import { html, useEffect, useRef, useState } from "../lib/html.js";
import { Badge, Button, Confirm, Disclosure, Empty, Spinner, Stat, Stats, Table, Trouble } from "../lib/ui.js";
import { Lines, Meter } from "../lib/chart.js";
import { count, duration, moment, percent } from "../lib/format.js";
import { useChange, usePoll } from "./poll.js";

const stateKind = { running: "tint", paused: "warn", promoted: "good", aborted: "bad", rolled_back: "bad" };

const share = (n, of) => (of ? percent(n / of) : "–");
const seconds = (s) => (s ? duration(1000 * s) : "–");
const columns = [
  { name: "arm", title: "Arm" }, { name: "version", title: "Version", cell: (a) => html`<span class="id">${a.version}</span>` }, { name: "requests", title: "Requests", number: true, cell: (a) => count(a.requests) },
  { name: "failed", title: "Failed", number: true, cell: (a) => share(a.failed, a.requests) }, { name: "empty", title: "Empty", number: true, cell: (a) => share(a.empty, a.requests) },
  { name: "refused", title: "Refuse", number: true, cell: (a) => share(a.refused, a.requests) }, { name: "ttft_p95_seconds", title: "First token p95", number: true, cell: (a) => seconds(a.ttft_p95_seconds) },
  { name: "itl_p95_seconds", title: "Gap p95", number: true, cell: (a) => seconds(a.itl_p95_seconds) }, { name: "mean_output_tokens", title: "Mean length", number: true, cell: (a) => count(Math.round(a.mean_output_tokens)) },
  { name: "mean_cost", title: "Mean cost", number: true, cell: (a) => count(a.mean_cost) },
];

const decisions = {
  promote: ["Promote", "The candidate answers all requests, whatever the gates say."], abort: ["Abort", "The candidate is taken back at once; the stable version answers all requests."],
  pause: ["Pause", "The candidate keeps its share; the gates go on."], resume: ["Resume", "The step begins over."],
};

// A ratio gate as a line: where the candidate is, beside the limit.
function gates(st) {
  const [stable, candidate] = ["stable", "candidate"].map((arm) => st.arms.find((a) => a.arm === arm) || {}), g = st.plan.gates || {};
  const rate = (a, field) => (a.requests ? a[field] / a.requests : 0), list = [];
  for (const [name, field, words] of [["error_rate", "failed", "failed answers above the stable version's"], ["denied_rate", "denied", "requests answered 4xx above"], ["throttled_rate", "throttled", "requests answered 429 or 503 above"], ["empty_rate", "empty", "empty answers above"], ["refusal_rate", "refused", "refusing answers above"], ["length_rate", "length", "answers cut by their limit above"]]) {
    if (g[name] > 0) list.push({ name: words, value: Math.max(0, rate(candidate, field) - rate(stable, field)), limit: g[name], format: percent });
  }
  for (const [name, field, words] of [["ttft_ratio", "ttft_p95_seconds", "p95 to the first token, over the stable version's"], ["itl_ratio", "itl_p95_seconds", "p95 of gaps, over"], ["p99_ratio", "ttft_p99_seconds", "p99 to the first token, over"],
    ["output_ratio", "mean_output_tokens", "mean length, over"], ["cost_ratio", "mean_cost", "mean cost, over"], ["compute_ratio", "compute_seconds", "computing time, over"]]) {
    if (g[name] > 0 && stable[field] && candidate[field]) list.push({ name: words, value: candidate[field] / stable[field], limit: g[name], format: (v) => `${v.toFixed(2)}x` });
  }
  return list;
}

const keptLooks = 200; // at each rollout, one every 3 seconds

// What was seen of both arms at each look since the page was opened, by rollout; of those that are gone nothing is kept.
function useLooks(list) {
  const kept = useRef(new Map());
  const [, drawn] = useState(0);
  useEffect(() => {
    if (!list) return;
    const next = new Map();
    for (const st of list) {
      const look = Object.fromEntries(st.arms.map((a) => [a.arm, a]));
      next.set(st.plan.id, [...(kept.current.get(st.plan.id) || []), look].slice(-keptLooks));
    }
    kept.current = next;
    drawn((n) => n + 1);
  }, [list]);
  return kept.current;
}

// Both arms over time: how soon they answer, how often they fail, and who had how many requests.
function Plots({ looks }) {
  const arms = ["stable", "candidate"], x = [looks.length > 1 ? `${3 * (looks.length - 1)} s ago` : "", "now"];
  const series = (value) => arms.map((arm) => ({ name: arm, values: looks.map((l) => (l[arm] ? value(l[arm]) : null)) }));
  return html`<div class="plots"><${Lines} label="First token, p95" series=${series((a) => 1000 * a.ttft_p95_seconds || null)} x=${x} format=${duration} />
    <${Lines} label="Failed" unit="share of answers" series=${series((a) => (a.requests ? a.failed / a.requests : null))} x=${x} format=${percent} />
    <${Lines} label="Requests" series=${series((a) => a.requests)} x=${x} /></div>`;
}

function Rollout({ rollout: st, looks, onDecide }) {
  const over = st.state !== "running" && st.state !== "paused";
  return html`<section class="card stack" aria-label=${`Rollout of ${st.plan.model}`}>
    <div class="row"><h2>${st.plan.model}</h2><span class="id">${st.plan.stable} → ${st.plan.candidate}</span><${Badge} kind=${stateKind[st.state] || ""}>${st.state.replace("_", " ")}<//><span class="grow"></span>
      ${!over && ["promote", st.state === "paused" ? "resume" : "pause", "abort"].map((d) => html`<${Button} key=${d} small kind=${d === "abort" ? "danger" : ""} onClick=${() => onDecide(d, st)}>${decisions[d][0]}<//>`)}</div>
    ${(st.reason || st.waiting) && html`<p class="note">${st.reason || `This step has ${st.waiting}`}</p>`}
    <${Stats} label="How far it is"><${Stat} label="Step" value=${`${st.step} of ${st.plan.steps?.length || 0}`} /><${Stat} label="Candidate answers" value=${`${st.percent} %`} /><${Stat} label="Copied to it" value=${`${st.shadow} %`} />
      <${Stat} label="Began" value=${moment(Date.parse(st.began))} /><${Stat} label="Step since" value=${moment(Date.parse(st.since))} /><//>
    <${Table} caption=${`Arms of ${st.plan.model}`} columns=${columns} rows=${st.arms} rowKey=${(a) => a.arm} />
    <${Plots} looks=${looks} />
    <div class="two">${gates(st).map((g) => html`<${Meter} key=${g.name} label=${g.name} parts=${[{ name: "candidate", value: g.value, kind: g.value > g.limit ? "bad" : "" }]} whole=${g.limit} format=${g.format} />`)}</div>
    ${st.changes?.length > 0 && html`<${Disclosure} title=${`${st.changes.length} changes`}><ul class="stack">${st.changes.map((c, i) => html`<li key=${i} class="hint">${moment(Date.parse(c.at))}: ${c.from} → ${c.to}, ${c.percent} % by ${c.by}</li>`)}</ul><//>`}</section>`;
}

export function Rollouts() {
  const loaded = usePoll("v1/rollouts", 3), [asked, askFor] = useState(null), change = useChange(loaded.again), looks = useLooks(loaded.value?.rollouts);
  if (loaded.fault && !loaded.value && !loaded.missing) return html`<div class="page"><${Trouble} fault=${loaded.fault} onAgain=${loaded.again} /></div>`;
  if (!loaded.value && !loaded.missing) return html`<div class="page"><${Spinner} /></div>`;
  const list = loaded.value?.rollouts || [];
  return html`<div class="page stack"><h1>Rollouts</h1>${list.length === 0 && html`<${Empty} icon="rollout" title="No version is being tried"><p><code>weir rollout start MODEL CANDIDATE</code> tries a version on a part of the requests, and takes it back by itself where it is worse.</p><//>`}
    ${list.map((st) => html`<${Rollout} key=${st.plan.id} rollout=${st} looks=${looks.get(st.plan.id) || []} onDecide=${(decision, of) => askFor({ decision, of })} />`)}
    <${Confirm} title=${asked ? `${decisions[asked.decision][0]}: ${asked.of.plan.model}` : ""} open=${asked !== null} onClose=${() => askFor(null)} yes=${asked ? decisions[asked.decision][0] : ""} busy=${change.busy}
      onYes=${async () => { const { decision, of } = asked; askFor(null); await change.run(`v1/rollouts/${decision}`, { body: { model: of.plan.model } }, `${decisions[decision][0]}: ${of.plan.model}`); }}><p>${asked && decisions[asked.decision][1]}</p><//></div>`;
}
