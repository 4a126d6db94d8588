// Plots of the console alone: the steps of an engine, and who has the blocks of its KV cache.
import { html, useMemo } from "../lib/html.js";
import { count, duration } from "../lib/format.js";

/** The last steps: rows of prompts and of sequences that decode, and below how long each took beside the target. */
export function Steps({ steps, target }) {
  const width = 480, top = 84, gap = 14, low = 46, thick = width / Math.max(60, steps.length);
  const most = Math.max(...steps.map((s) => s.prefill + s.decode + (s.draft || 0)), 1), took = Math.max(...steps.map((s) => s.seconds), 1e-6);
  const drawn = target > 0 && target <= 4 * took, longest = drawn ? Math.max(took, target) : took; // a target far above would leave no room for the steps
  const last = steps[steps.length - 1];
  const words = last ? `The last of ${steps.length} steps had ${last.prefill} rows of prompts and ${last.decode} of answers, in ${duration(1000 * last.seconds)}` : "No step yet";
  const bars = steps.map((s, i) => {
    const x = width - (steps.length - i) * thick, w = Math.max(0.6, thick - 0.6), h = (n) => (top * n) / most, late = target && s.seconds > target;
    const title = `${s.prefill} of prompts, ${s.decode} of answers${s.draft ? `, ${s.draft} drafts` : ""}: ${duration(1000 * s.seconds)}${s.estimate ? `, expected ${duration(1000 * s.estimate)}` : ""}`;
    return html`<g key=${`${s.at}/${i}`}><title>${title}</title><rect class="part s0" x=${x} width=${w} y=${top - h(s.decode)} height=${h(s.decode)} />
      <rect class="part s1" x=${x} width=${w} y=${top - h(s.decode + s.prefill)} height=${h(s.prefill)} />
      ${s.draft > 0 && html`<rect class="part s2" x=${x} width=${w} y=${top - h(s.decode + s.prefill + s.draft)} height=${h(s.draft)} />`}
      <rect class=${late ? "part s3" : "part ground"} x=${x} width=${w} y=${top + gap + low - (low * s.seconds) / longest} height=${(low * s.seconds) / longest} /></g>`;
  });
  const line = drawn ? top + gap + low - (low * target) / longest : 0;
  return html`<figure class="plot steps"><figcaption>Steps <span class="muted">rows, up to ${count(most)}; below the time of each, up to ${duration(1000 * longest)}</span></figcaption>
    <svg role="img" aria-label=${words} viewBox=${`0 0 ${width} ${top + gap + low}`} preserveAspectRatio="none">${bars}${drawn && html`<line class="target" x1="0" x2=${width} y1=${line} y2=${line} />`}</svg>
    <ul class="legend"><li><span class="dot s0"></span>answers</li><li><span class="dot s1"></span>prompts</li><li><span class="dot s2"></span>drafts</li>
      ${target > 0 && (drawn ? html`<li><span class="dash"></span>target ${duration(1000 * target)}</li><li><span class="dot s3"></span>longer than that</li>` : html`<li>target ${duration(1000 * target)}, far above</li>`)}</ul></figure>`;
}

const cells = 240;

/** The KV cache as cells of equally many blocks, by tenant; then cached prefixes that nothing uses, and what is free. */
export function Blocks({ engine }) {
  const parts = useMemo(() => owners(engine), [engine]);
  const list = cellsOf(parts, engine.kv_blocks);
  const words = parts.map((p) => `${p.name}: ${count(p.blocks)}`).join(", ");
  return html`<figure class="blocks"><figcaption>KV cache <span class="muted">${count(engine.kv_blocks)} blocks of ${count(engine.block_tokens)} tokens</span></figcaption>
    <div class="map" role="img" aria-label=${`Blocks: ${words}`}>${list.map((kind, i) => html`<span key=${i} class=${`cell ${kind}`}></span>`)}</div>
    <ul class="legend">${parts.map((p) => html`<li key=${p.name}><span class=${`cell ${p.kind}`}></span>${p.name} <span class="numbers">${count(p.blocks)}</span></li>`)}</ul></figure>`;
}

// The four tenants with the most blocks have a colour each.
function owners(engine) {
  const named = engine.kv_holders.filter((h) => !h.others), shown = named.slice(0, 4), rest = engine.kv_holders.filter((h) => !shown.includes(h));
  const parts = shown.map((h, i) => ({ name: h.tenant || "no tenant", blocks: h.kv_blocks, kind: `t${i}` }));
  if (rest.length) parts.push({ name: `${count(rest.reduce((n, h) => n + (h.others || 1), 0))} more tenants`, blocks: rest.reduce((n, h) => n + h.kv_blocks, 0), kind: "t4" });
  const own = parts.reduce((n, p) => n + p.blocks, 0);
  const shared = Math.max(0, engine.kv_blocks_referenced - own);
  if (shared) parts.push({ name: "shared by several", blocks: shared, kind: "shared" });
  parts.push({ name: "cached prefixes", blocks: engine.kv_blocks_cached, kind: "cached" }, { name: "free", blocks: engine.kv_blocks_free, kind: "free" });
  return parts;
}

// Each part has a cell at least, where it has a block.
function cellsOf(parts, whole) {
  const list = [];
  for (const p of parts) {
    const n = p.blocks ? Math.max(1, Math.round((cells * p.blocks) / whole)) : 0;
    for (let i = 0; i < n && list.length < cells; i++) list.push(p.kind);
  }
  while (list.length < cells) list.push("free");
  return list;
}
