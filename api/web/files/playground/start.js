// What is served, and what else this machine could run.
import { html, useEffect, useRef, useState } from "../lib/html.js";
import { ask, Fault, readLines, send } from "../lib/api.js";
import { Badge, Button, CopyButton, Table, Trouble, Spinner } from "../lib/ui.js";
import { useLoad } from "../lib/hooks.js";
import { bytes, count, percent } from "../lib/format.js";

const uses = { generate: "chat", embedding: "embeddings", rerank: "rerank", classify: "labels", decide: "decisions" };

function fit(m) {
  if (m.fits === true) return html`<${Badge} kind="good">fits<//>`;
  if (m.fits === false) return html`<${Badge} kind="bad">too large<//>`;
  return html`<${Badge}>not known<//>`;
}

/** {name, said, done, total, fault, begin(name), cancel()}: one model is pulled at a time; then() once it is served. */
function usePull(then) {
  const [pull, set] = useState({}), running = useRef(null);
  useEffect(() => () => running.current?.abort(), []);
  const begin = async (name) => {
    running.current?.abort();
    const own = running.current = new AbortController();
    set({ name, said: "asking for it" });
    try {
      let last = "";
      await readLines(await send("api/pull", { body: { model: name }, signal: own.signal }), (line) => {
        if (line.error) throw new Fault({ message: String(line.error) });
        last = String(line.status || "");
        set({ name, said: last, done: Number(line.completed) || 0, total: Number(line.total) || 0 });
      });
      if (last !== "success") throw new Fault({ message: "the connection broke off; what has come is kept, and pulling once more goes on from there" });
      set({});
      then();
    } catch (fault) { if (fault.name !== "AbortError") set({ name, fault }); }
  };
  return { ...pull, begin, cancel() { running.current?.abort(); set({}); } };
}

function Pulling({ pull, title }) {
  if (pull.fault) return html`<${Trouble} title=${`${title} was not pulled`} fault=${pull.fault} onAgain=${() => pull.begin(pull.name)} />`;
  const share = pull.total ? Math.min(1, pull.done / pull.total) : undefined;
  return html`<div class="card stack" role="group" aria-label=${`Pulling ${title}`}><div class="row"><span class="grow">Pulling ${title}</span><${Button} small onClick=${pull.cancel}>Cancel<//></div>
    <progress max="1" value=${share} aria-label=${`${title} that has come`}></progress><p class="hint numbers" role="status">${pull.said}${pull.total ? `: ${bytes(pull.done)} of ${bytes(pull.total)}, ${percent(share, 0)}` : ""}</p></div>`;
}

export function Start({ models, builtIn, onPulled }) {
  const pull = usePull(onPulled);
  const catalog = useLoad((signal) => ask("playground/catalog", { signal }));
  const list = catalog.value;
  return html`<div class="page"><header><h1>Models</h1></header>
    ${builtIn && html`<p class="note">This server runs the small model that weir has inside. It knows a few answers about weir, and is there to show that everything works. Pick a model below for more.</p>`}
    <section class="stack" aria-label="Served here"><h2>Served here</h2><${Table} caption="Models that are served here" rows=${[...models.values()]} rowKey=${(m) => m.id} columns=${[{ name: "id", title: "Model", cell: (m) => html`<code>${m.id}</code>` },
      { name: "kind", title: "For", cell: (m) => uses[m.kind] || m.kind || "another server's" }, { name: "max_model_len", title: "Context", number: true, cell: (m) => count(m.max_model_len) }, { name: "state", title: "State", cell: (m) => m.state || "–" }]} /></section>
    <section class="stack" aria-label="What else this machine can run"><h2>What else this machine can run</h2>
      ${catalog.fault ? (catalog.fault.status === 404 ? html`<p class="muted">This server tells nothing of it. On its machine, <code>weir doctor</code> does.</p>` : html`<${Trouble} fault=${catalog.fault} onAgain=${catalog.again} />`) : !list ? html`<${Spinner} />` : html`
      <p class="muted">Models for ${bytes(list.memory_bytes)} of memory. ${list.pulls ? "Pull brings a model in and serves it, for keys with the scope admin; so does the command, on the server's machine." : "The command brings the model in and serves it; type it on the server's machine."}</p>
      ${pull.name && html`<${Pulling} pull=${pull} title=${list.models.find((m) => m.name === pull.name)?.title || pull.name} />`}
      <${Table} caption="Models of the catalog" rows=${list.models} rowKey=${(m) => m.name} columns=${[
        { name: "name", title: "Model", cell: (m) => html`<strong>${m.title}</strong><br /><span class="hint">${m.about}</span>` }, { name: "bytes", title: "Download", number: true, cell: (m) => bytes(m.bytes) },
        { name: "needs_bytes", title: "Memory", number: true, cell: (m) => bytes(m.needs_bytes) }, { name: "fits", title: "Here", cell: fit },
        ...(list.pulls ? [{ name: "pull", title: "Pull", sort: false, cell: (m) => (models.has(m.name) ? html`<${Badge} kind="good">served<//>` : html`<${Button} small icon="download" disabled=${pull.name && !pull.fault} label=${`Pull ${m.title}`} onClick=${() => pull.begin(m.name)}>Pull<//>`) }] : []),
        { name: "command", title: "Command", sort: false, cell: (m) => html`<span class="command"><code>${m.command}</code><${CopyButton} text=${m.command} label=${`Copy the command for ${m.title}`} /></span>` }]} />`}</section></div>`;
}
