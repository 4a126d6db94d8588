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
    { name: "bytes", title: "Memory", number: true, cell: (m) => (m.bytes ? bytes(m.bytes) : "–") }, { name: "requests", title: "Requests", number: true, cell: (m) => `${count(m.requests)}${m.waiting ? ` (${count(m.waiting)} wait)` : ""}` },
    { name: "last_use", title: "Last used", cell: (m) => (m.last_use ? moment(Date.parse(m.last_use)) : "–") },
    { name: "do", title: "Changes", sort: false, cell: (m) => html`<div class="row">${actions(m).map((a) => html`<${Button} key=${a} small onClick=${() => askFor({ action: a, model: m })}>${changes[a][0]}<//>`)}</div>` },
  ];
  return html`<div class="page stack"><h1>Models</h1>
    <p class="hint">Versions come from the configuration, the models folder and deployments. <code>weir doctor MODEL</code> forecasts memory and speed before a load.</p>
    <${Table} caption="Versions of models" columns=${columns} rows=${list} rowKey=${(m) => `${m.name}/${m.version}`} empty=${html`<p class="hint">There are no models.</p>`} />
    <${Confirm} title=${asked ? changes[asked.action][0] : ""} open=${asked !== null} onClose=${() => askFor(null)} yes=${asked ? changes[asked.action][0] : ""} busy=${change.busy}
      onYes=${async () => { const { action, model } = asked; askFor(null); await change.run(`admin/models/${action}`, { body: { name: model.name, version: action === "rollback" ? "" : model.version } }, `${changes[action][0]}: ${model.name}`); }}>
      <p>${asked && changes[asked.action][1](asked.model)}</p><//></div>`;
}

function actions(m) {
  const list = [m.state === "loaded" || m.state === "loading" ? "unload" : "load"];
  if (!m.answers) list.push("alias");
  if (m.last) list.push("rollback");
  return list;
}
