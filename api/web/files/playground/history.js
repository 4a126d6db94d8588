// Conversations in the browser: IndexedDB, or memory where the browser keeps nothing. The server keeps none of them.
import { titleOf } from "./tree.js";

let memory = null, tellMemory = () => {};
const storeName = "conversations";

/** Tells, once, that the browser keeps nothing from now on. */
export function onMemory(tell) { tellMemory = tell; }

let opened = null;
function database() {
  opened ||= new Promise((resolve, reject) => {
    const r = indexedDB.open("weir-playground", 1);
    r.onupgradeneeded = () => r.result.createObjectStore(storeName, { keyPath: "id" });
    r.onsuccess = () => resolve(r.result);
    r.onerror = () => reject(r.error);
  });
  return opened;
}

// use(store, fail) asks for what the transaction is about; fail ends it with an error.
function attempt(db, mode, use) {
  return new Promise((resolve, reject) => {
    let failure = null;
    const t = db.transaction(storeName, mode), r = use(t.objectStore(storeName), (e) => { failure = e; t.abort(); });
    t.oncomplete = () => resolve(r.result);
    t.onerror = t.onabort = () => reject(failure || t.error || new Error("not kept"));
  });
}

/** The answer of a request to memory. */
const at = (result) => ({ result, set onsuccess(then) { then(); } });

async function within(mode, use) {
  for (let again = true; !memory; again = false) {
    try {
      return await attempt(await database(), mode, use);
    } catch (e) {
      if (e?.name === "QuotaExceededError") throw e;
      opened = null; // browsers close a page's database when they are short of something
      if (!again) { memory = new Map(); tellMemory(); }
    }
  }
  return use({
    put: (c) => at(memory.set(c.id, c)), get: (id) => at(memory.get(id)), getAll: () => at([...memory.values()]), delete: (id) => at(memory.delete(id)), clear: () => at(memory.clear()),
  }, (e) => { throw e; }).result;
}

// Other tabs of this browser keep the same conversations. A turn is of the tab that made it; the others take it over and leave it as it is.
const others = typeof BroadcastChannel === "function" ? new BroadcastChannel("weir-playground") : null;

/** Tells of what other tabs keep, {id, title, updated}, and delete, {id, gone}; without an id all is gone. */
export function onOthers(tell) { if (others) others.onmessage = (e) => tell(e.data); }

const known = new WeakMap(); // by conversation: ids of turns that this tab has made, and of those that it has read
function knownOf(c) {
  if (!known.has(c)) known.set(c, { made: new Set(), read: new Set() });
  return known.get(c);
}

/** Takes the turns over that other tabs have made. */
export function join(c, kept) {
  const { made, read } = knownOf(c);
  for (const [id, n] of Object.entries(kept?.nodes || {})) {
    if (made.has(id) || (read.has(id) && !c.nodes[id])) continue; // of this tab, or removed in it
    const theirs = n.state === "running" ? { ...n, state: "stopped" } : n;
    c.nodes[id] ? Object.assign(c.nodes[id], theirs) : c.nodes[id] = theirs;
    read.add(id);
  }
  for (const id of Object.keys(c.nodes)) if (!read.has(id)) made.add(id);
}

const maxKeptTokens = 2000; // of an answer, with their alternatives

// Where a conversation stands until the database has it, so that a page which is loaded again meanwhile loses nothing.
const pendingName = (id) => `weir.playground.pending.${id}`;
const pending = new Map(); // writes under way, by conversation
const settle = (id) => {
  const left = (pending.get(id) || 1) - 1;
  left ? pending.set(id, left) : pending.delete(id);
  if (!left) try { sessionStorage.removeItem(pendingName(id)); } catch { /* nothing is there */ }
};

// What is kept of a conversation.
function keptOf(c) {
  const nodes = {};
  for (const [id, n] of Object.entries(c.nodes)) {
    const { run, ...kept } = n;
    nodes[id] = kept.tokens?.length > maxKeptTokens ? { ...kept, tokens: kept.tokens.slice(-maxKeptTokens) } : kept;
  }
  return { ...c, nodes };
}

