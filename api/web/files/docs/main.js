// The page that shows /openapi.json.
import { html, render, useState } from "../lib/html.js";
import { ask } from "../lib/api.js";
import { useLoad } from "../lib/hooks.js";
import { Shell, Spinner, Trouble, Guard, Disclosure, TextField, Badge, CopyButton, Empty } from "../lib/ui.js";

const deepest = 5;
const methods = ["get", "post", "put", "patch", "delete"];

/** A schema with its references followed once. */
const follow = (doc, schema) => (schema?.$ref ? { name: schema.$ref.split("/").pop(), ...doc.components.schemas[schema.$ref.split("/").pop()] } : schema || {});

/** What a value is, in a few words. */
function kindOf(doc, schema) {
  const s = follow(doc, schema);
  if (s.enum) return s.enum.length === 1 ? JSON.stringify(s.enum[0]) : s.enum.map((v) => JSON.stringify(v)).join(" | ");
  if (s.anyOf) return s.anyOf.map((o) => kindOf(doc, o)).join(" or ");
  if (s.type === "array") return `list of ${kindOf(doc, s.items)}`;
  const range = s.minimum !== undefined ? ` ${s.minimum} to ${s.maximum}` : "";
  return (s.name || s.type || "any value") + range;
}

/** The objects inside of a value, whose fields are shown below it. */
function objects(doc, schema) {
  const s = follow(doc, schema);
  if (s.properties) return [s];
  if (s.type === "array") return objects(doc, s.items);
  return (s.anyOf || []).flatMap((o) => objects(doc, o));
}

function Fields({ doc, schema, depth = 0, seen = [] }) {
  const all = objects(doc, schema).filter((s) => !seen.includes(s.name));
  if (!all.length || depth > deepest) return null;
  return all.map((s) => html`<ul class="fields">${Object.entries(s.properties).sort(([a], [b]) => needed(s, b) - needed(s, a) || a.localeCompare(b)).map(([name, value]) => html`<li key=${name}>
    <code>${name}</code><span class="kind">${kindOf(doc, value)}</span>${needed(s, name) && html`<${Badge}>needed<//>`} ${follow(doc, value).description || ""}
    <${Fields} doc=${doc} schema=${value} depth=${depth + 1} seen=${s.name ? [...seen, s.name] : seen} /></li>`)}</ul>`);
}
const needed = (s, name) => (s.required?.includes(name) ? 1 : 0);

function curl(doc, path, method, o) {
  const body = o.requestBody?.content?.["application/json"];
  const lines = [`curl ${location.origin}${path}${method === "get" ? "" : ` -X ${method.toUpperCase()}`}`];
  if (!o.security || o.security.length) lines.push(`-H "Authorization: Bearer $KEY"`);
  if (body) {
    const s = follow(doc, body.schema);
    const sample = Object.fromEntries((s.required || []).map((name) => [name, example(doc, s.properties[name])]));
    lines.push(`-H "Content-Type: application/json"`, `-d '${JSON.stringify(sample)}'`);
  }
  return lines.join(" \\\n  ");
}

function example(doc, schema, depth = 0) {
  const s = follow(doc, schema);
  if (s.enum) return s.enum.includes("user") ? "user" : s.enum[0];
  if (s.anyOf) return example(doc, s.anyOf[0], depth);
  if (s.type === "array") return depth > deepest ? [] : [example(doc, s.items, depth + 1)];
  if (s.type === "object") return Object.fromEntries([...(s.required || []), ...(s.properties?.content && s.properties.role ? ["content"] : [])].map((n) => [n, example(doc, s.properties[n], depth + 1)]));
  return { string: "…", integer: 1, number: 1, boolean: true }[s.type] ?? null;
}

function Operation({ doc, path, method, o, parameters }) {
  const [open, set] = useState(false);
  const body = Object.entries(o.requestBody?.content || {})[0], answer = Object.entries(o.responses["200"]?.content || {});
  return html`<${Disclosure} class="operation" open=${open} onToggle=${set} title=${html`<span class="method">${method.toUpperCase()}</span><code>${path}</code><span class="said">${o.summary}</span>`}>${open && html`
    ${o.description && html`<p>${o.description}</p>`}
    ${parameters.length > 0 && html`<section><h3>Parameters</h3><ul class="fields">${parameters.map((p) => html`<li key=${p.name}><code>${p.name}</code>
      <span class="kind">${p.in}, ${kindOf(doc, p.schema)}</span>${p.required && html`<${Badge}>needed<//>`} ${p.description || ""}</li>`)}</ul></section>`}
    ${body && html`<section><h3>Body, ${body[0]}</h3><${Fields} doc=${doc} schema=${body[1].schema} /></section>`}
    <section><h3>Answer, ${answer.map(([kind]) => kind).join(" or ")}</h3><${Fields} doc=${doc} schema=${answer[0]?.[1].schema} /></section>
    <section><h3>Errors</h3><ul class="fields">${Object.entries(o.responses).filter(([status]) => status !== "200").map(([status, r]) => html`<li key=${status}><code>${status}</code>
      <span class="kind">${doc.components.responses[r.$ref.split("/").pop()].description}</span></li>`)}</ul></section>
    <pre class="code" tabindex="0"><code>${curl(doc, path, method, o)}</code></pre><${CopyButton} text=${curl(doc, path, method, o)} />`}<//>`;
}

/** All operations by group. */
function grouped(doc) {
  const groups = new Map(doc.tags.map((t) => [t.name, { ...t, operations: [] }]));
  for (const [path, item] of Object.entries(doc.paths)) {
    for (const method of methods.filter((m) => item[m])) {
      const o = item[method];
      groups.get(o.tags?.[0])?.operations.push({ path, method, o, parameters: [...(item.parameters || []), ...(o.parameters || [])] });
    }
  }
  return [...groups.values()];
}

function Page({ doc }) {
  const [word, search] = useState("");
  const wanted = (x) => !word || `${x.method} ${x.path} ${x.o.summary}`.toLowerCase().includes(word.toLowerCase());
  const groups = grouped(doc).map((g) => ({ ...g, operations: g.operations.filter(wanted) })).filter((g) => g.operations.length);
  return html`<div class="page stack"><header><h1>The API of this server</h1><p class="muted">weir ${doc.info.version} · <a href="../openapi.json">openapi.json</a> (OpenAPI ${doc.openapi})</p></header>
    <${TextField} label="Find a path" value=${word} onValue=${search} placeholder="chat" />
    ${groups.length ? groups.map((g) => html`<section key=${g.name} class="card"><h2>${g.name}</h2><p class="hint">${g.description}</p>
      ${g.operations.map((x) => html`<${Operation} key=${x.method + x.path} doc=${doc} ...${x} />`)}</section>`) : html`<${Empty} title="No path has this word" />`}</div>`;
}

function App() {
  const doc = useLoad((signal) => ask("openapi.json", { signal }));
  return html`<${Shell} name="API" nav=${[["paths", "Paths", "inbox"]]} current="paths"><${Guard}>
    ${doc.fault ? html`<div class="page"><${Trouble} fault=${doc.fault} onAgain=${doc.again} /></div>` : doc.value ? html`<${Page} doc=${doc.value} />` : html`<${Spinner} />`}<//><//>`;
}

render(html`<${App} />`, document.getElementById("app"));
