// One turn of a conversation as it is shown.
import { html, useState, useRef, useEffect } from "../lib/html.js";
import { Button, CopyButton, Disclosure, Trouble, Icon, TextArea, Badge, Stats, Stat } from "../lib/ui.js";
import { Bars } from "../lib/chart.js";
import { count, duration } from "../lib/format.js";
import { Markdown } from "../lib/markdown.js";
import { Tokens } from "./tokens.js";
import { branchesOf } from "./tree.js";
import { rate, quantile } from "./run.js";

const roles = { user: "You", assistant: "Answer", tool: "Result of a tool", system: "System" };

function Branches({ conversation, node, onChoose }) {
  const { list, at } = branchesOf(conversation, node);
  if (list.length < 2) return null;
  return html`<span class="branches" role="group" aria-label="Branches of this turn"><${Button} kind="quiet" small icon="left" label="Branch before" disabled=${at === 0} onClick=${() => onChoose(list[at - 1])} />
    <span class="numbers">${at + 1} / ${list.length}</span><${Button} kind="quiet" small icon="right" label="Next branch" disabled=${at === list.length - 1} onClick=${() => onChoose(list[at + 1])} /></span>`;
}

const maxSaid = 20000; // characters of a turn that are drawn at once

function Said({ text }) {
  const [all, showAll] = useState(false);
  const long = text.length > maxSaid;
  return html`<div class="said">${long && !all ? text.slice(0, maxSaid) : text}${long && html`<p><${Button} small onClick=${() => showAll(!all)}>${all ? "Show less" : `Show all ${count(text.length)} characters`}<//></p>`}</div>`;
}

function Editor({ text, label, onSave, onClose, yes }) {
  const [value, set] = useState(text), ref = useRef(null);
  useEffect(() => { ref.current?.querySelector("textarea")?.focus(); }, []);
  return html`<form class="editor" ref=${ref} onSubmit=${(e) => { e.preventDefault(); onSave(value); }} onKeyDown=${(e) => { if (e.key === "Escape") onClose(); if (e.key === "Enter" && (e.ctrlKey || e.metaKey)) onSave(value); }}>
    <${TextArea} label=${label} rows="4" value=${value} onValue=${set} /><div class="row end"><${Button} small onClick=${onClose}>Cancel<//><button type="submit" class="button primary small">${yes}</button></div></form>`;
}

/** What is known of a run before its first token. */
function Waiting({ run }) {
  const w = run?.waiting;
  const text = !w ? "Waiting for the first token" : w.position ? `In the queue, place ${w.position}` : w.prompt ? `Reading the prompt: ${count(w.prefilled)} of ${count(w.prompt)} tokens${w.cached ? `, ${count(w.cached)} from the cache` : ""}` : "Waiting";
  return html`<div class="waiting" role="status"><span class="spinner"></span><span>${text}</span>${w?.prompt ? html`<progress max=${w.prompt} value=${w.prefilled} aria-label="Prompt that was read"></progress>` : ""}</div>`;
}

function Call({ call, result, onResult, busy }) {
  const [value, set] = useState("");
  let shown = call.arguments;
  try { shown = JSON.stringify(JSON.parse(call.arguments), null, 2); } catch { /* it is still coming, or is no JSON */ }
  return html`<section class="call" aria-label=${`Call of ${call.name}`}><header><${Icon} name="tool" /><strong>${call.name || "…"}</strong><${CopyButton} text=${call.arguments} label="Copy the arguments" /></header>
    <pre tabindex="0" role="region" aria-label="Arguments"><code>${shown}</code></pre>
    ${onResult && result === undefined && html`<form onSubmit=${(e) => { e.preventDefault(); onResult(call, value); }}><${TextArea} label=${`Result of ${call.name}`} hint="What the tool would answer; the model goes on with it once every call has a result" rows="2" spellcheck=${false} value=${value} onValue=${set} />
      <div class="row end"><button type="submit" class="button primary small" disabled=${busy}>Send the result</button></div></form>`}
    ${result !== undefined && html`<p class="hint">Result kept: <code>${result.slice(0, 200)}</code></p>`}</section>`;
}

function figures(node) {
  const s = node.stats || {}, speed = rate(s), list = [];
  if (s.first) list.push(`first token ${duration(s.first)}`);
  if (speed) list.push(`${speed.toFixed(1)} tokens/s`);
  const n = s.output ?? s.pieces;
  if (n) list.push(`${count(n)} tokens`);
  if (s.cached) list.push(`${count(s.cached)} of ${count(s.prompt)} cached`);
  return list;
}

const ends = { length: "stopped at the limit of tokens", content_filter: "ended by a policy", tool_calls: "", stop: "" };

