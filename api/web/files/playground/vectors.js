// Embeddings and reranks to try.
import { html, useState } from "../lib/html.js";
import { ask } from "../lib/api.js";
import { Button, Select, TextArea, NumberField, Empty, Trouble, Stats, Stat } from "../lib/ui.js";
import { count, duration } from "../lib/format.js";
import { useStored } from "../lib/hooks.js";
import { CodeDialog } from "./chat.js";

const maxTexts = 40; // so that the table can be read
const linesOf = (text) => text.split("\n").map((l) => l.trim()).filter(Boolean);

/** Runs one request at a time and keeps how long it took. */
export function useTry() {
  const [state, set] = useState({});
  const go = async (path, body, more) => {
    set({ busy: true });
    const began = performance.now();
    try { set({ value: await ask(path, { body }), took: performance.now() - began, ...more }); } catch (fault) { set({ fault }); }
  };
  return [state, go];
}

export function ModelSelect({ models, kinds, value, onValue }) {
  const list = [...models.values()].filter((m) => kinds.includes(m.kind || "") || !m.kind);
  return html`<${Select} label="Model" value=${value} onValue=${onValue} options=${list.map((m) => [m.id, m.id])} />`;
}

export function pick(models, kinds, wanted) {
  const list = [...models.values()].filter((m) => kinds.includes(m.kind || "") || !m.kind);
  return (list.find((m) => m.id === wanted) || list.find((m) => m.kind) || list[0])?.id;
}

function cosine(a, b) {
  let dot = 0, aa = 0, bb = 0;
  for (let i = 0; i < a.length; i++) { dot += a[i] * b[i]; aa += a[i] * a[i]; bb += b[i] * b[i]; }
  return dot / (Math.sqrt(aa * bb) || 1);
}

const heat = (v) => `h${Math.max(0, Math.min(9, Math.floor(v * 10)))}`;

const sample = "How do I reset my password?\nI forgot my login.\nWhat is the weather in Paris?\nIt rains in the capital of France.";

export function Embeddings({ models }) {
  const [wanted, want] = useStored("weir.playground.embedding", ""), [text, set] = useState(sample), [dimensions, setDimensions] = useState(null), [state, go] = useTry(), [code, show] = useState(false);
  const kinds = ["embedding"], model = pick(models, kinds, wanted), texts = linesOf(text);
  if (!model) return html`<div class="page"><header><h1>Embeddings</h1></header><${Empty} icon="vector" title="No model for embeddings is served here"><p>Serve one beside the others: <code>weir serve chat=model.gguf embed=nomic-embed.gguf</code></p><//></div>`;
  const body = () => ({ model, input: texts, ...(dimensions ? { dimensions } : {}) });
  const vectors = state.value?.data.map((d) => d.embedding), near = vectors?.map((a) => vectors.map((b) => cosine(a, b)));
  return html`<div class="page"><header><h1>Embeddings</h1><p class="muted">How near texts are to each other: the cosine of their vectors, 1 is the same.</p></header>
    <form class="card stack" onSubmit=${(e) => { e.preventDefault(); go("v1/embeddings", body(), { texts }); }}>
      <div class="row top"><div class="grow"><${ModelSelect} models=${models} kinds=${kinds} value=${model} onValue=${want} /></div><${NumberField} inline=${false} label="Dimensions" min=${1} step=${1} placeholder="all" value=${dimensions} onValue=${setDimensions} /></div>
      <${TextArea} label="Texts, one a line" rows="6" value=${text} onValue=${set} error=${texts.length > maxTexts ? `${texts.length} texts; the table shows up to ${maxTexts}` : ""} />
      <div class="row end"><${Button} icon="code" kind="quiet" onClick=${() => show(true)}>Code<//><button class="button primary" type="submit" disabled=${state.busy || texts.length < 1 || texts.length > maxTexts}>${state.busy ? "Computing…" : "Compare"}</button></div></form>
    ${state.fault && html`<${Trouble} fault=${state.fault} />`}
    ${vectors && html`<section class="stack" aria-label="Similarity"><${Stats}><${Stat} label="Vectors" value=${vectors.length} /><${Stat} label="Dimensions" value=${vectors[0]?.length} /><${Stat} label="Tokens" value=${count(state.value.usage?.prompt_tokens)} /><${Stat} label="Took" value=${duration(state.took)} /><//>
      <div class="table" role="region" aria-label="Cosine of each pair" tabindex="0"><table class="heat"><caption class="unseen">Cosine of each pair of texts</caption><thead><tr><td></td>${state.texts.map((_, i) => html`<th scope="col" class="number">${i + 1}</th>`)}</tr></thead>
      <tbody>${near.map((row, i) => html`<tr><th scope="row"><span class="numbers">${i + 1}</span> ${state.texts[i]}</th>${row.map((v, j) => html`<td class=${`number ${heat(v)}`} title=${`${state.texts[i]} / ${state.texts[j]}`}>${v.toFixed(3)}</td>`)}</tr>`)}</tbody></table></div></section>`}
    ${code && html`<${CodeDialog} path="v1/embeddings" body=${body} onClose=${() => show(false)} />`}</div>`;
}

const documents = "Paris is the capital of France.\nA weir is a low dam across a river.\nThe Seine flows through Paris.\nGo was made at Google.";

export function Rerank({ models }) {
  const [wanted, want] = useStored("weir.playground.rerank", ""), [query, setQuery] = useState("What is the capital of France?"), [text, set] = useState(documents), [state, go] = useTry(), [code, show] = useState(false);
  const kinds = ["rerank", "embedding"], model = pick(models, kinds, wanted), texts = linesOf(text);
  if (!model) return html`<div class="page"><header><h1>Rerank</h1></header><${Empty} icon="rank" title="No model that ranks is served here"><p>A reranker or any text encoder does: <code>weir serve chat=model.gguf rank=bge-reranker.gguf</code></p><//></div>`;
  const body = () => ({ model, query, documents: texts });
  const found = state.value?.results, high = found ? Math.max(...found.map((r) => Math.abs(r.relevance_score)), 1e-9) : 1;
  return html`<div class="page"><header><h1>Rerank</h1><p class="muted">Texts by how well they answer a question.</p></header>
    <form class="card stack" onSubmit=${(e) => { e.preventDefault(); go("v1/rerank", body(), { texts }); }}>
      <${ModelSelect} models=${models} kinds=${kinds} value=${model} onValue=${want} />
      <${TextArea} label="Question" rows="2" value=${query} onValue=${setQuery} /><${TextArea} label="Texts, one a line" rows="6" value=${text} onValue=${set} />
      <div class="row end"><${Button} icon="code" kind="quiet" onClick=${() => show(true)}>Code<//><button class="button primary" type="submit" disabled=${state.busy || !texts.length || !query.trim()}>${state.busy ? "Computing…" : "Rank"}</button></div></form>
    ${state.fault && html`<${Trouble} fault=${state.fault} />`}
    ${found && html`<section aria-label="Ranking" class="stack"><p class="hint">${found.length} texts in ${duration(state.took)}</p><ol class="ranking">${found.map((r) => html`<li class="card"><span>${state.texts[r.index]}</span>
      <meter min="0" max=${high} value=${Math.max(0, r.relevance_score)} aria-label=${`Score of text ${r.index + 1}`}></meter><span class="numbers">${r.relevance_score.toFixed(4)}</span></li>`)}</ol></section>`}
    ${code && html`<${CodeDialog} path="v1/rerank" body=${body} onClose=${() => show(false)} />`}</div>`;
}
