// The chat: a conversation, its composer and its settings.
import { html, useState, useEffect, useRef, useLayoutEffect, useCallback } from "../lib/html.js";
import { Button, Dialog, Tabs, CopyButton, Empty, Confirm, Icon, Spinner, toast } from "../lib/ui.js";
import { useFrame, useMedia, useStored, go, store, stored } from "../lib/hooks.js";
import { moment, count } from "../lib/format.js";
import { Settings } from "./settings.js";
import { Turn } from "./turn.js";
import { Run } from "./run.js";
import { bodyOf, snippets } from "./request.js";
import * as tree from "./tree.js";
import * as history from "./history.js";

const settingsName = "weir.playground.settings";
const shownTurns = 60; // that are drawn; earlier ones on demand

/** All conversations that are open, and what runs in them. One per page. */
class Book {
  constructor() {
    this.open = new Map(); this.list = []; this.listeners = new Set();
    history.onMemory(() => { toast("This browser keeps nothing: what you ask is gone when this tab is closed", "bad"); this.changed(); });
    history.onOthers((o) => this.hear(o));
    this.ready = this.reload();
  }
  // hear takes over what another tab has kept or deleted.
  async hear({ id, gone, ...entry }) {
    this.list = this.list.filter((e) => id && e.id !== id);
    if (!gone) this.list = [{ id, ...entry }, ...this.list].sort((a, b) => b.updated - a.updated);
    const c = this.open.get(id);
    if (c && !gone) {
      await history.refresh(c);
      if (c.leaf && !this.isBusy(c)) tree.choose(c, c.nodes[c.leaf]); // it goes on where the other tab has gone on
    }
    this.changed();
  }
  async reload() {
    try { this.list = (await history.list()).map((c) => ({ id: c.id, title: tree.titleOf(c), updated: c.updated })); } catch { this.list = []; }
    this.changed();
  }
  changed() { this.listeners.forEach((l) => l()); }
  async get(id) {
    if (!this.open.has(id)) {
      const c = await history.load(id).catch(() => null);
      if (!c || this.open.has(id)) return this.open.get(id) || null;
      for (const n of Object.values(c.nodes)) if (n.state === "running") n.state = "stopped"; // by a page that was closed
      this.open.set(id, c);
      if (!this.list.some((e) => e.id === id)) await this.reload();
      for (const [old, o] of this.open) if (this.open.size > 8 && old !== id && !this.isBusy(o)) this.open.delete(old);
    }
    return this.open.get(id);
  }
  isBusy(c) { return Object.values(c.nodes).some((n) => n.state === "running"); }
  keep(c) {
    if (!Object.keys(c.nodes).length) return;
    const entry = { id: c.id, title: tree.titleOf(c), updated: c.updated };
    this.list = [entry, ...this.list.filter((e) => e.id !== c.id)].sort((a, b) => b.updated - a.updated);
    history.save(c).catch(() => toast("The browser has no room for this conversation: export or delete some", "bad"));
    this.changed();
  }
  async remove(id) {
    const c = this.open.get(id);
    if (c) for (const n of Object.values(c.nodes)) n.run?.stop();
    this.open.delete(id);
    this.list = this.list.filter((e) => e.id !== id);
    this.changed();
    await history.remove(id);
  }
  async removeAndOffer(id) {
    const c = await this.get(id);
    await this.remove(id);
    toast("The conversation was deleted", "", c && (() => { this.open.set(id, c); this.keep(c); }));
  }
  async clear() {
    for (const id of [...this.open.keys()]) await this.remove(id);
    await history.clear();
    this.list = [];
    this.changed();
  }
}
export const book = new Book();

export function useBook() {
  const frame = useFrame();
  useEffect(() => { book.listeners.add(frame); return () => book.listeners.delete(frame); }, []);
  return book;
}

