(() => {
  const faults = [], seen = (e) => e.checkVisibility({ visibilityProperty: true, opacityProperty: true }) && !e.closest(".unseen, .skip, [inert]");
  const name = (e) => `${e.localName}${e.id ? `#${e.id}` : ""} ${JSON.stringify((e.ariaLabel || e.innerText || e.value || "").slice(0, 40))}`;
  // What scrolls by itself may hold more than it shows.
  const scrolls = (e, way) => { for (let p = e.parentElement; p; p = p.parentElement) if (/auto|scroll/.test(getComputedStyle(p)[`overflow${way}`]) && p.id !== "view") return p; return null; };
  if (document.documentElement.scrollWidth > innerWidth + 1) faults.push(`the page is ${document.documentElement.scrollWidth} wide, its window ${innerWidth}`);
  const view = document.getElementById("view");
  if (view && view.scrollWidth > view.clientWidth + 1) faults.push(`the view is ${view.scrollWidth} wide and ${view.clientWidth} are shown`);
  const top = document.querySelector("dialog[open]") || document;
  for (const e of top.querySelectorAll("button, a[href], input, select, textarea, summary")) {
    const r = e.getBoundingClientRect();
    if (!seen(e) || r.width === 0 || e.closest("svg")) continue;
    const x = r.left + r.width / 2, y = r.top + r.height / 2;
    if (x < 0 || y < 0 || x >= innerWidth || y >= innerHeight) { if (!scrolls(e, "X") && (r.right > innerWidth + 1 || r.left < -1)) faults.push(`${name(e)} lies beside the window`); continue; }
    const hit = document.elementFromPoint(x, y), around = scrolls(e, "X");
    if (around) { const a = around.getBoundingClientRect(); if (x < a.left || x > a.right || y < a.top || y > a.bottom) continue; }
    if (hit && hit !== e && !e.contains(hit) && !hit.contains(e) && !(e.labels && [...e.labels].some((l) => l.contains(hit))) && !hit.closest(".toasts, .bar, .side, .veil, .composer, #settings")) faults.push(`${name(e)} lies under ${name(hit)}`);
  }
  for (const e of top.querySelectorAll("h1, h2, h3, p, td, th, dt, dd, li, label, .badge, .button")) {
    if (!seen(e)) continue;
    const s = getComputedStyle(e);
    if (e.scrollWidth > e.clientWidth + 2 && e.clientWidth > 0 && s.overflowX !== "visible" && !/auto|scroll/.test(s.overflowX) && s.textOverflow !== "ellipsis") faults.push(`${name(e)} is cut off`);
    else if (e.scrollWidth > e.clientWidth + 2 && e.clientWidth > 0 && s.display !== "inline" && !scrolls(e, "X") && !e.querySelector("svg, .table")) faults.push(`${name(e)} does not fit into its box: ${e.scrollWidth} of ${e.clientWidth}`);
  }
  return [...new Set(faults)].slice(0, 8).join("; ");
})
