// Small plots as SVG: lines and bars with an axis, and sparks. Each says in words what it shows.
import { html, useState, useRef, useEffect } from "./html.js";
import { count } from "./format.js";

const pad = { left: 44, right: 8, top: 8, bottom: 20 };

// useWidth is the width that a plot has.
function useWidth(otherwise) {
  const ref = useRef(null);
  const [width, set] = useState(otherwise);
  useEffect(() => {
    if (!ref.current || typeof ResizeObserver === "undefined") return;
    const o = new ResizeObserver(([e]) => set(Math.max(120, Math.round(e.contentRect.width))));
    o.observe(ref.current);
    return () => o.disconnect();
  }, []);
  return [ref, width];
}

// ticks are round numbers from 0 to at least high.
function ticks(low, high, n = 3) {
  const span = high - low || Math.abs(high) || 1;
  const raw = span / n, power = 10 ** Math.floor(Math.log10(raw));
  const step = [1, 2, 2.5, 5, 10].find((m) => m * power >= raw) * power;
  const list = [];
  for (let v = Math.floor(low / step) * step; v < high + step * 0.999; v += step) list.push(Number(v.toPrecision(12)));
  return list;
}

// leftOf is the room that the labels of an axis take.
const leftOf = (y, format) => Math.max(pad.left, 12 + 6.5 * Math.max(...y.list.map((v) => format(v).length)));

function Frame({ label, summary, height, width, left, y, yUnit, format, xLabels, children, frameRef }) {
  const list = y.list;
  return html`<figure class="plot" ref=${frameRef}><svg role="img" aria-label=${`${label}. ${summary}`} viewBox=${`0 0 ${width} ${height}`} width=${width} height=${height}>
    ${list.map((v) => html`<g key=${v}><line class="grid" x1=${left} x2=${width - pad.right} y1=${y(v)} y2=${y(v)} /><text x=${left - 6} y=${y(v) + 4} text-anchor="end">${format(v)}</text></g>`)}
    ${(xLabels || []).map(([x, text, anchor]) => html`<text key=${text} x=${x} y=${height - 5} text-anchor=${anchor}>${text}</text>`)}
    ${children}</svg><figcaption>${label}${yUnit ? html` <span class="muted">${yUnit}</span>` : ""}</figcaption></figure>`;
}

function scale(low, high, height) {
  const list = ticks(low, high), bottom = list[0], top = list[list.length - 1];
  const y = (v) => pad.top + (height - pad.top - pad.bottom) * (1 - (v - bottom) / (top - bottom || 1));
  y.list = list;
  return y;
}

/**
 * series: [{name, values: [number | null]}] over the same steps; x: labels of the first and last step. Up to 4 series have colours of
 * their own (class s0 … s3). zero: the axis begins at 0, the default.
 */
export function Lines({ label, unit, series, x = ["", ""], height = 140, zero = true, format = count }) {
  const [ref, width] = useWidth(420);
  const all = series.flatMap((s) => s.values).filter((v) => v !== null && Number.isFinite(v));
  const low = zero ? Math.min(0, ...all) : Math.min(...all), most = Math.max(...all, zero ? 0 : -Infinity), high = most > low ? most : low + 1;
  const y = scale(all.length ? low : 0, all.length ? high : 1, height);
  const left = leftOf(y, format), at = (i, n) => left + (width - left - pad.right) * (n < 2 ? 0.5 : i / (n - 1));
  const path = (values) => {
    let d = "", pen = false;
    values.forEach((v, i) => {
      if (v === null || !Number.isFinite(v)) { pen = false; return; }
      d += `${pen ? "L" : "M"}${at(i, values.length).toFixed(1)} ${y(v).toFixed(1)}`;
      pen = true;
    });
    return d && !d.includes("L") ? `${d}h0.01` : d; // one value is a dot
  };
  const last = (s) => { for (let i = s.values.length - 1; i >= 0; i--) if (s.values[i] !== null) return s.values[i]; return null; };
  const summary = all.length ? series.map((s) => `${s.name}: now ${format(last(s))}`).join(", ") + `, highest ${format(Math.max(...all))}` : "nothing yet";
  return html`<div class="plotted"><${Frame} ...${{ label, summary, height, width, left, y, yUnit: unit, format, frameRef: ref, xLabels: [[left, x[0], "start"], [width - pad.right, x[1], "end"]] }}>
    ${series.map((s, i) => html`<path key=${s.name} class=${`line s${i % 4}`} d=${path(s.values)} />`)}<//>
    ${series.length > 1 && html`<ul class="legend">${series.map((s, i) => html`<li key=${s.name}><span class=${`dot s${i % 4}`}></span>${s.name}</li>`)}</ul>`}</div>`;
}