/** The list of conversations at the side. */
export function Conversations({ current }) {
  const b = useBook();
  const [managing, manage] = useState(false), [shown, show] = useState(50);
  return html`<section class="conversations" aria-label="Conversations"><header><h2>Conversations</h2><${Button} kind="quiet" small icon="more" label="Export, import or delete conversations" onClick=${() => manage(true)} /></header>
    <ul>${b.list.slice(0, shown).map((c) => html`<li key=${c.id}><a href=${`#/chat/${c.id}`} aria-current=${c.id === current ? "page" : undefined} title=${`${c.title}, ${moment(c.updated)}`}>${c.title}</a>
      <${Button} kind="quiet" small icon="trash" label=${`Delete ${c.title}`} onClick=${async () => { await b.removeAndOffer(c.id); if (c.id === current) go("chat"); }} /></li>`)}</ul>
    ${b.list.length > shown && html`<${Button} small kind="quiet" onClick=${() => show(shown + 50)}>Show more<//>`}
    ${(!b.list.length || !history.isKept()) && html`<p class="hint">${history.isKept() ? "What you ask is kept in this browser only." : "What you ask is kept until this tab is closed."}</p>`}
    ${managing && html`<${Manage} onClose=${() => manage(false)} />`}</section>`;
}

function Manage({ onClose }) {
  const [asking, ask] = useState(false), file = useRef(null);
  const save = async () => {
    const url = URL.createObjectURL(new Blob([history.exported(await history.list())], { type: "application/json" }));
    const a = document.createElement("a");
    a.href = url;
    a.download = "weir-conversations.json";
    a.click();
    setTimeout(() => URL.revokeObjectURL(url), 1000);
  };
  const read = async (e) => {
    const f = e.target.files[0];
    if (!f) return;
    try {
      if (f.size > 64 << 20) throw new Error("the file is larger than 64 MiB");
      const list = history.imported(await f.text());
      for (const c of list) await history.save(c);
      await book.reload();
      toast(list.length === 1 ? "One conversation was read" : `${list.length} conversations were read`, "good");
      onClose();
    } catch (err) { toast(`The file cannot be read: ${err.message}`, "bad"); }
  };
  return html`<${Dialog} title="Conversations" open=${true} onClose=${onClose}>
    <p>${book.list.length === 1 ? "One conversation is" : `${book.list.length} conversations are`} ${history.isKept() ? "kept in this browser" : "kept until this tab is closed, as the browser keeps nothing"}. The server keeps none.</p>
    <div class="row"><${Button} icon="download" disabled=${!book.list.length} onClick=${save}>Export all<//><${Button} icon="upload" onClick=${() => file.current.click()}>Import<//>
      <${Button} kind="danger" icon="trash" disabled=${!book.list.length} onClick=${() => ask(true)}>Delete all<//></div>
    <input class="unseen" type="file" accept="application/json,.json" tabindex="-1" aria-label="File with conversations" ref=${file} onChange=${read} />
    <${Confirm} title="Delete all conversations?" open=${asking} yes="Delete all" onClose=${() => ask(false)} onYes=${async () => { await book.clear(); ask(false); onClose(); go("chat"); }}>
      <p>They are gone from this browser for good. Export them first if you need them.</p><//><//>`;
}

function Composer({ onSend, onStop, busy, disabled }) {
  const [text, set] = useState(""), ref = useRef(null);
  const send = () => { if (text.trim() && !busy && !disabled) { onSend(text.replace(/^\n+|\s+$/g, "")); set(""); } };
  useEffect(() => { if (matchMedia("(pointer: fine)").matches) ref.current?.focus(); }, []);
  return html`<form class="composer" onSubmit=${(e) => { e.preventDefault(); send(); }}><label class="unseen" for="composer">Your turn</label>
    <textarea id="composer" ref=${ref} rows="1" value=${text} placeholder="Ask something" onInput=${(e) => { if (e.target.value === "\n") e.target.value = ""; set(e.target.value); }}
      onKeyDown=${(e) => { if (e.key === "Enter" && !e.shiftKey && !e.isComposing) { e.preventDefault(); send(); } if (e.key === "Escape" && busy) onStop(); }}></textarea>
    ${busy ? html`<${Button} kind="primary" icon="stop" label="Stop" onClick=${onStop} />` : html`<button type="submit" class="button primary bare" aria-label="Send" title="Send" disabled=${disabled || !text.trim()}><${Icon} name="send" /></button>`}</form>`;
}

