// The audit log: who changed what and when, the newest first.
import { html, useState } from "../lib/html.js";
import { Button, Empty, Spinner, Table, TextField, Trouble } from "../lib/ui.js";
import { useLoad } from "../lib/hooks.js";
import { ask } from "../lib/api.js";

const columns = [
  { name: "time", title: "When", cell: (e) => new Date(e.time).toLocaleString() }, { name: "actor", title: "Who", cell: (e) => html`<span class="id">${e.actor}</span>` }, { name: "action", title: "What" },
  { name: "object", title: "On what", cell: (e) => html`<span class="id">${e.object}</span>` }, { name: "details", title: "More", sort: false, cell: (e) => html`<span class="id muted">${e.details || ""}</span>` },
];

export function Audit() {
  const [before, show] = useState(0), [text, find] = useState("");
  const loaded = useLoad((signal) => ask(`admin/audit${before ? `?before=${before}` : ""}`, { signal }), [before]);
  if (loaded.fault?.status === 404) return html`<${Empty} icon="audit" title="No audit log is kept"><p>A server with a store keeps one: <code>weir serve --store sqlite:weir.db</code>.</p><//>`;
  if (loaded.fault) return html`<div class="page"><${Trouble} fault=${loaded.fault} onAgain=${loaded.again} /></div>`;
  if (!loaded.value) return html`<div class="page"><${Spinner} /></div>`;
  const list = loaded.value.entries, rows = list.filter((e) => [e.actor, e.action, e.object, e.details].some((v) => (v || "").includes(text)));
  return html`<div class="page stack"><h1>Audit log</h1><p class="hint">Each entry holds the hash of the one before it; <code>weir audit verify</code> checks the chain.</p>
    <${TextField} label="Of these" hint="Shows the entries with this text" value=${text} onValue=${find} /><${Table} caption="Entries of the audit log" columns=${columns} rows=${rows} rowKey=${(e) => e.sequence} empty=${html`<p class="hint">There is no such entry.</p>`} />
    <div class="row">${before > 0 && html`<${Button} onClick=${() => show(0)}>Newest<//>`}${list.length > 0 && list[list.length - 1].sequence > 1 && html`<${Button} onClick=${() => show(list[list.length - 1].sequence)}>Older<//>`}</div></div>`;
}