/** bars: [{label, value, mark?}]; marked ones stand out. Labels are shown where there is room. legend: what plain and marked bars are. */
export function Bars({ label, unit, bars, height = 120, format = count, x, legend }) {
  const [ref, width] = useWidth(420);
  const values = bars.map((b) => b.value), y = scale(0, Math.max(...values) || 1, height);
  const left = leftOf(y, format), room = width - left - pad.right, step = room / Math.max(bars.length, 1), thick = Math.max(1, Math.min(step - 1, step * 0.8));
  const labelled = !x && step >= 40;
  const xLabels = x ? [[left, x[0], "start"], [width - pad.right, x[1], "end"]] : labelled ? bars.map((b, i) => [left + step * (i + 0.5), b.label, "middle"]) : [];
  const summary = bars.length ? `${bars.length} bars, highest ${format(Math.max(...values))}` : "nothing yet";
  return html`<div class="plotted"><${Frame} ...${{ label, summary, height, width, left, y, yUnit: unit, format, frameRef: ref, xLabels }}>
    ${bars.map((b, i) => html`<rect key=${i} class=${b.mark ? "bar marked" : "bar"} x=${(left + step * i + (step - thick) / 2).toFixed(1)} y=${y(b.value).toFixed(1)}
      width=${thick.toFixed(1)} height=${Math.max(0, y(y.list[0]) - y(b.value)).toFixed(1)}><title>${`${b.label}: ${format(b.value)}`}</title></rect>`)}<//>
    ${legend && html`<ul class="legend"><li><span class="dot s0"></span>${legend[0]}</li><li><span class="dot s1"></span>${legend[1]}</li></ul>`}</div>`;
}

/** A line without axes, for a place in a text or a table. */
export function Spark({ label, values, width = 96, height = 20 }) {
  const high = Math.max(...values, 1e-9);
  const d = values.map((v, i) => `${i ? "L" : "M"}${((i / Math.max(values.length - 1, 1)) * width).toFixed(1)} ${(height - 2 - (v / high) * (height - 4)).toFixed(1)}`).join("");
  return html`<svg class="spark" role="img" aria-label=${label} viewBox=${`0 0 ${width} ${height}`} width=${width} height=${height}><path class="line s0" d=${d} /></svg>`;
}

/** How much of a whole is used: parts [{name, value, kind?}] of whole. */
export function Meter({ label, parts, whole, format = count }) {
  const used = parts.reduce((n, p) => n + p.value, 0);
  let x = 0;
  return html`<div class="meter"><svg role="img" aria-label=${`${label}: ${format(used)} of ${format(whole)}`} viewBox="0 0 100 4" preserveAspectRatio="none">
    <rect class="ground" width="100" height="4" />${parts.map((p, i) => { const w = whole ? Math.min(100 - x, (100 * p.value) / whole) : 0; const r = html`<rect key=${p.name} class=${`part ${p.kind || `s${i % 4}`}`} x=${x} width=${w} height="4"><title>${`${p.name}: ${format(p.value)}`}</title></rect>`; x += w; return r; })}</svg>
    <p class="hint">${label} <span class="numbers">${format(used)} of ${format(whole)}</span></p></div>`;
}
