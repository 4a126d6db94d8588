// What views other than the live ones ask: again every few seconds while the page is seen, and at once after a change.
import { useEffect, useState } from "../lib/html.js";
import { ask } from "../lib/api.js";
import { useLoad } from "../lib/hooks.js";
import { toast } from "../lib/ui.js";

/** useLoad of a path's JSON, asked again every so many seconds. missing: the server has no such path. */
export function usePoll(path, seconds = 5) {
  const loaded = useLoad((signal) => ask(path, { signal }), [path]);
  useEffect(() => {
    if (loaded.loading) return;
    const timer = setTimeout(() => { if (!document.hidden) loaded.again(); }, 1000 * seconds);
    return () => clearTimeout(timer);
  }, [loaded.value, loaded.fault, loaded.loading]);
  return { ...loaded, missing: loaded.fault?.status === 404 };
}

/** {busy, run(path, options, said)}: one change at a time; what the server says against it is shown. Resolves to the answer, or undefined. */
export function useChange(then) {
  const [busy, set] = useState(false);
  return { busy, async run(path, options, said) {
    set(true);
    try {
      const answer = await ask(path, options);
      if (said) toast(said, "good");
      then?.();
      return answer;
    } catch (fault) { toast(fault.message, "bad"); return undefined; } finally { set(false); }
  } };
}