export function CodeDialog({ path, body, onClose }) {
  const [tab, set] = useState("curl");
  let list = null, bad = "";
  try { list = snippets(path, body()); } catch (e) { bad = e.message; }
  return html`<${Dialog} wide title="Code for this request" open=${true} onClose=${onClose}>
    ${bad ? html`<p class="hint bad">${bad}</p>` : html`<${Tabs} name="code" label="Languages" value=${tab} onValue=${set} tabs=${Object.keys(list).map((k) => [k, k])} />
    <div role="tabpanel" id="code-panel" aria-labelledby=${`code-tab-${tab}`} class="code-block"><header><span>${tab}</span><${CopyButton} text=${list[tab]} label="Copy this code">Copy<//></header><pre tabindex="0" role="region" aria-label=${`Code in ${tab}`}><code>${list[tab]}</code></pre></div>
    ${list.curl.includes("WEIR_API_KEY") && html`<p class="hint">The key is read from the environment variable <code>WEIR_API_KEY</code>.</p>`}`}<//>`;
}

/** Calls of the last answer that have no result yet, by call id; undefined: no result. */
function resultsOf(c, node) {
  const results = new Map();
  for (const n of tree.pathTo(c, c.leaf)) if (n.role === "tool" && n.of === node.id) results.set(n.call, n.content);
  return results;
}

