// Components of all pages. Texts are children or attributes, so that none of them can be HTML.
import { html, useState, useEffect, useRef, useLayoutEffect, useErrorBoundary } from "./html.js";
import { Icon } from "./icons.js";
import { able, leave, offers } from "./signin.js";
export { Icon };

let ids = 0;
/** An id that is unique on the page, for labels. */
export function useId() {
  const ref = useRef(null);
  if (ref.current === null) ref.current = `w${++ids}`;
  return ref.current;
}

const join = (...names) => names.filter(Boolean).join(" ");

/** kind: "" | "primary" | "quiet" | "danger". label is needed where there is only an icon. */
export function Button({ kind = "", icon, label, children, class: extra, small, ...rest }) {
  return html`<button type="button" class=${join("button", kind, small && "small", icon && !children && "bare", extra)}
    aria-label=${label} title=${label} ...${rest}>${icon && html`<${Icon} name=${icon} />`}${children && html`<span>${children}</span>`}</button>`;
}

/** A labelled control; control(id, describedBy) draws it. */
export function Field({ label, hint, error, children, inline, class: extra }) {
  const id = useId();
  const told = error || hint ? `${id}-hint` : undefined;
  return html`<div class=${join("field", inline && "inline", extra)}>
    <label for=${id}>${label}</label>
    ${children(id, told)}
    ${(error || hint) && html`<p class=${error ? "hint bad" : "hint"} id=${told}>${error || hint}</p>`}
  </div>`;
}

export function TextField({ label, hint, error, value, onValue, inline, class: extra, ...rest }) {
  return html`<${Field} ...${{ label, hint, error, inline, class: extra }}>${(id, told) => html`<input type="text" id=${id} aria-describedby=${told}
    aria-invalid=${error ? "true" : undefined} value=${value} onInput=${(e) => onValue(e.target.value)} autocomplete="off" spellcheck=${false} ...${rest} />`}<//>`;
}

export function TextArea({ label, hint, error, value, onValue, class: extra, ...rest }) {
  return html`<${Field} ...${{ label, hint, error, class: extra }}>${(id, told) => html`<textarea id=${id} aria-describedby=${told}
    aria-invalid=${error ? "true" : undefined} value=${value} onInput=${(e) => onValue(e.target.value)} ...${rest}></textarea>`}<//>`;
}

/** value is a number or null, which is the server's default. */
export function NumberField({ label, hint, value, onValue, min, max, step = "any", placeholder, inline = true }) {
  return html`<${Field} ...${{ label, hint, inline }}>${(id, told) => html`<input type="number" id=${id} aria-describedby=${told} value=${value ?? ""} min=${min} max=${max} step=${step}
    placeholder=${placeholder} onInput=${(e) => onValue(e.target.value === "" || Number.isNaN(e.target.valueAsNumber) ? null : e.target.valueAsNumber)} />`}<//>`;
}

/** options: [value, label] or plain strings. */
export function Select({ label, hint, value, onValue, options, inline, ...rest }) {
  return html`<${Field} ...${{ label, hint, inline }}>${(id, told) => html`<select id=${id} aria-describedby=${told} value=${value} onChange=${(e) => onValue(e.target.value)} ...${rest}>
    ${options.map((o) => { const [v, text] = Array.isArray(o) ? o : [o, o]; return html`<option key=${v} value=${v} selected=${v === value}>${text}</option>`; })}
  </select>`}<//>`;
}

export function Switch({ label, hint, checked, onValue, disabled }) {
  const id = useId();
  return html`<div class="switch"><input type="checkbox" role="switch" id=${id} checked=${checked} disabled=${disabled} aria-describedby=${hint ? `${id}-hint` : undefined}
    onChange=${(e) => onValue(e.target.checked)} /><label for=${id}>${label}</label>${hint && html`<p class="hint" id=${`${id}-hint`}>${hint}</p>`}</div>`;
}

