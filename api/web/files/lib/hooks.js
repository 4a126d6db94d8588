// State that components share or keep.
import { useState, useEffect, useCallback, useRef } from "./html.js";

export function stored(name, otherwise) {
  try { const text = localStorage.getItem(name); return text === null ? otherwise : JSON.parse(text); } catch { return otherwise; }
}

export function store(name, value) {
  try { value === undefined ? localStorage.removeItem(name) : localStorage.setItem(name, JSON.stringify(value)); return true; } catch { return false; }
}

/** useState that outlives the page: localStorage under name. */
export function useStored(name, initial) {
  const [value, set] = useState(() => stored(name, initial));
  return [value, useCallback((next) => set((old) => {
    const v = typeof next === "function" ? next(old) : next;
    store(name, v);
    return v;
  }), [name])];
}

/** Where the page is: "#/models/x?y=1" is {path: ["models", "x"], query: URLSearchParams}. */
function readRoute() {
  const [path, query] = location.hash.replace(/^#\/?/, "").split("?");
  const parts = path.split("/").filter(Boolean).map((p) => { try { return decodeURIComponent(p); } catch { return p; } });
  return { path: parts, query: new URLSearchParams(query || "") };
}

export function useRoute() {
  const [route, set] = useState(readRoute);
  useEffect(() => {
    const on = () => set(readRoute());
    addEventListener("hashchange", on);
    return () => removeEventListener("hashchange", on);
  }, []);
  return route;
}

export function go(...parts) { location.hash = "/" + parts.map(encodeURIComponent).join("/"); }

/** What a promise gives: {value, fault, loading, again}. load(signal) runs once per change of keys, and by again(). */
export function useLoad(load, keys = []) {
  const [state, set] = useState({ loading: true });
  const [turn, next] = useState(0);
  useEffect(() => {
    const c = new AbortController();
    set((old) => ({ ...old, loading: true }));
    load(c.signal).then((value) => !c.signal.aborted && set({ value, loading: false }),
      (fault) => !c.signal.aborted && set({ fault, loading: false }));
    return () => c.abort();
  }, [...keys, turn]);
  return { ...state, again: useCallback(() => next((t) => t + 1), []) };
}

/** Calls back at most once per drawn frame, however often it is asked. */
export function useFrame() {
  const asked = useRef(0);
  const [, draw] = useState(0);
  useEffect(() => () => cancelAnimationFrame(asked.current), []);
  return useCallback(() => {
    if (asked.current) return;
    asked.current = requestAnimationFrame(() => { asked.current = 0; draw((n) => n + 1); });
  }, []);
}

/** Whether a media query holds. */
export function useMedia(query) {
  const [holds, set] = useState(() => matchMedia(query).matches);
  useEffect(() => {
    const m = matchMedia(query), on = () => set(m.matches);
    on();
    m.addEventListener("change", on);
    return () => m.removeEventListener("change", on);
  }, [query]);
  return holds;
}