export function Chat({ id, model, models, builtIn }) {
  const b = useBook(), draw = useFrame(), wide = useMedia("(min-width: 1181px)");
  const [c, setConversation] = useState(null), [missing, setMissing] = useState(false);
  const [panel, setPanel] = useStored("weir.playground.panel", wide), [code, showCode] = useState(false), [first, setFirst] = useState(0), [said, say] = useState("");
  const log = useRef(null), end = useRef(true);
  useEffect(() => {
    let over = false;
    setMissing(false);
    setFirst(0);
    if (!id) { setConversation(tree.newConversation(stored(settingsName, {}))); return; }
    b.get(id).then((found) => { if (over) return; setConversation(found); setMissing(!found); end.current = true; });
    return () => { over = true; };
  }, [id, missing && b.list.some((e) => e.id === id)]); // which a file or another tab has brought
  useLayoutEffect(() => { const l = log.current; if (l && end.current) l.scrollTop = l.scrollHeight; });

  const run = useCallback((conversation, parent) => {
    let body;
    try { body = bodyOf(conversation, parent.id, model); } catch (e) { toast(e.message, "bad"); return; }
    const nodes = Array.from({ length: body.n || 1 }, () => tree.add(conversation, parent.id, { role: "assistant", content: "", model }));
    tree.choose(conversation, nodes[0]);
    const r = new Run(body, nodes, draw);
    end.current = true;
    b.keep(conversation);
    draw();
    say("The answer begins");
    r.go().then(() => { b.keep(conversation); b.changed(); draw(); say({ done: "The answer is complete", stopped: "The answer was stopped", failed: "The answer failed" }[r.state]); });
  }, [model]);

  if (missing) return html`<${Empty} icon="chat" title="This conversation is not in this browser" actions=${html`<a class="button primary" href="#/chat">New conversation</a>`}><p>It was deleted, or belongs to another browser.</p><//>`;
  if (!c) return html`<div class="page"><${Spinner} /></div>`;

  const path = tree.pathTo(c, c.leaf), busy = path.some((n) => n.state === "running") || b.isBusy(c);
  const last = path.at(-1), from = Math.max(0, path.length - shownTurns - first);
  const start = (text) => {
    b.open.set(c.id, c);
    const turn = tree.add(c, c.leaf, { role: "user", content: text });
    run(c, turn);
    if (id !== c.id) go("chat", c.id);
  };
  const actions = {
    choose: (node) => { tree.choose(c, node); b.keep(c); draw(); },
    again: (node) => run(c, c.nodes[node.parent]),
    edit: (node, text) => { const made = tree.add(c, node.parent, { role: node.role, content: text, ...(node.role === "assistant" ? { model: node.model, state: "done" } : {}) }); if (node.role === "user") run(c, made); else { b.keep(c); draw(); } },
    remove: (node) => {
      const nodes = { ...c.nodes }, leaf = c.leaf;
      tree.remove(c, node);
      b.keep(c);
      draw();
      toast("The turn was removed, with what followed it", "", () => { Object.assign(c, { nodes, leaf }); b.keep(c); draw(); });
    },
    result: (node, call, text) => {
      const results = resultsOf(c, node);
      const made = tree.add(c, c.leaf, { role: "tool", content: text, call: call.id, tool: call.name, of: node.id });
      results.set(call.id, text);
      if (node.calls.every((k) => results.has(k.id))) run(c, made);
      else { b.keep(c); draw(); }
    },
  };
  const setSettings = (changes) => { c.settings = changes === null ? {} : { ...c.settings, ...changes }; store(settingsName, c.settings); if (id) b.keep(c); draw(); };
  const stop = () => { for (const n of Object.values(c.nodes)) n.run?.stop(); };
  return html`<div class=${`chat${panel ? " with-panel" : ""}`}>
    <div class="talk">
      <div class="tools-row"><span class="hint grow">${last?.stats?.prompt ? `${count((last.stats.prompt || 0) + (last.stats.output || 0))} tokens${models.get(model)?.max_model_len ? ` of ${count(models.get(model).max_model_len)}` : ""}` : ""}</span>
        <${Button} kind="quiet" small icon="code" disabled=${!path.length} onClick=${() => showCode(true)}>Code<//>
        <${Button} kind="quiet" small icon="sliders" aria-expanded=${String(!!panel)} aria-controls="settings" onClick=${() => setPanel(!panel)}>Settings<//></div>
      <div class="log" ref=${log} tabindex="0" role="region" aria-label="Conversation" onScroll=${(e) => { const l = e.currentTarget; end.current = l.scrollHeight - l.scrollTop - l.clientHeight < 80; }}>
        <div class="turns">
          <h1 class="unseen">${tree.titleOf(c)}</h1>
          ${from > 0 && html`<p class="row"><${Button} small onClick=${() => { end.current = false; setFirst(first + shownTurns); }}>Show earlier turns (${from})<//></p>`}
          ${!path.length && html`<${Empty} icon="weir" title=${model ? `Ask ${model} something` : "No model answers chats here"}>${builtIn ? html`<p>This is the small model that weir has inside, to show that everything works. <a href="#/start">See what else this machine can run</a>.</p>` : html`<p>Enter sends, Shift and Enter begins a new line. Any turn can be changed later, and makes a branch.</p>`}<//>`}
          ${path.slice(from).map((n) => html`<${Turn} key=${n.id} conversation=${c} node=${n} busy=${busy} actions=${actions} results=${n.calls?.length ? resultsOf(c, n) : null} />`)}
        </div>
      </div>
      ${!end.current && busy && html`<div class="to-end"><${Button} small icon="down" onClick=${() => { end.current = true; draw(); }}>To the end<//></div>`}
      <${Composer} key=${c.id} busy=${busy} disabled=${!model} onSend=${start} onStop=${stop} />
      <p class="unseen" role="status">${said}</p>
    </div>
    ${panel && html`<aside class="panel" id="settings" aria-label="Settings of this conversation" onKeyDown=${(e) => { if (e.key === "Escape" && !e.target.closest("dialog")) setPanel(false); }}><header><h2>Settings</h2><${Button} kind="quiet" small icon="close" label="Close the settings" onClick=${() => setPanel(false)} /></header><${Settings} key=${c.id} settings=${c.settings} set=${setSettings} /></aside>`}
    ${code && html`<${CodeDialog} path="v1/chat/completions" body=${() => bodyOf(c, [...path].reverse().find((n) => n.role !== "assistant")?.id ?? c.leaf, model)} onClose=${() => showCode(false)} />`}
  </div>`;
}
