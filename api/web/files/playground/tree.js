// A conversation as a tree: editing a turn or asking again makes a branch. One path through it, to leaf, is what is shown and sent.

export const newId = () => (crypto.randomUUID ? crypto.randomUUID() : [...crypto.getRandomValues(new Uint8Array(16))].map((b) => b.toString(16).padStart(2, "0")).join(""));

export function newConversation(settings) {
  const now = Date.now();
  return { id: newId(), title: "", created: now, updated: now, settings, nodes: {}, leaf: null };
}

/** Adds a turn below parent and makes it the end of the path. */
export function add(c, parent, turn) {
  const node = { id: newId(), parent, at: Date.now(), ...turn };
  c.nodes[node.id] = node;
  c.leaf = node.id;
  c.updated = Date.now();
  return node;
}

export function children(c, parent) { return Object.values(c.nodes).filter((n) => n.parent === parent); }

/** The turns from the first one to a node. */
export function pathTo(c, id) {
  const list = [];
  for (let n = c.nodes[id], left = 10000; n && left; n = c.nodes[n.parent], left--) list.push(n);
  return list.reverse();
}

/** The siblings of a node in the order in which they came, and its place among them. */
export function branchesOf(c, node) {
  const list = children(c, node.parent);
  return { list, at: list.indexOf(node) };
}

/** Shows another branch: its newest end. */
export function choose(c, node) {
  let n = node;
  for (let next; (next = children(c, n.id).at(-1)); ) n = next;
  c.leaf = n.id;
}

/** Takes a node and all below it away; the path then ends at its newest sibling, or its parent. */
export function remove(c, node) {
  const gone = [node.id];
  for (let i = 0; i < gone.length; i++) for (const child of children(c, gone[i])) gone.push(child.id);
  for (const id of gone) delete c.nodes[id];
  const sibling = children(c, node.parent).at(-1);
  if (sibling) choose(c, sibling);
  else c.leaf = node.parent;
  c.updated = Date.now();
}

/** What the server is sent of a path. Thoughts are left out, as templates leave them out of earlier turns. */
export function messages(c, id, system) {
  const list = system ? [{ role: "system", content: system }] : [];
  for (const n of pathTo(c, id)) {
    if (n.role === "assistant") {
      const m = { role: "assistant", content: n.content || (n.calls?.length ? null : "") };
      if (n.calls?.length) m.tool_calls = n.calls.map((call) => ({ id: call.id, type: "function", function: { name: call.name, arguments: call.arguments } }));
      list.push(m);
    } else if (n.role === "tool") list.push({ role: "tool", tool_call_id: n.call, content: n.content });
    else list.push({ role: n.role, content: n.content });
  }
  return list;
}

export function titleOf(c) {
  if (c.title) return c.title;
  const first = Object.values(c.nodes).find((n) => n.role === "user");
  return first ? first.content.replace(/\s+/g, " ").trim().slice(0, 60) || "Conversation" : "New conversation";
}
