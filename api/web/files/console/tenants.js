// Tenants: what they use, their limits and keys. A new key is shown once.
import { html, useState } from "../lib/html.js";
import { ask } from "../lib/api.js";
import { useLoad } from "../lib/hooks.js";
import { Badge, Button, Confirm, CopyButton, Dialog, Empty, Select, Spinner, Stat, Stats, Table, TextField, Trouble } from "../lib/ui.js";
import { count, duration, moment } from "../lib/format.js";
import { useChange, usePoll } from "./poll.js";

// The month's usage by tenant, or by another field of its rows.
function usageOf(report, field = "tenant") {
  const all = new Map();
  for (const r of report?.rows || []) {
    const u = all.get(r[field]) || { requests: 0, input: 0, cached: 0, output: 0, compute: 0, cost: 0 };
    u.requests += r.requests || 0; u.input += r.input_tokens || 0; u.cached += r.cached_tokens || 0; u.output += r.output_tokens || 0; u.compute += Number(r.compute_seconds) || 0; u.cost += Number(r.cost) || 0;
    all.set(r[field], u);
  }
  return all;
}

const origins = { file: "configuration", api: "API", keys: "keys alone" };

// Those that were made, and those that weir keys create has named and that have a key.
function withKeys(made, keys) {
  const names = new Set(made.map((t) => t.name)), list = [...made];
  for (const k of keys) if (k.state === "live" && !names.has(k.tenant)) { names.add(k.tenant); list.push({ name: k.tenant, origin: "keys" }); }
  return list;
}

