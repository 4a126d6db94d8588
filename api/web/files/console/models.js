// Versions of models: what is in memory, which one answers, and the changes that an operator makes.
import { html, useState } from "../lib/html.js";
import { Badge, Button, Confirm, Empty, Spinner, Table, Trouble } from "../lib/ui.js";
import { bytes, count, moment } from "../lib/format.js";
import { useChange, usePoll } from "./poll.js";

const stateKind = { loaded: "good", loading: "tint", leaving: "warn", unloaded: "warn" };

// What a change does, as the question before it.
const changes = {
  load: ["Load", (m) => `${m.name} ${short(m.version)} is read into memory, as far as the budget for models allows.`],
  unload: ["Unload", (m) => `${m.name} ${short(m.version)} leaves memory once its requests have ended. New requests for it are refused until it is loaded again.`],
  alias: ["Let it answer", (m) => `Requests for ${m.name} are answered by version ${short(m.version)} from now on. Those that run end on the version that they have.`],
  rollback: ["Roll back", (m) => `The version of ${m.name} that answered before answers again.`],
};

const fitKind = { yes: ["good", "fits"], after_unloading: ["warn", "fits once others are unloaded"], no: ["bad", "does not fit"], unknown: ["", "memory not known"] };

// What a version takes and gives, by its file and the settings: what weir doctor says before a load.
function Forecast({ of: f, loaded }) {
  if (!f) return html`<span class="muted">–</span>`;
  const [kind, words] = fitKind[f.fits] || fitKind.unknown;
  const needs = f.weight_bytes + f.kv_cache_bytes, free = f.memory_budget_bytes - f.memory_taken_bytes;
  return html`<div class="forecast">${!loaded && html`<span><${Badge} kind=${kind}>${words}<//></span>`}
    <span class="numbers">${bytes(f.weight_bytes)} weights${f.text_encoder ? "" : ` + ${bytes(f.kv_cache_bytes)} KV cache${f.kv_cache_dtype ? ` (${f.kv_cache_dtype})` : ""}`}</span>
    ${!loaded && f.memory_budget_bytes > 0 && html`<span class="hint">${bytes(needs)} of ${bytes(Math.max(0, free))} left</span>`}
    ${f.text_encoder ? html`<span class="hint">up to ${count(f.max_model_len)} tokens</span>` : html`<span class="hint">${sequences(f)}</span>`}</div>`;
}

// How many requests the KV cache holds at once.
function sequences(f) {
  const full = `${count(f.sequences_of_full_length)} of ${count(f.max_model_len)} tokens`;
  return f.max_model_len > 2048 ? `sequences at once: ${count(f.sequences_of_2048_tokens)} of 2,048 tokens, ${full}` : `sequences at once: ${full}`;
}

const short = (version) => version.slice(0, 12);

export function Models() {
  const loaded = usePoll("admin/models"), [asked, askFor] = useState(null), change = useChange(loaded.again);
  if (loaded.missing) return html`<${Empty} icon="box" title="This server manages no models"><p>It routes requests to others: see Replicas.</p><//>`;
  if (loaded.fault && !loaded.value) return html`<div class="page"><${Trouble} fault=${loaded.fault} onAgain=${loaded.again} /></div>`;
  if (!loaded.value) return html`<div class="page"><${Spinner} /></div>`;
  const list = loaded.value.models || [];
  const columns = [
    { name: "name", title: "Model" }, { name: "version", title: "Version", cell: (m) => html`<span class="id" title=${m.version}>${short(m.version)}</span> ${m.answers && html`<${Badge} kind="good">answers<//>`} ${m.last && html`<${Badge}>answered before<//>`} ${m.pinned && html`<${Badge}>pinned<//>`}` },
    { name: "state", title: "State", cell: (m) => html`<${Badge} kind=${stateKind[m.state] || ""}>${m.state}<//>${m.error && html`<p class="hint bad">${m.error}</p>`}` },
    { name: "bytes", title: "Memory", sort: (m) => m.bytes, cell: (m) => html`<${Forecast} of=${m.forecast} loaded=${m.state === "loaded"} />` }, { name: "requests", title: "Requests", number: true, cell: (m) => `${count(m.requests)}${m.waiting ? ` (${count(m.waiting)} wait)` : ""}` },
    { name: "last_use", title: "Last used", cell: (m) => (m.last_use ? moment(Date.parse(m.last_use)) : "–") },
    { name: "do", title: "Changes", sort: false, cell: (m) => html`<div class="row">${actions(m).map((a) => html`<${Button} key=${a} small onClick=${() => askFor({ action: a, model: m })}>${changes[a][0]}<//>`)}</div>` },
  ];
  return html`<div class="page stack"><h1>Models</h1>
    <p class="hint">Versions come from the configuration, the models folder and deployments. What is not loaded has a forecast of its memory; <code>weir doctor MODEL</code> forecasts its speed, too.</p>
    <${Table} caption="Versions of models" columns=${columns} rows=${list} rowKey=${(m) => `${m.name}/${m.version}`} empty=${html`<p class="hint">There are no models.</p>`} />
    <${Confirm} title=${asked ? changes[asked.action][0] : ""} open=${asked !== null} onClose=${() => askFor(null)} yes=${asked ? changes[asked.action][0] : ""} busy=${change.busy}
      onYes=${async () => { const { action, model } = asked; askFor(null); await change.run(`admin/models/${action}`, { body: { name: model.name, version: action === "rollback" ? "" : model.version } }, `${changes[action][0]}: ${model.name}`); }}>
      <p>${asked && changes[asked.action][1](asked.model)}</p>${asked?.action === "load" && html`<${Forecast} of=${asked.model.forecast} />`}<//></div>`;
}

function actions(m) {
  const list = [m.state === "loaded" || m.state === "loading" ? "unload" : "load"];
  if (!m.answers) list.push("alias");
  if (m.last) list.push("rollback");
  return list;
}
