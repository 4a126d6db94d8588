// The tokens of an answer, coloured by probability; the alternatives of the one that has the focus.
import { html, useState, useRef } from "../lib/html.js";
import { percent } from "../lib/format.js";
import { Button } from "../lib/ui.js";

const page = 500; // tokens that are drawn at once

/** Nine shades: 1 is below 1 %, 9 above 99 %. */
export function shade(logprob) {
  const p = Math.exp(logprob);
  return [0.01, 0.05, 0.15, 0.3, 0.5, 0.75, 0.9, 0.99].findIndex((limit) => p < limit) + 1 || 9;
}

/** A token's text with what cannot be seen. */
export function visible(text) { return text.replace(/\n/g, "↵").replace(/\t/g, "⇥").replace(/^ $/, "␣"); }

export function Tokens({ tokens }) {
  const [at, set] = useState(0);
  const [from, setFrom] = useState(null);
  const ref = useRef(null);
  const start = from ?? Math.max(0, tokens.length - page), shown = tokens.slice(start, start + page);
  const chosen = Math.min(Math.max(at, start), start + shown.length - 1), t = tokens[chosen];
  const move = (e) => {
    const to = { ArrowRight: chosen + 1, ArrowLeft: chosen - 1, Home: start, End: start + shown.length - 1 }[e.key];
    if (to === undefined || to < start || to >= start + shown.length) return;
    e.preventDefault();
    set(to);
    ref.current?.querySelector(`[data-at="${to}"]`)?.focus();
  };
  const mean = tokens.reduce((n, o) => n + o.p, 0) / tokens.length;
  return html`<div class="tokens-view">
    <p class="hint">Perplexity <span class="numbers">${Math.exp(-mean).toFixed(3)}</span> over ${tokens.length} tokens. Arrow keys move; the table shows what else could have come.</p>
    ${tokens.length > page && html`<div class="row"><${Button} small icon="left" disabled=${start === 0} onClick=${() => setFrom(Math.max(0, start - page))}>Earlier<//>
      <span class="hint numbers">${start + 1} – ${start + shown.length} of ${tokens.length}</span><${Button} small disabled=${start + page >= tokens.length} onClick=${() => setFrom(Math.min(tokens.length - 1, start + page))}>Later<//></div>`}
    <div class="tokens" ref=${ref} role="listbox" aria-label="Tokens of the answer" aria-orientation="horizontal" onKeyDown=${move}>
      ${shown.map((o, i) => html`<span key=${start + i} role="option" data-at=${start + i} tabindex=${start + i === chosen ? 0 : -1} aria-selected=${String(start + i === chosen)} class=${`token p${shade(o.p)}${o.r ? " thought" : ""}`}
        aria-label=${`${visible(o.t) || "empty"}, ${percent(Math.exp(o.p))}`} title=${percent(Math.exp(o.p), 2)} onClick=${() => set(start + i)} onFocus=${() => set(start + i)}>${visible(o.t)}${o.t.includes("\n") ? html`<br />` : ""}</span>`)}
    </div>
    ${t && html`<table class="alternatives"><caption>Instead of <code>${visible(t.t)}</code></caption><thead><tr><th scope="col">Token</th><th scope="col" class="number">Probability</th><th scope="col" class="number">Log</th></tr></thead>
      <tbody>${(t.top.length ? t.top : [[t.t, t.p]]).map(([text, p], i) => html`<tr key=${i} class=${text === t.t ? "taken" : ""}><td><code>${visible(text)}</code>${text === t.t ? html` <span class="hint">taken</span>` : ""}</td>
        <td class="number"><meter min="0" max="1" value=${Math.exp(p)} aria-label=${`Probability of ${visible(text) || "empty"}`}></meter> ${percent(Math.exp(p), 2)}</td><td class="number">${p.toFixed(3)}</td></tr>`)}</tbody></table>`}
  </div>`;
}
