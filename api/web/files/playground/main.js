// The playground of the API listener: what callers with a key can try.
import { html, render, useState, useEffect, useMemo } from "../lib/html.js";
import { ask, key } from "../lib/api.js";
import { arrive } from "../lib/signin.js";
import { useLoad, useRoute, useStored, go } from "../lib/hooks.js";
import { Shell, SignIn, Spinner, Trouble, Guard, Button, Empty, Icon } from "../lib/ui.js";
import { bytes, percent } from "../lib/format.js";
import { Chat, Conversations } from "./chat.js";
import { Embeddings, Rerank } from "./vectors.js";
import { Predict } from "./predict.js";
import { Decide } from "./decide.js";
import { Start } from "./start.js";

const nav = [["chat", "Chat", "chat"], ["embeddings", "Embeddings", "vector"], ["rerank", "Rerank", "rank"], ["predict", "Predict", "tree"], ["decisions", "Decisions", "decide"], ["start", "Models", "box"]];
const views = { embeddings: Embeddings, rerank: Rerank, predict: Predict, decisions: Decide };
const builtInName = "weir-default";

// Loading is shown until the models are in memory.
function Loading({ onAgain }) {
  const [progress, set] = useState(null);
  useEffect(() => {
    let timer = 0, over = false;
    const look = async () => {
      try {
        const response = await fetch(new URL("../health", location.href), { cache: "no-store" }), health = await response.json();
        if (over) return;
        set(health.progress || null);
        if (response.ok) { onAgain(); return; }
      } catch { /* asked again */ }
      if (!over) timer = setTimeout(look, 1000);
    };
    look();
    return () => { over = true; clearTimeout(timer); };
  }, []);
  const p = progress;
  return html`<main class="sign-in"><div class="stack"><h1><${Icon} name="weir" />weir</h1><p role="status">${p?.total_bytes ? `${p.model || "The model"} is loading: ${bytes(p.done_bytes)} of ${bytes(p.total_bytes)}, ${percent(p.fraction, 0)}` : "The model is loading"}</p>
    <progress max="1" value=${p?.fraction} aria-label="Model that was loaded"></progress></div></main>`;
}

function ModelMenu({ models, value, onValue }) {
  const list = [...models.values()].filter((m) => m.kind === "generate" || !m.kind);
  if (!list.length) return null;
  return html`<label class="model-menu"><span class="unseen">Model for chats</span><select value=${value} onChange=${(e) => onValue(e.target.value)}>${list.map((m) => html`<option key=${m.id} value=${m.id} selected=${m.id === value}>${m.id}</option>`)}</select></label>`;
}

function App({ arrived }) {
  const route = useRoute(), [view = "chat", id] = route.path;
  const [chosen, choose] = useStored("weir.playground.model", "");
  const loaded = useLoad((signal) => ask("v1/models", { signal }));
  const models = useMemo(() => new Map((loaded.value?.data || []).filter((m) => m && typeof m.id === "string").map((m) => [m.id, m])), [loaded.value]);
  useEffect(() => { document.title = `${nav.find(([n]) => n === view)?.[1] || "Playground"} · weir`; }, [view]);
  const fault = loaded.fault;
  if (fault?.needsKey || (fault?.status === 403 && fault.code !== "host_not_allowed")) {
    return html`<${SignIn} name="playground" arrived=${arrived} fault=${key.get() ? fault : null} busy=${loaded.loading} onKey=${(k) => { key.set(k); loaded.again(); }} />`;
  }
  if (fault?.status === 503 && !loaded.value) return html`<${Loading} onAgain=${loaded.again} />`;
  if (fault && !loaded.value) return html`<main class="page"><h1 class="unseen">weir playground</h1><${Trouble} title="The models cannot be listed" fault=${fault} onAgain=${loaded.again} /></main>`;
  if (!loaded.value) return html`<main class="sign-in"><h1 class="unseen">weir playground</h1><${Spinner} /></main>`;
  const chatModels = [...models.values()].filter((m) => m.kind === "generate" || !m.kind), model = (chatModels.find((m) => m.id === chosen) || chatModels[0])?.id;
  const builtIn = models.size === 1 && models.has(builtInName);
  const View = views[view], top = html`${view === "chat" && html`<${ModelMenu} models=${models} value=${model} onValue=${choose} />`}
    ${key.get() && html`<${Button} kind="quiet" icon="key" label="Sign out: forget the key" onClick=${() => { key.set(""); loaded.again(); }} />`}`;
  return html`<${Shell} name="playground" nav=${nav} current=${view} top=${top} side=${html`${view === "chat" && html`<${Button} icon="plus" class="new" onClick=${() => go("chat")}>New chat<//><${Conversations} current=${id} />`}
    <nav class="outside" aria-label="Elsewhere"><a href="../docs">API reference</a></nav>`}>
    <${Guard} key=${view}>${view === "chat" ? html`<${Chat} id=${id} model=${model} models=${models} builtIn=${builtIn} />` : view === "start" ? html`<${Start} models=${models} builtIn=${builtIn} onPulled=${loaded.again} />`
    : View ? html`<${View} models=${models} />` : html`<h1 class="unseen">Playground</h1><${Empty} title="There is no such view" actions=${html`<a class="button primary" href="#/chat">To the chat</a>`} />`}<//><//>`;
}

render(html`<${App} arrived=${await arrive("playground")} />`, document.getElementById("app"));
