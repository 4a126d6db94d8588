// Numbers, sizes and times as people read them.

export function count(n) {
  if (n === undefined || n === null || Number.isNaN(n)) return "–";
  return Number(n).toLocaleString("en-US", n !== 0 && Math.abs(n) < 1 ? { maximumSignificantDigits: 3 } : { maximumFractionDigits: 2 });
}

/** 1.2k, 3.4M: for places with little room. */
export function short(n) {
  for (const [limit, unit] of [[1e9, "G"], [1e6, "M"], [1e3, "k"]]) if (n >= limit) return trim(n / limit) + unit;
  return count(n);
}

function trim(n) { return n >= 100 ? n.toFixed(0) : n >= 10 ? n.toFixed(1).replace(/\.0$/, "") : n.toFixed(2).replace(/\.?0+$/, ""); }

export function bytes(n) {
  for (const [limit, unit] of [[2 ** 40, "TiB"], [2 ** 30, "GiB"], [2 ** 20, "MiB"], [2 ** 10, "KiB"]]) if (n >= limit) return `${trim(n / limit)} ${unit}`;
  return `${count(n)} B`;
}

/** Milliseconds as 850 ms, 1.25 s, 2 min 5 s, 3 h 4 min. */
export function duration(ms) {
  if (ms === undefined || ms === null || !Number.isFinite(ms)) return "–";
  if (ms === 0) return "0 ms";
  if (ms < 1) return `${ms.toFixed(2)} ms`;
  if (ms < 1000) return `${ms < 10 ? ms.toFixed(1) : Math.round(ms)} ms`;
  const s = ms / 1000;
  if (s < 60) return `${trim(s)} s`;
  if (s < 3600) return `${Math.floor(s / 60)} min ${Math.round(s % 60)} s`;
  if (s < 86400) return `${Math.floor(s / 3600)} h ${Math.round((s % 3600) / 60)} min`;
  return `${Math.floor(s / 86400)} d ${Math.round((s % 86400) / 3600)} h`;
}

export function percent(p, digits = 1) { return `${(100 * p).toFixed(digits)} %`; }

/** A moment as 14:03 today, else with its day. */
export function moment(ms) {
  const d = new Date(ms), today = new Date();
  const time = d.toLocaleTimeString([], { hour: "2-digit", minute: "2-digit" });
  return d.toDateString() === today.toDateString() ? time : `${d.toLocaleDateString([], { day: "numeric", month: "short" })} ${time}`;
}
