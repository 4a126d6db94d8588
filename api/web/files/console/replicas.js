// The servers behind models that this one routes to.
import { html } from "../lib/html.js";
import { Badge, Empty, Spinner, Table, Trouble } from "../lib/ui.js";
import { count, duration } from "../lib/format.js";
import { usePoll } from "./poll.js";

const columns = [
  { name: "replica", title: "Replica", cell: (r) => html`<span class="id">${r.replica}</span>` }, { name: "state", title: "State", cell: (r) => html`<${Badge} kind=${({ ready: "good", down: "bad" })[r.state] || "warn"}>${r.state}<//>${r.why && html` <span class="hint">${r.why}</span>`}` },
  { name: "kind", title: "Kind" }, { name: "zone", title: "Zone", cell: (r) => [r.region, r.zone].filter(Boolean).join(" / ") || "–" }, { name: "breaker", title: "Breaker", cell: (r) => r.breaker || "–" },
  { name: "in_flight", title: "In flight", number: true, cell: (r) => count(r.in_flight) }, { name: "load", title: "Load", number: true, cell: (r) => count(r.load) }, { name: "requests", title: "Requests", number: true, cell: (r) => count(r.requests) },
  { name: "faults", title: "Faults", number: true, cell: (r) => (typeof r.faults === "number" ? count(r.faults) : count(Object.values(r.faults || {}).reduce((n, v) => n + (Number(v) || 0), 0))) },
  { name: "rests_seconds", title: "Rests", number: true, cell: (r) => (r.rests_seconds ? duration(1000 * r.rests_seconds) : "–") },
];

export function Replicas() {
  const loaded = usePoll("admin/replicas", 2);
  if (loaded.fault && !loaded.value && !loaded.missing) return html`<div class="page"><${Trouble} fault=${loaded.fault} onAgain=${loaded.again} /></div>`;
  if (!loaded.value && !loaded.missing) return html`<div class="page"><${Spinner} /></div>`;
  const list = loaded.value?.models || [];
  if (!list.length) return html`<${Empty} icon="server" title="This server routes to no other"><p><code>weir route --config router.yml</code> serves the models of other servers: weir, vLLM, SGLang, llama-server, Triton.</p><//>`;
  return html`<div class="page stack"><h1>Replicas</h1>${list.map((m) => html`<section key=${`${m.model}/${m.version}`} class="stack" aria-label=${m.model}><div class="row"><h2>${m.model}</h2>${m.version && html`<span class="id">${m.version}</span>`}<${Badge}>${m.policy}<//></div>
    <${Table} caption=${`Replicas of ${m.model}`} columns=${columns} rows=${m.replicas} rowKey=${(r) => r.replica} /></section>`)}</div>`;
}
