// Classical models: how far what they get and give has moved from their reference profile.
import { html } from "../lib/html.js";
import { Badge, Disclosure, Empty, Spinner, Table, Trouble } from "../lib/ui.js";
import { Bars } from "../lib/chart.js";
import { count } from "../lib/format.js";
import { usePoll } from "./poll.js";

const stateKind = { drifting: "bad", steady: "good" };

const columns = [
  { name: "name", title: "Column" }, { name: "kind", title: "Kind" }, { name: "state", title: "State", cell: (c) => html`<${Badge} kind=${stateKind[c.state] || ""}>${c.state}<//>` },
  { name: "psi", title: "PSI", number: true, sort: (c) => c.distance.psi, cell: (c) => c.distance.psi.toFixed(3) }, { name: "js", title: "JS", number: true, sort: (c) => c.distance.js, cell: (c) => c.distance.js.toFixed(3) }, { name: "ks", title: "KS", number: true, sort: (c) => c.distance.ks, cell: (c) => c.distance.ks.toFixed(3) },
  { name: "missing", title: "Missing", number: true, sort: (c) => c.missing.now, cell: (c) => `${(100 * c.missing.now).toFixed(1)} % (${(100 * c.missing.reference).toFixed(1)} %)` },
];

function Column({ column: c }) {
  const bars = c.bins.flatMap((b) => [{ label: `${b.label}, reference`, value: b.reference }, { label: `${b.label}, now`, value: b.now, mark: true }]);
  return html`<${Disclosure} title=${html`${c.name} <${Badge} kind=${stateKind[c.state] || ""}>${c.state}<//>`} open=${c.state === "drifting"}><div class="two">
    <${Bars} label="Shares" unit="by bin" legend=${["reference", "now"]} bars=${bars} x=${[c.bins[0]?.label || "", c.bins[c.bins.length - 1]?.label || ""]} format=${(v) => `${(100 * v).toFixed(1)} %`} />
    <${Bars} label="PSI" unit="by window, the oldest first" bars=${(c.psi_history || []).map((v, i) => ({ label: `window ${i + 1}`, value: v }))} x=${["", "now"]} format=${(v) => v.toFixed(3)} /></div><//>`;
}

export function Drift() {
  const loaded = usePoll("admin/drift", 10);
  if (loaded.fault && !loaded.value && !loaded.missing) return html`<div class="page"><${Trouble} fault=${loaded.fault} onAgain=${loaded.again} /></div>`;
  if (!loaded.value && !loaded.missing) return html`<div class="page"><${Spinner} /></div>`;
  const list = loaded.value?.models || [];
  if (!list.length) return html`<${Empty} icon="plot" title="No classical model is watched for drift"><p>A version with a reference profile is: <code>weir models import MODEL NAME:TAG --profile profile.json</code>.</p><//>`;
  return html`<div class="page stack"><h1>Classical models</h1>${list.map((m) => html`<section key=${`${m.model}/${m.version}`} class="card stack" aria-label=${m.model}><div class="row"><h2>${m.model}</h2><span class="id">${m.version}</span>
    <${Badge} kind=${m.drifting ? "bad" : "good"}>${m.drifting ? (m.drifting === 1 ? "1 column drifts" : `${count(m.drifting)} columns drift`) : "steady"}<//><span class="hint">${m.judged ? `${count(m.rows)} rows in the last window` : `${count(m.window_rows)} of ${count(m.window_min_rows)} rows until the first judgement`}</span></div>
    <${Table} caption=${`Columns of ${m.model}`} columns=${columns} rows=${m.columns} rowKey=${(c) => `${c.kind}/${c.name}`} />${m.columns.slice(0, 60).map((c) => html`<${Column} key=${`${c.kind}/${c.name}`} column=${c} />`)}</section>`)}</div>`;
}