/** tabs: [id, label, count?]. The panel that is chosen follows with role=tabpanel and id=`${name}-panel`. */
export function Tabs({ name, tabs, value, onValue, label }) {
  const move = (e) => {
    const at = tabs.findIndex(([id]) => id === value);
    const to = { ArrowRight: at + 1, ArrowLeft: at - 1, Home: 0, End: tabs.length - 1 }[e.key];
    if (to === undefined) return;
    e.preventDefault();
    const [id] = tabs[(to + tabs.length) % tabs.length];
    onValue(id);
    e.currentTarget.querySelector(`[data-tab="${CSS.escape(id)}"]`)?.focus();
  };
  return html`<div class="tabs" role="tablist" aria-label=${label} onKeyDown=${move}>${tabs.map(([id, text, number]) => html`<button key=${id} type="button" role="tab" data-tab=${id}
    id=${`${name}-tab-${id}`} aria-selected=${String(id === value)} aria-controls=${id === value ? `${name}-panel` : undefined} tabindex=${id === value ? 0 : -1}
    onClick=${() => onValue(id)}>${text}${number !== undefined && html` <span class="badge">${number}</span>`}</button>`)}</div>`;
}

/** A part of a page that opens. */
export function Disclosure({ title, children, open, onToggle, class: extra }) {
  return html`<details class=${join("disclosure", extra)} open=${open} onToggle=${(e) => onToggle?.(e.currentTarget.open)}><summary><${Icon} name="right" /><span>${title}</span></summary>
    <div class="inside">${children}</div></details>`;
}

/** A modal dialog; the browser keeps the focus in it and gives it back. It shows toasts itself: those of the page lie below it. */
export function Dialog({ title, open, onClose, children, wide, actions }) {
  const ref = useRef(null), id = useId();
  useLayoutEffect(() => {
    const d = ref.current;
    if (open && !d.open) d.showModal();
    if (!open && d.open) d.close();
  }, [open]);
  return html`<dialog ref=${ref} class=${wide ? "wide" : ""} aria-labelledby=${id} onClose=${onClose} onClick=${(e) => e.target === ref.current && onClose()}>
    ${open && html`<div class="sheet"><header><h2 id=${id}>${title}</h2><${Button} kind="quiet" icon="close" label="Close" onClick=${onClose} /></header>
    <div class="body">${children}</div>${actions && html`<footer>${actions}</footer>`}</div><${Toasts} />`}
  </dialog>`;
}

/** Asks before something that cannot be undone. */
export function Confirm({ title, open, onClose, onYes, yes, children, busy }) {
  return html`<${Dialog} title=${title} open=${open} onClose=${onClose} actions=${html`<${Button} onClick=${onClose}>Cancel<//>
    <${Button} kind="danger" disabled=${busy} onClick=${onYes}>${yes}<//>`}>${children}<//>`;
}

