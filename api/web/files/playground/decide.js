// Decisions to try: questions about one input, each answered with probabilities and no text.
import { html, useState } from "../lib/html.js";
import { Button, Select, TextArea, TextField, Empty, Trouble, Stats, Stat, Badge } from "../lib/ui.js";
import { useStored } from "../lib/hooks.js";
import { count, duration, percent } from "../lib/format.js";
import { CodeDialog } from "./chat.js";
import { useTry, ModelSelect, pick } from "./vectors.js";

const kinds = [["predicate", "True or false"], ["choice", "One of some"], ["score", "A score"]];
const first = [
  { type: "predicate", name: "urgent", instructions: "Does the writer need an answer today?", options: "" },
  { type: "choice", name: "topic", instructions: "What is the message about?", options: "billing\nlogin\nshipping\nother" },
  { type: "score", name: "tone", instructions: "How friendly is the message?", options: "hostile\nneutral\nfriendly" },
];
const letter = "My parcel should have come on Monday, and I leave for a trip this evening. Where is it? Please help!";

function question(q) {
  const list = q.options.split("\n").map((l) => l.trim()).filter(Boolean);
  const base = { type: q.type, ...(q.name ? { name: q.name } : {}), instructions: q.instructions };
  if (q.type === "choice") return { ...base, choices: list.map((value) => ({ value })) };
  if (q.type === "score") return { ...base, levels: list.map((label) => ({ label })) };
  return base;
}

function Answer({ answer, asked }) {
  const rows = answer.type === "predicate" ? [["true", answer.probability], ["false", 1 - answer.probability]]
    : (answer.probabilities || []).map((p) => [String(p.label ?? p.value), p.probability]);
  const best = rows.reduce((a, b) => (b[1] > a[1] ? b : a), ["", -1])[0];
  return html`<section class="card stack" aria-label=${answer.name || asked}><header class="row"><h2 class="grow">${answer.name || asked}</h2>
      ${answer.type === "refusal" ? html`<${Badge} kind="warn">refused<//>` : html`<${Badge} kind="tint">${answer.type === "score" && typeof answer.score === "number" ? `score ${answer.score.toFixed(2)}` : best}<//>`}</header>
    <p class="hint">${asked}</p><ul class="odds">${rows.map(([label, p]) => html`<li key=${label}><span>${label}</span><meter min="0" max="1" value=${p} aria-label=${`Probability of ${label}`}></meter><span class="numbers">${percent(p)}</span></li>`)}</ul></section>`;
}

export function Decide({ models }) {
  const [wanted, want] = useStored("weir.playground.decide", ""), [input, setInput] = useState(letter), [questions, set] = useState(first), [state, go] = useTry(), [code, show] = useState(false);
  const usable = ["generate", "decide", "classify", "rerank"], model = pick(models, usable, wanted);
  const put = (i, changes) => set(questions.map((q, n) => (n === i ? { ...q, ...changes } : q)));
  const body = () => ({ model, input, questions: questions.map(question) });
  if (!model) return html`<div class="page"><header><h1>Decisions</h1></header><${Empty} icon="decide" title="No model that decides is served here" /></div>`;
  const unknown = state.fault?.code === "unknown_url" || state.fault?.status === 404 && !state.fault.param;
  return html`<div class="page"><header><h1>Decisions</h1><p class="muted">Questions about one text. The answers are probabilities; no text is generated.</p></header>
    <form class="stack" onSubmit=${(e) => { e.preventDefault(); go("v1/decisions", body(), { asked: questions.map((q) => q.instructions) }); }}>
      <div class="card stack"><${ModelSelect} models=${models} kinds=${usable} value=${model} onValue=${want} /><${TextArea} label="Text" rows="4" value=${input} onValue=${setInput} /></div>
      ${questions.map((q, i) => html`<fieldset key=${i} class="card stack"><legend class="unseen">Question ${i + 1}</legend>
        <div class="row top"><div class="grow"><${TextField} label="Question" value=${q.instructions} onValue=${(instructions) => put(i, { instructions })} spellcheck=${true} /></div>
          <${Select} label="Answer" value=${q.type} options=${kinds} onValue=${(type) => put(i, { type })} /><${Button} kind="quiet" icon="trash" label=${`Remove question ${i + 1}`} disabled=${questions.length < 2} onClick=${() => set(questions.filter((_, n) => n !== i))} /></div>
        ${q.type !== "predicate" && html`<${TextArea} label=${q.type === "choice" ? "Choices, one a line" : "Levels from low to high, one a line"} rows="3" value=${q.options} onValue=${(options) => put(i, { options })} />`}</fieldset>`)}
      <div class="row end"><${Button} icon="plus" kind="quiet" disabled=${questions.length >= 20} onClick=${() => set([...questions, { type: "predicate", name: "", instructions: "", options: "" }])}>Question<//>
        <${Button} icon="code" kind="quiet" onClick=${() => show(true)}>Code<//><button class="button primary" type="submit" disabled=${state.busy || !input.trim() || questions.some((q) => !q.instructions.trim())}>${state.busy ? "Deciding…" : "Decide"}</button></div></form>
    ${state.fault && (unknown ? html`<${Empty} icon="decide" title="This server does not answer decisions"><p>It has no <code>/v1/decisions</code>. A newer weir does.</p><//>` : html`<${Trouble} fault=${state.fault} />`)}
    ${state.value && html`<section class="stack" aria-label="Answers"><${Stats}><${Stat} label="Questions" value=${state.value.answers.length} /><${Stat} label="Input tokens" value=${count(state.value.usage?.input_tokens)} /><${Stat} label="Took" value=${duration(state.took)} /><//>
      <div class="answers">${state.value.answers.map((a, i) => html`<${Answer} key=${i} answer=${a} asked=${state.asked[i]} />`)}</div></section>`}
    ${code && html`<${CodeDialog} path="v1/decisions" body=${body} onClose=${() => show(false)} />`}</div>`;
}
