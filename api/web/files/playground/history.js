// Conversations in the browser: IndexedDB, or memory where the browser keeps nothing. The server keeps none of them.
let memory = null;
const storeName = "conversations";

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

async function within(mode, use) {
  if (!memory) {
    try {
      const db = await database();
      return await new Promise((resolve, reject) => {
        const t = db.transaction(storeName, mode), r = use(t.objectStore(storeName));
        t.oncomplete = () => resolve(r.result);
        t.onerror = t.onabort = () => reject(t.error || new Error("not kept"));
      });
    } catch (e) {
      if (e?.name === "QuotaExceededError") throw e;
      memory = new Map();
    }
  }
  return use({
    put: (c) => ({ result: memory.set(c.id, c) }), get: (id) => ({ result: memory.get(id) }), getAll: () => ({ result: [...memory.values()] }),
    delete: (id) => ({ result: memory.delete(id) }), clear: () => ({ result: memory.clear() }),
  }).result;
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

/** Keeps a conversation as it is now. */
export function save(c) {
  const nodes = {};
  for (const [id, n] of Object.entries(c.nodes)) {
    const { run, ...kept } = n;
    nodes[id] = kept.tokens?.length > maxKeptTokens ? { ...kept, tokens: kept.tokens.slice(-maxKeptTokens) } : kept;
  }
  const now = { ...c, nodes };
  pending.set(c.id, (pending.get(c.id) || 0) + 1);
  try { sessionStorage.setItem(pendingName(c.id), JSON.stringify(now)); } catch { /* it is too large: the database alone has it */ }
  return within("readwrite", (s) => s.put(now)).finally(() => settle(c.id));
}
export const remove = (id) => { forget(id); return within("readwrite", (s) => s.delete(id)); };
export const clear = () => within("readwrite", (s) => s.clear());
const forget = (id) => { try { sessionStorage.removeItem(pendingName(id)); } catch { /* nothing is there */ } };

/** A conversation; of one whose write a page did not see the end of, what that page had. */
export async function load(id) {
  let left = null;
  try { left = JSON.parse(sessionStorage.getItem(pendingName(id))); } catch { /* nothing is there */ }
  if (left?.id !== id || !left.nodes || pending.has(id)) return within("readonly", (s) => s.get(id));
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
      if (!n || typeof n.id !== "string" || !["user", "assistant", "tool"].includes(n.role)) continue;
      nodes[n.id] = { ...n, parent: typeof n.parent === "string" ? n.parent : null, content: String(n.content ?? ""), reasoning: n.reasoning === undefined ? undefined : String(n.reasoning),
        calls: Array.isArray(n.calls) ? n.calls.map((k) => ({ id: String(k?.id ?? ""), name: String(k?.name ?? ""), arguments: String(k?.arguments ?? "") })) : undefined,
        tokens: undefined, gaps: undefined };
    }
    return { id: c.id, title: String(c.title ?? ""), created: Number(c.created) || Date.now(), updated: Number(c.updated) || Date.now(), settings: c.settings && typeof c.settings === "object" ? c.settings : {},
      nodes, leaf: nodes[c.leaf] ? c.leaf : Object.keys(nodes).at(-1) ?? null };
  });
}
