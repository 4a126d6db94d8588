// What the server tells every second, and what of it is kept for plots. One stream for all views.
import { useEffect, useState, useRef } from "../lib/html.js";
import { follow } from "../lib/api.js";

const keptSteps = 160; // of each engine
const keptSeconds = 180;

/** {now, state, fault, engines: Map(name -> {steps, rates}), again}. now is the newest event, undefined before the first. */
export function useLive() {
  const [turn, next] = useState(0);
  const [live, set] = useState({ state: "connecting", engines: new Map() });
  const kept = useRef(new Map());
  useEffect(() => follow("admin/events", {
    state(state, fault) { set((old) => ({ ...old, state, fault })); },
    event({ event, data }) {
      let now;
      try { now = JSON.parse(data); } catch { return; }
      if (event !== "now") { set((old) => ({ ...old, fault: new Error(String(now.error || "the server cannot say how it is")) })); return; }
      kept.current = remember(kept.current, now);
      set({ state: "open", now, engines: kept.current });
    },
  }), [turn]);
  // What was shown for one key is not shown for the next one.
  return { ...live, again() { kept.current = new Map(); set({ state: "connecting", engines: kept.current }); next((n) => n + 1); } };
}

/** The plots' data with one more event; of engines that are gone nothing is kept. */
function remember(before, now) {
  const all = new Map();
  for (const e of now.engines) {
    const name = engineName(e), old = before.get(name) || { steps: [], rates: [] };
    const sum = (field) => e.steps.reduce((n, s) => n + (s[field] || 0), 0);
    const seconds = old.at ? Math.max(0.2, (Date.parse(now.time) - old.at) / 1000) : 1;
    const busy = e.steps.reduce((n, s) => n + s.seconds, 0);
    const rate = { decode: sum("decode") / seconds, prefill: sum("prefill") / seconds, busy: Math.min(1, busy / seconds), running: e.running, waiting: e.waiting };
    all.set(name, {
      at: Date.parse(now.time), steps: [...old.steps, ...e.steps].slice(-keptSteps),
      rates: [...old.rates, ...(old.at ? [rate] : [])].slice(-keptSeconds), rate,
    });
  }
  return all;
}

export function engineName(e) { return `${e.model} ${e.version}`; }

/** The prompts of a request as rows, with what their engine says; a request that no engine has yet is one row. */
export function prompts(requests) {
  return requests.flatMap((r) => (r.engine?.length ? r.engine.map((e) => ({ ...r, engine: e, key: `${r.id}/${e.id}` })) : [{ ...r, engine: null, key: r.id }]));
}
