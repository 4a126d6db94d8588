// Classical models to try: their inputs come from their metadata.
import { html, useState, useEffect } from "../lib/html.js";
import { ask } from "../lib/api.js";
import { Button, Select, Empty, Trouble, Spinner, TextArea, Badge } from "../lib/ui.js";
import { useLoad, useStored } from "../lib/hooks.js";
import { duration } from "../lib/format.js";
import { CodeDialog } from "./chat.js";
import { useTry } from "./vectors.js";

const maxCells = 64; // of a row; wider inputs are typed as JSON
const isText = (t) => t === "BYTES";

// columnsOf are the cells of one row of an input; null where its shape is no table.
function columnsOf(input) {
  const [, ...inner] = input.shape || [];
  if (inner.length > 1 || (inner[0] ?? 1) < 1 || (inner[0] ?? 1) > maxCells) return null;
  const names = input.parameters?.feature_names || input.feature_names || [];
  return Array.from({ length: inner[0] ?? 1 }, (_, i) => String(names[i] ?? ((inner[0] ?? 1) > 1 ? `${i + 1}` : input.name)));
}

function valueOf(text, type) {
  if (isText(type)) return text;
  const t = text.trim();
  if (t === "") return null;
  if (type === "BOOL") return /^(true|1)$/i.test(t);
  const n = Number(t);
  if (Number.isNaN(n) && t.toLowerCase() !== "nan") throw new Error(`${t} is not a number`);
  return Number.isNaN(n) ? null : n;
}

function requestOf(inputs, rows, free) {
  return { inputs: inputs.map((input) => {
    const columns = columnsOf(input);
    if (!columns) {
      const data = JSON.parse(free[input.name] || "[]");
      const shape = []; for (let v = data; Array.isArray(v); v = v[0]) shape.push(v.length);
      return { name: input.name, datatype: input.datatype, shape, data: data.flat(Infinity) };
    }
    const data = rows.flatMap((r) => columns.map((_, i) => valueOf(r[`${input.name} ${i}`] ?? "", input.datatype)));
    return { name: input.name, datatype: input.datatype, shape: [rows.length, ...(input.shape.length > 1 ? [columns.length] : [])], data };
  }) };
}

function Outputs({ outputs, took }) {
  return html`<section class="stack" aria-label="Outputs"><p class="hint">Answered in ${duration(took)}</p>${outputs.map((o) => {
    const rows = o.shape[0] || 0, width = o.shape.slice(1).reduce((a, b) => a * b, 1), data = o.data || [];
    return html`<div key=${o.name} class="table" role="region" aria-label=${`Output ${o.name}`} tabindex="0"><table><caption><code>${o.name}</code> <span class="hint">${o.datatype} ${JSON.stringify(o.shape)}</span></caption>
      <thead><tr><th scope="col">Row</th>${Array.from({ length: Math.min(width, 64) }, (_, i) => html`<th scope="col" class="number">${width > 1 ? i : "value"}</th>`)}</tr></thead>
      <tbody>${Array.from({ length: rows }, (_, r) => { const line = data.slice(r * width, r * width + Math.min(width, 64)), high = width > 1 && typeof line[0] === "number" ? Math.max(...line) : null;
        return html`<tr><th scope="row">${r + 1}</th>${line.map((v) => html`<td class="number">${v === high ? html`<${Badge} kind="tint">${show(v)}<//>` : show(v)}</td>`)}</tr>`; })}</tbody></table></div>`;
  })}</section>`;
}
const show = (v) => (typeof v === "number" ? (Number.isInteger(v) ? String(v) : Number(v.toPrecision(6)).toString()) : v === null ? "missing" : String(v));