function Details({ node }) {
  const s = node.stats || {}, gaps = node.gaps || [], slow = quantile(gaps, 0.99);
  return html`<div class="details"><${Stats} label="Figures of this answer">
      <${Stat} label="First token" value=${duration(s.first)} /><${Stat} label="Whole answer" value=${duration(s.spent)} /><${Stat} label="Tokens/s" value=${rate(s)?.toFixed(1) ?? "–"} />
      <${Stat} label="Prompt tokens" value=${count(s.prompt)} /><${Stat} label="From the cache" value=${count(s.cached)} /><${Stat} label="Answer tokens" value=${count(s.output ?? s.pieces)} />
      ${s.thought ? html`<${Stat} label="Of thoughts" value=${count(s.thought)} />` : ""}
      <${Stat} label="Gap, median" value=${duration(quantile(gaps, 0.5))} /><${Stat} label="Gap, longest" value=${duration(gaps.length ? Math.max(...gaps) : null)} /><//>
    ${gaps.length > 1 && html`<${Bars} label="Gaps between tokens" unit="ms, as they came here" height=${110} x=${["first", "last"]} bars=${gaps.map((v, i) => ({ label: `Gap ${i + 1}`, value: v, mark: v > slow && v > 20 }))} format=${(v) => count(Math.round(v * 10) / 10)} />`}
    <p class="hint">${[node.model && `Model ${node.model}`, node.version && `version ${node.version}`, node.requestId && `request ${node.requestId}`, node.finish && `ended by ${node.finish}`].filter(Boolean).join(" · ")}</p>
    ${node.warnings && html`<p class="hint">Warnings: ${node.warnings}</p>`}
    ${node.tokens?.length ? html`<${Tokens} tokens=${node.tokens} />` : html`<p class="hint">Switch on log-probabilities in the settings to see the tokens of the next answer and what else could have come.</p>`}</div>`;
}

export function Turn({ conversation, node, busy, actions, results }) {
  const [editing, edit] = useState(false), [details, show] = useState(false), [raw, setRaw] = useState(false);
  const running = node.state === "running", answer = node.role === "assistant";
  const folded = node.reasoning && (running ? !node.content : false);
  const list = figures(node);
  return html`<article class=${`turn ${node.role}`} aria-label=${roles[node.role]} aria-busy=${String(running)}>
    <h2 class="unseen">${roles[node.role]}</h2>
    ${node.role === "tool" && html`<p class="hint"><${Icon} name="tool" /> Result of ${node.tool || "a tool"}</p>`}
    ${node.reasoning && html`<${Disclosure} class="thoughts" open=${folded} title=${running && !node.content ? "Thinking…" : `Thoughts${node.stats?.thought ? `, ${count(node.stats.thought)} tokens` : ""}`}><div class="thought-text">${node.reasoning.slice(-20000)}</div><//>`}
    ${editing ? html`<${Editor} text=${node.content} label=${answer ? "Change the answer" : "Change the turn"} yes=${answer ? "Keep as a branch" : "Send as a branch"} onClose=${() => edit(false)} onSave=${(text) => { edit(false); actions.edit(node, text); }} />`
    : answer ? (raw ? html`<pre class="raw" tabindex="0" role="region" aria-label="Text of the answer">${node.content.slice(-100000)}</pre>` : html`<${Markdown} text=${node.content} />`) : html`<${Said} text=${node.content} />`}
    ${node.refusal && html`<p class="note">${node.refusal}</p>`}
    ${(node.calls || []).filter(Boolean).map((c, i) => html`<${Call} key=${i} call=${c} busy=${busy} result=${results?.get(c.id)} onResult=${!running && results && ((call, text) => actions.result(node, call, text))} />`)}
    ${running && !node.content && !node.reasoning && !node.calls?.length && html`<${Waiting} run=${node.run} />`}
    ${node.fault && html`<${Trouble} fault=${node.fault} title=${node.content ? "The answer broke off" : "There is no answer"} onAgain=${() => actions.again(node)} />`}
    ${!editing && html`<footer><${Branches} conversation=${conversation} node=${node} onChoose=${actions.choose} />
      ${!running && html`<${CopyButton} text=${node.content} label="Copy the text" />`}
      ${!running && node.role !== "tool" && html`<${Button} kind="quiet" small icon="edit" label=${answer ? "Change the answer" : "Change and send again"} disabled=${busy && !answer} onClick=${() => edit(true)} />`}
      ${answer && !running && html`<${Button} kind="quiet" small icon="again" label="Answer again" disabled=${busy} onClick=${() => actions.again(node)} />
        <${Button} kind="quiet" small icon="code" label=${raw ? "Show as text with marks" : "Show the plain text"} aria-pressed=${String(raw)} onClick=${() => setRaw(!raw)} />
        <${Button} kind="quiet" small icon="plot" label=${details ? "Hide the figures and tokens" : "Show the figures and tokens"} aria-pressed=${String(details)} onClick=${() => show(!details)} />`}
      ${!running && html`<${Button} kind="quiet" small icon="trash" label="Remove this turn and what follows" disabled=${busy} onClick=${() => actions.remove(node)} />`}
      ${answer && html`<span class="figures numbers">${node.state === "stopped" && html`<${Badge} kind="warn">stopped<//> `}${ends[node.finish] ? html`<${Badge} kind="warn">${ends[node.finish]}<//> ` : ""}${list.join(" · ")}</span>`}</footer>`}
    ${details && !running && html`<${Details} node=${node} />`}
  </article>`;
}