/** Keeps a conversation as it is, with what other tabs have added to it. */
export function save(c) {
  pending.set(c.id, (pending.get(c.id) || 0) + 1);
  try { sessionStorage.setItem(pendingName(c.id), JSON.stringify(keptOf(c))); } catch { /* it is too large: the database alone has it */ }
  return within("readwrite", (s, fail) => {
    const r = s.get(c.id);
    r.onsuccess = () => { try { join(c, r.result); s.put(keptOf(c)); } catch (e) { fail(e); } };
    return r;
  }).then(() => others?.postMessage({ id: c.id, title: titleOf(c), updated: c.updated })).finally(() => settle(c.id));
}
export const remove = (id) => { forget(id); return within("readwrite", (s) => s.delete(id)).then(() => others?.postMessage({ id, gone: true })); };
export const clear = () => within("readwrite", (s) => s.clear()).then(() => others?.postMessage({ gone: true }));
const forget = (id) => { try { sessionStorage.removeItem(pendingName(id)); } catch { /* nothing is there */ } };
const read = (id) => within("readonly", (s) => s.get(id));

/** Takes over what other tabs have kept of a conversation meanwhile. */
export async function refresh(c) { join(c, await read(c.id)); }

/** A conversation; of one whose write a page did not see the end of, what that page had. */
export async function load(id) {
  let left = null;
  try { left = JSON.parse(sessionStorage.getItem(pendingName(id))); } catch { /* nothing is there */ }
  if (left?.id !== id || !left.nodes || pending.has(id)) {
    const c = await read(id);
    if (c) knownOf(c).read = new Set(Object.keys(c.nodes));
    return c;
  }
  await save(left);
  return left;
}
/** All conversations, the newest first. */
export async function list() { return (await within("readonly", (s) => s.getAll())).sort((a, b) => b.updated - a.updated); }
export const isKept = () => !memory;

/** Conversations as a file that can be read back. */
export function exported(conversations) { return JSON.stringify({ weir_playground: 1, conversations }, null, 1); }

/** Reads such a file. What is no conversation is left out; all fields are taken as text and numbers. */
export function imported(text) {
  const file = JSON.parse(text);
  if (file?.weir_playground !== 1 || !Array.isArray(file.conversations)) throw new Error("this is no file that the playground has exported");
  return file.conversations.filter((c) => c && typeof c.id === "string" && c.nodes && typeof c.nodes === "object").map((c) => {
    const nodes = {};
    for (const n of Object.values(c.nodes)) {
      if (!n || typeof n.id !== "string" || n.id === "__proto__" || !["user", "assistant", "tool"].includes(n.role)) continue;
      const turn = { id: n.id, parent: typeof n.parent === "string" ? n.parent : null, at: Number(n.at) || 0, role: n.role, content: String(n.content ?? "") };
      for (const name of importedTexts) if (typeof n[name] === "string") turn[name] = n[name];
      if (Array.isArray(n.calls)) turn.calls = n.calls.map((k) => ({ id: String(k?.id ?? ""), name: String(k?.name ?? ""), arguments: String(k?.arguments ?? "") }));
      nodes[n.id] = turn;
    }
    beginAll(nodes);
    return { id: c.id, title: String(c.title ?? ""), created: Number(c.created) || Date.now(), updated: Number(c.updated) || Date.now(), settings: c.settings && typeof c.settings === "object" ? c.settings : {},
      nodes, leaf: nodes[c.leaf] ? c.leaf : Object.keys(nodes).at(-1) ?? null };
  });
}

const importedTexts = ["reasoning", "refusal", "call", "tool", "of", "model", "state", "finish", "requestId", "version", "warnings"];

/** Lets each turn have a first one before it: a file may say that turns follow each other in a circle. */
function beginAll(nodes) {
  const sound = new Set();
  for (const first of Object.values(nodes)) {
    const way = new Set();
    let n = first;
    for (; n && !sound.has(n) && !way.has(n); n = nodes[n.parent]) way.add(n);
    if (n && !sound.has(n)) n.parent = null;
    way.forEach((w) => sound.add(w));
  }
}