function Form({ model }) {
  const meta = useLoad((signal) => ask(`v2/models/${encodeURIComponent(model)}`, { signal }), [model]);
  const [rows, set] = useState([{}]), [free, setFree] = useState({}), [state, go] = useTry(), [code, showCode] = useState(false), [bad, setBad] = useState("");
  useEffect(() => { set([{}]); setFree({}); setBad(""); }, [model]);
  if (meta.fault) return html`<${Trouble} fault=${meta.fault} onAgain=${meta.again} />`;
  if (!meta.value || meta.value.name !== model) return html`<${Spinner} />`;
  const inputs = meta.value.inputs || [], grids = inputs.filter(columnsOf), path = `v2/models/${encodeURIComponent(model)}/infer`;
  const build = () => requestOf(inputs, rows, free);
  const put = (r, name, value) => set(rows.map((row, i) => (i === r ? { ...row, [name]: value } : row)));
  return html`<p class="hint">${[meta.value.platform, meta.value.versions?.length && `version ${meta.value.versions.join(", ")}`].filter(Boolean).join(" · ")}. An empty number is a missing value.</p>
    <form class="card stack" onSubmit=${(e) => { e.preventDefault(); try { setBad(""); go(path, build()); } catch (err) { setBad(err.message); } }}>
    ${grids.length > 0 && html`<div class="table" role="region" aria-label="Rows" tabindex="0"><table class="grid"><caption class="unseen">Inputs by row</caption><thead><tr><th scope="col">Row</th>${grids.flatMap((input) => columnsOf(input).map((name) => html`<th scope="col">${name}<br /><span class="hint">${columnsOf(input).length > 1 ? `${input.name} ` : ""}${input.datatype}</span></th>`))}<td></td></tr></thead>
      <tbody>${rows.map((row, r) => html`<tr><th scope="row">${r + 1}</th>${grids.flatMap((input) => columnsOf(input).map((name, i) => { const k = `${input.name} ${i}`; return html`<td><input type="text" inputmode=${isText(input.datatype) ? "text" : "decimal"} aria-label=${`${input.name} ${name}, row ${r + 1}`} value=${row[k] ?? ""} onInput=${(e) => put(r, k, e.target.value)} /></td>`; }))}
        <td>${rows.length > 1 && html`<${Button} kind="quiet" small icon="trash" label=${`Remove row ${r + 1}`} onClick=${() => set(rows.filter((_, i) => i !== r))} />`}</td></tr>`)}</tbody></table></div>`}
    ${inputs.filter((i) => !columnsOf(i)).map((input) => html`<${TextArea} key=${input.name} label=${`${input.name} (${input.datatype} ${JSON.stringify(input.shape)}), as JSON`} rows="4" spellcheck=${false} value=${free[input.name] ?? ""} onValue=${(v) => setFree({ ...free, [input.name]: v })} placeholder="[[0.1, 0.2]]" />`)}
    ${bad && html`<p class="hint bad" role="alert">${bad}</p>`}
    <div class="row end">${grids.length > 0 && html`<${Button} icon="plus" kind="quiet" disabled=${rows.length >= 20} onClick=${() => set([...rows, { ...rows.at(-1) }])}>Row<//>`}<${Button} icon="code" kind="quiet" onClick=${() => showCode(true)}>Code<//>
      <button class="button primary" type="submit" disabled=${state.busy}>${state.busy ? "Computing…" : "Predict"}</button></div></form>
    ${state.fault && html`<${Trouble} fault=${state.fault} />`}${state.value && html`<${Outputs} outputs=${state.value.outputs || []} took=${state.took} />`}
    ${code && html`<${CodeDialog} path=${path} body=${build} onClose=${() => showCode(false)} />`}`;
}

export function Predict() {
  const list = useLoad((signal) => ask("v2/models", { signal }));
  const [wanted, want] = useStored("weir.playground.predict", "");
  const names = (list.value?.models || []).map((m) => (typeof m === "string" ? m : m.name)), model = names.includes(wanted) ? wanted : names[0];
  return html`<div class="page"><header><h1>Predict</h1><p class="muted">Rows for models of XGBoost, LightGBM, CatBoost and ONNX.</p></header>
    ${list.fault ? html`<${Trouble} fault=${list.fault} onAgain=${list.again} />` : !list.value ? html`<${Spinner} />` : !model ? html`<${Empty} icon="tree" title="No classical model is served here"><p>Serve one: <code>weir serve --classic churn=model.ubj</code></p><//>`
    : html`<${Select} label="Model" value=${model} onValue=${want} options=${names} /><${Form} key=${model} model=${model} />`}</div>`;
}