/** columns: {name, title, number?, sort?(row), cell?(row)}. rows are drawn up to limit, and more on demand. */
export function Table({ caption, columns, rows, rowKey, empty, limit = 100, onRow }) {
  const [order, setOrder] = useState(null);
  const [shown, show] = useState(limit);
  if (!rows.length) return empty || html`<${Empty} title="Nothing here" />`;
  const by = order && columns.find((c) => c.name === order.name);
  const sorted = by ? [...rows].sort((a, b) => order.way * compare(by.sort ? by.sort(a) : a[by.name], by.sort ? by.sort(b) : b[by.name])) : rows;
  return html`<div class="table" role="region" aria-label=${caption} tabindex="0"><table><caption class="unseen">${caption}</caption>
    <thead><tr>${columns.map((c) => html`<th key=${c.name} scope="col" class=${c.number ? "number" : ""} aria-sort=${order?.name === c.name ? (order.way > 0 ? "ascending" : "descending") : undefined}>
      ${c.sort === false ? c.title : html`<button type="button" onClick=${() => setOrder((o) => ({ name: c.name, way: o?.name === c.name ? -o.way : 1 }))}>${c.title}</button>`}</th>`)}</tr></thead>
    <tbody>${sorted.slice(0, shown).map((r, i) => html`<tr key=${rowKey ? rowKey(r) : i} class=${onRow ? "link" : ""} onClick=${onRow && (() => onRow(r))}>
      ${columns.map((c) => html`<td key=${c.name} class=${c.number ? "number" : ""}>${c.cell ? c.cell(r) : text(r[c.name])}</td>`)}</tr>`)}</tbody></table>
    ${sorted.length > shown && html`<p class="more"><${Button} small onClick=${() => show((n) => n + limit)}>Show ${Math.min(limit, sorted.length - shown)} more of ${sorted.length - shown}<//></p>`}
  </div>`;
}

const text = (v) => (v === undefined || v === null ? "–" : String(v));
const compare = (a, b) => (typeof a === "number" && typeof b === "number" ? a - b : String(a ?? "").localeCompare(String(b ?? ""), undefined, { numeric: true }));

/** What a view shows that has nothing yet. */
export function Empty({ icon = "inbox", title, children, actions }) {
  return html`<div class="empty"><${Icon} name=${icon} /><h2>${title}</h2>${children && html`<div>${children}</div>`}${actions && html`<p class="actions">${actions}</p>`}</div>`;
}

/** A fault in place: what happened, its code and request, and a way on. */
export function Trouble({ fault, onAgain, title = "That did not work" }) {
  return html`<div class="trouble" role="alert"><${Icon} name="warning" /><div><strong>${title}</strong><p>${fault.message}</p>
    ${(fault.code || fault.requestId || fault.retryAfter) ? html`<p class="hint">${[fault.status || "", fault.code, fault.retryAfter && `try again in ${fault.retryAfter} s`, fault.requestId && `request ${fault.requestId}`].filter(Boolean).join(" · ")}</p>` : ""}</div>
    ${onAgain && html`<${Button} small icon="again" onClick=${onAgain}>Try again<//>`}</div>`;
}

export function Spinner({ label = "Loading" }) { return html`<span class="spinner" role="status"><span class="unseen">${label}</span></span>`; }

export function Badge({ kind = "", children, title }) { return html`<span class=${join("badge", kind)} title=${title}>${children}</span>`; }

/** A number with its name; hint says more. */
export function Stat({ label, value, hint, kind }) {
  return html`<div class=${join("stat", kind)} title=${hint}><dt>${label}</dt><dd>${value}</dd></div>`;
}
export function Stats({ children, label }) { return html`<dl class="stats" aria-label=${label}>${children}</dl>`; }

/** A key and its meaning. */
export function Keys({ keys }) { return html`<kbd>${keys}</kbd>`; }

// Toasts.
let toasts = [], listeners = new Set();
const changed = () => listeners.forEach((l) => l(toasts));
/** Says something at the edge of the page. kind: "" | "good" | "bad". undo: what takes back what was done, for some seconds. */
export function toast(message, kind = "", undo = null) {
  const t = { id: ++ids, message: String(message), kind, undo };
  toasts = [...toasts.slice(-2), t];
  changed();
  setTimeout(() => drop(t), kind === "bad" || undo ? 9000 : 4000);
}
function drop(t) { toasts = toasts.filter((o) => o !== t); changed(); }
export function Toasts() {
  const [list, set] = useState(toasts);
  useEffect(() => { listeners.add(set); return () => listeners.delete(set); }, []);
  return html`<div class="toasts" role="status" aria-live="polite">${list.map((t) => html`<div key=${t.id} class=${join("toast", t.kind)}>${t.message}${t.undo && html`<button type="button" onClick=${() => { drop(t); t.undo(); }}>Undo</button>`}</div>`)}</div>`;
}

export async function copy(textToCopy, what = "Copied") {
  try {
    if (navigator.clipboard) await navigator.clipboard.writeText(textToCopy);
    else copyBySelection(textToCopy);
    toast(what, "good");
  } catch { toast("The browser does not let this page copy; select the text instead", "bad"); }
}
// Where the page came without TLS from another machine there is no clipboard API.
function copyBySelection(value) {
  const area = document.createElement("textarea");
  area.value = value;
  area.className = "unseen";
  document.body.append(area);
  area.select();
  const done = document.execCommand("copy");
  area.remove();
  if (!done) throw new Error("not copied");
}
export function CopyButton({ text: value, label = "Copy", small = true, children }) {
  const [done, set] = useState(false);
  useEffect(() => { if (!done) return; const t = setTimeout(() => set(false), 1500); return () => clearTimeout(t); }, [done]);
  return html`<${Button} kind="quiet" small=${small} icon=${done ? "check" : "copy"} label=${children ? undefined : label}
    onClick=${() => { copy(typeof value === "function" ? value() : value); set(true); }}>${children}<//>`;
}

/** Light, dark or the system's. */
export function ThemeSwitch() {
  const [theme, set] = useState(() => document.documentElement.dataset.theme || "system");
  const next = { system: "light", light: "dark", dark: "system" }[theme];
  const choose = () => {
    try { next === "system" ? localStorage.removeItem("weir.theme") : localStorage.setItem("weir.theme", next); } catch { /* for this page only */ }
    if (next === "system") delete document.documentElement.dataset.theme;
    else document.documentElement.dataset.theme = next;
    set(next);
  };
  return html`<${Button} kind="quiet" icon=${{ system: "auto", light: "sun", dark: "moon" }[theme]} label=${`Colours: ${theme}. Change to ${next}`} onClick=${choose} />`;
}