export function Tenants({ live }) {
  const loaded = usePoll("admin/tenants", 10), used = usePoll("admin/usage", 30), keys = usePoll("admin/keys", 30);
  if (loaded.missing) return html`<${Empty} icon="people" title="This server has no tenants"><p>Name tenants in the configuration, or start the server with a store: <code>weir keys create NAME</code> makes the first key.</p><//>`;
  if (loaded.fault && !loaded.value) return html`<div class="page"><${Trouble} fault=${loaded.fault} onAgain=${loaded.again} /></div>`;
  if (!loaded.value) return html`<div class="page"><${Spinner} /></div>`;
  const sums = usageOf(used.value), debts = new Map((live.now?.tenants || []).map((t) => [t.name, t]));
  const rows = withKeys(loaded.value.tenants || [], keys.value?.keys || []).map((t) => ({ ...t, used: sums.get(t.name) || {}, now: debts.get(t.name) || {} }));
  const columns = [
    { name: "name", title: "Tenant", cell: (t) => html`<a href=${`#/tenants/${encodeURIComponent(t.name)}`}>${t.name}</a>${t.error && html`<p class="hint bad">${t.error}</p>`}` }, { name: "origin", title: "From", cell: (t) => html`<${Badge}>${origins[t.origin]}<//>` },
    { name: "running", title: "Running", number: true, sort: (t) => t.now.running || 0, cell: (t) => count(t.now.running || 0) }, { name: "waiting", title: "Waiting", number: true, sort: (t) => t.now.waiting || 0, cell: (t) => count(t.now.waiting || 0) },
    { name: "debt", title: "Fairness debt", number: true, sort: (t) => t.now.fairness_debt_seconds || 0, cell: (t) => duration(1000 * (t.now.fairness_debt_seconds || 0)) },
    { name: "requests", title: "Requests this month", number: true, sort: (t) => t.used.requests || 0, cell: (t) => count(t.used.requests || 0) }, { name: "tokens", title: "Tokens in / out", number: true, sort: (t) => t.used.output || 0, cell: (t) => `${count(t.used.input || 0)} / ${count(t.used.output || 0)}` },
    { name: "compute", title: "Computed", number: true, sort: (t) => t.used.compute || 0, cell: (t) => duration(1000 * (t.used.compute || 0)) }, { name: "cost", title: "Cost", number: true, sort: (t) => t.used.cost || 0, cell: (t) => count(t.used.cost || 0) },
  ];
  return html`<div class="page stack"><h1>Tenants</h1><${Table} caption="Tenants" columns=${columns} rows=${rows} rowKey=${(t) => t.name} empty=${html`<p class="hint">There are no tenants yet. <code>weir keys create NAME</code> makes a key for one.</p>`} /></div>`;
}

const limitColumns = [
  { name: "limit", title: "Limit" }, { name: "model", title: "Model", cell: (l) => l.model || "all" }, { name: "used", title: "Used", number: true, cell: (l) => shown(l.used) }, { name: "value", title: "Of", number: true, cell: (l) => shown(l.value) },
  { name: "left", title: "Left", number: true, cell: (l) => shown(l.left) }, { name: "resets_at", title: "Whole again", cell: (l) => (l.resets_at ? moment(Date.parse(l.resets_at)) : "–") },
];
const shown = (v) => (typeof v === "number" ? count(v) : String(v ?? "–"));
const keyKind = { live: "good", expired: "warn", revoked: "bad" };

const useColumns = [
  { name: "model", title: "Model" }, { name: "requests", title: "Requests", number: true, cell: (r) => count(r.requests) }, { name: "input", title: "Tokens in", number: true, cell: (r) => count(r.input) },
  { name: "cached", title: "Of these cached", number: true, cell: (r) => count(r.cached) }, { name: "output", title: "Tokens out", number: true, cell: (r) => count(r.output) },
  { name: "compute", title: "Computed", number: true, cell: (r) => duration(1000 * r.compute) }, { name: "cost", title: "Cost", number: true, cell: (r) => count(r.cost) },
];

// What a tenant has in the engines now, and what it has used this month, by model.
function Use({ name, live }) {
  const used = usePoll(`admin/usage?tenant=${encodeURIComponent(name)}`, 30), now = (live.now?.tenants || []).find((t) => t.name === name) || {}, rows = [...usageOf(used.value, "model")].map(([model, u]) => ({ model, ...u }));
  return html`<section class="stack" aria-labelledby="use"><h2 id="use">Use</h2>
    <${Stats} label="Now"><${Stat} label="Running" value=${count(now.running || 0)} /><${Stat} label="Waiting" value=${count(now.waiting || 0)} /><${Stat} label="KV blocks" value=${count(now.kv_blocks || 0)} />
      <${Stat} label="Fairness debt" value=${duration(1000 * (now.fairness_debt_seconds || 0))} hint="Compute time that it has had beyond the least served tenant that waits" /><//>
    ${!used.missing && html`<${Table} caption="Use of this month" columns=${useColumns} rows=${rows} rowKey=${(r) => r.model} empty=${html`<p class="hint">It has used nothing this month.</p>`} />`}</section>`;
}

export function Tenant({ name, live }) {
  const tenant = useLoad((signal) => ask(`admin/tenants/${encodeURIComponent(name)}`, { signal }), [name]), keys = useLoad((signal) => ask(`admin/keys?tenant=${encodeURIComponent(name)}`, { signal }), [name]);
  const [made, show] = useState(null), [form, open] = useState(null), [gone, revoke] = useState(null), change = useChange(() => keys.again());
  const unmade = tenant.fault?.status === 404 && keys.value?.keys?.some((k) => k.state === "live");
  if (tenant.fault && !unmade && (tenant.fault.status !== 404 || keys.value || keys.fault)) return html`<div class="page"><${Trouble} fault=${tenant.fault} onAgain=${tenant.again} /></div>`;
  if (!tenant.value && !unmade) return html`<div class="page"><${Spinner} /></div>`;
  const t = unmade ? { name, origin: "keys" } : tenant.value, columns = [
    { name: "label", title: "Key", cell: (k) => html`${k.label} <span class="id muted">${k.id}</span>` }, { name: "scope", title: "Scope" }, { name: "state", title: "State", cell: (k) => html`<${Badge} kind=${keyKind[k.state] || ""}>${k.state}<//>` },
    { name: "created", title: "Made", cell: (k) => moment(Date.parse(k.created)) }, { name: "expires", title: "Ends", cell: (k) => (k.expires ? moment(Date.parse(k.expires)) : "never") }, { name: "last_used", title: "Last used", cell: (k) => (k.last_used ? moment(Date.parse(k.last_used)) : "–") },
    { name: "do", title: "Changes", sort: false, cell: (k) => k.state === "live" && html`<div class="row"><${Button} small disabled=${change.busy} onClick=${async () => { const n = await change.run(`admin/keys/${encodeURIComponent(k.id)}/rotate`, { body: {} }); if (n) show(n); }}>Rotate<//><${Button} small kind="danger" onClick=${() => revoke(k)}>Revoke<//></div>` },
  ];
  return html`<div class="page stack"><div class="row"><h1>${t.name}</h1><${Badge}>${origins[t.origin]}<//></div>${t.origin === "keys" && html`<p class="hint">It was not made: it has the settings of the entry <code>*</code> of the configuration, or no limits where there is none. <code>POST /admin/tenants</code> makes it.</p>`}${t.error && html`<${Trouble} title="It is not in force" fault=${{ message: t.error }} />`}
    <${Use} name=${t.name} live=${live} />
    <section class="stack" aria-labelledby="limits"><h2 id="limits">Limits</h2><${Table} caption=${`Limits of ${t.name}`} columns=${limitColumns} rows=${t.limits || []} empty=${html`<p class="hint">It has no limits of its own.</p>`} /></section>
    <section class="stack" aria-labelledby="keys"><div class="row"><h2 id="keys">Keys</h2><span class="grow"></span><${Button} icon="plus" onClick=${() => open({ label: "", scope: "inference", expires: "" })}>New key<//></div>
      ${keys.fault ? html`<${Trouble} fault=${keys.fault} onAgain=${keys.again} />` : html`<${Table} caption=${`Keys of ${t.name}`} columns=${columns} rows=${keys.value?.keys || []} rowKey=${(k) => k.id} empty=${html`<p class="hint">It has no keys in the store.</p>`} />`}</section>
    <${Dialog} title="New key" open=${form !== null} onClose=${() => open(null)} actions=${html`<${Button} kind="primary" disabled=${change.busy} onClick=${async () => {
      const n = await change.run("admin/keys", { body: { tenant: t.name, scope: form.scope, ...(form.label ? { label: form.label } : {}), ...(form.expires ? { expires: form.expires } : {}) } });
      if (n) { open(null); show(n); } }}>Make it<//>`}>${form && html`<${TextField} label="Label" hint="What it is for" value=${form.label} onValue=${(label) => open({ ...form, label })} />
      <${Select} label="Scope" value=${form.scope} options=${["inference", "admin"]} onValue=${(scope) => open({ ...form, scope })} /><${TextField} label="Ends after" hint="Such as 90d; empty is never" value=${form.expires} onValue=${(expires) => open({ ...form, expires })} />`}<//>
    <${Dialog} title="The key, once" open=${made !== null} onClose=${() => show(null)}>${made && html`<p>It is shown now and never again. ${made.old_key_ends ? `The old one ends ${moment(Date.parse(made.old_key_ends))}.` : ""}</p><div class="row"><code class="id">${made.key}</code><${CopyButton} text=${made.key} label="Copy the key" /></div>`}<//>
    <${Confirm} title="Revoke the key" open=${gone !== null} onClose=${() => revoke(null)} yes="Revoke" busy=${change.busy} onYes=${async () => { const k = gone; revoke(null); await change.run(`admin/keys/${encodeURIComponent(k.id)}`, { method: "DELETE" }, `${k.label || k.id} is revoked`); }}>
      <p>${gone && `Requests with ${gone.label || gone.id} are refused from now on. This cannot be undone.`}</p><//></div>`;
}
