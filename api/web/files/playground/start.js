// What is served, and what else this machine could run.
import { html } from "../lib/html.js";
import { ask } from "../lib/api.js";
import { Badge, CopyButton, Table, Trouble, Spinner } from "../lib/ui.js";
import { useLoad } from "../lib/hooks.js";
import { bytes, count } from "../lib/format.js";

const uses = { generate: "chat", embedding: "embeddings", rerank: "rerank", classify: "labels", decide: "decisions" };

function fit(m) {
  if (m.fits === true) return html`<${Badge} kind="good">fits<//>`;
  if (m.fits === false) return html`<${Badge} kind="bad">too large<//>`;
  return html`<${Badge}>not known<//>`;
}

export function Start({ models, builtIn }) {
  const catalog = useLoad((signal) => ask("playground/catalog", { signal }));
  const list = catalog.value;
  return html`<div class="page"><header><h1>Models</h1></header>
    ${builtIn && html`<p class="note">This server runs the small model that weir has inside. It knows a few answers about weir, and is there to show that everything works. Pick a model below for more.</p>`}
    <section class="stack" aria-label="Served here"><h2>Served here</h2><${Table} caption="Models that are served here" rows=${[...models.values()]} rowKey=${(m) => m.id} columns=${[{ name: "id", title: "Model", cell: (m) => html`<code>${m.id}</code>` },
      { name: "kind", title: "For", cell: (m) => uses[m.kind] || m.kind || "another server's" }, { name: "max_model_len", title: "Context", number: true, cell: (m) => count(m.max_model_len) }, { name: "state", title: "State", cell: (m) => m.state || "–" }]} /></section>
    <section class="stack" aria-label="What else this machine can run"><h2>What else this machine can run</h2>
      ${catalog.fault ? (catalog.fault.status === 404 ? html`<p class="muted">This server tells nothing of it. On its machine, <code>weir doctor</code> does.</p>` : html`<${Trouble} fault=${catalog.fault} onAgain=${catalog.again} />`) : !list ? html`<${Spinner} />` : html`
      <p class="muted">Models for ${bytes(list.memory_bytes)} of memory. The command brings the model in and serves it; type it on the server's machine.</p>
      <${Table} caption="Models of the catalog" rows=${list.models} rowKey=${(m) => m.name} columns=${[
        { name: "name", title: "Model", cell: (m) => html`<strong>${m.title}</strong><br /><span class="hint">${m.about}</span>` }, { name: "bytes", title: "Download", number: true, cell: (m) => bytes(m.bytes) },
        { name: "needs_bytes", title: "Memory", number: true, cell: (m) => bytes(m.needs_bytes) }, { name: "fits", title: "Here", cell: fit },
        { name: "command", title: "Command", sort: false, cell: (m) => html`<span class="command"><code>${m.command}</code><${CopyButton} text=${m.command} label=${`Copy the command for ${m.title}`} /></span>` }]} />`}</section></div>`;
}