/** The frame of a page: a bar with its name, navigation at the side (a drawer on phones), and the view. */
export function Shell({ name, nav, side, top, children, current }) {
  const [open, setOpen] = useState(false);
  useEffect(() => { setOpen(false); }, [current]);
  useEffect(() => {
    if (!open) return;
    const on = (e) => e.key === "Escape" && setOpen(false);
    addEventListener("keydown", on);
    return () => removeEventListener("keydown", on);
  }, [open]);
  return html`<div class=${join("shell", open && "open")}>
    <a class="skip" href="#view" onClick=${(e) => { e.preventDefault(); document.getElementById("view")?.focus(); }}>Skip to the content</a>
    <header class="bar"><${Button} kind="quiet" class="menu" icon="menu" label=${open ? "Close the menu" : "Open the menu"} aria-expanded=${String(open)} aria-controls="side" onClick=${() => setOpen(!open)} />
      <a class="brand" href="#/"><${Icon} name="weir" /><span>weir</span> <span class="muted">${name}</span></a><div class="top">${top}<${ThemeSwitch} /></div></header>
    <div class="side" id="side"><nav aria-label="Views"><ul>${nav.map(([id, text, icon]) => html`<li key=${id}><a href=${`#/${id}`} aria-current=${id === current ? "page" : undefined}>
      <${Icon} name=${icon} /><span>${text}</span></a></li>`)}</ul></nav>${side}</div>
    <div class="veil" onClick=${() => setOpen(false)}></div>
    <main id="view" tabindex="-1">${children}</main><${Toasts} /></div>`;
}

/** Shows a fault of the page itself in place of a white screen. */
export function Guard({ children }) {
  const [fault, reset] = useErrorBoundary();
  if (fault) return html`<div class="page"><${Trouble} title="This view hit a fault of its own" fault=${fault} onAgain=${reset} /></div>`;
  return children;
}

/** Asks for a key, or leads to where people sign in. onKey(key) stores it and tries; fault is why the last one was refused, arrived why a sign-in
 * did not work. */
export function SignIn({ name, fault, arrived, onKey, busy }) {
  const [value, set] = useState("");
  const [seen, see] = useState(false);
  const [list, show] = useState([]);
  const [broken, tell] = useState(arrived || null);
  useEffect(() => { const c = new AbortController(); offers(name, c.signal).then(show); return () => c.abort(); }, [name]);
  let said = fault || broken;
  if (said?.status === 401 && said.message?.includes("Authorization")) said = { ...said, message: "Look whether all of it was copied. Keys that were revoked or have ended are not known, either." };
  return html`<main class="sign-in"><form onSubmit=${(e) => { e.preventDefault(); if (value.trim()) onKey(value.trim()); }}>
    <h1><${Icon} name="weir" />weir <span class="muted">${name}</span></h1>
    <p>${list.length ? "This server asks who calls. Sign in, or type an API key." : "This server asks who calls. Type your API key, or a token of your sign-in service."}</p>
    ${said && html`<${Trouble} title=${!fault ? "The sign-in did not work" : said.status === 403 ? "This key may not do that" : said.status === 401 ? "The server does not know this key" : "The key could not be tried"} fault=${said} />`}
    ${list.map((o) => html`<div key=${o.name} class="stack"><${Button} kind="primary" disabled=${busy || !o.authorize || !able()} onClick=${() => leave(name, o).catch(tell)}>Sign in with ${o.name}<//>
      ${(o.error || !able()) && html`<p class="hint">${o.error || "Signing in needs a page that came over HTTPS."}</p>`}</div>`)}
    <${Field} label="API key" hint="It stays in this tab, until you close it, and goes to this server alone.">${(id, told) => html`<div class="beside">
      <input id=${id} aria-describedby=${told} type=${seen ? "text" : "password"} name="key" autocomplete="off" autocapitalize="off" spellcheck=${false} autofocus=${!list.length} value=${value} onInput=${(e) => set(e.target.value)} />
      <${Button} icon=${seen ? "unsee" : "see"} label=${seen ? "Hide the key" : "Show the key"} onClick=${() => see(!seen)} /></div>`}<//>
    <p class="hint">Keys are made on the machine of this server: <code>weir keys create NAME</code></p>
    <button type="submit" class=${list.length ? "button" : "button primary"} disabled=${busy || !value.trim()}>${busy ? "Trying…" : "Continue"}</button>
    </form><${ThemeSwitch} /></main>`;
}
