// Markdown as elements: text of models becomes text nodes of known elements, and nothing else. Blocks are drawn one by one, so that of an
// answer that grows only its last block is read again.
import { html, Component, useState, useRef } from "./html.js";
import { CopyButton, Button } from "./ui.js";

const fence = /^ {0,3}(`{3,}|~{3,})[ \t]*([^`\s]*)[^`]*$/;
const heading = /^ {0,3}(#{1,6})(?:[ \t]+(.*))?$/;
const rule = /^ {0,3}(?:(?:\*[ \t]*){3,}|(?:-[ \t]*){3,}|(?:_[ \t]*){3,})$/;
const item = /^( *)([-*+]|\d{1,9}[.)])(?:[ \t]+(.*)|$)/;
const tableRule = /^ {0,3}\|?[ \t]*:?-+:?[ \t]*(?:\|[ \t]*:?-+:?[ \t]*)*\|?[ \t]*$/;

const maxMarked = 2000; // characters of a line that can begin or end a block; a longer one is text

/** Cuts a text into blocks: {kind, text, start}. A block's text is what it is read from, start where its lines begin. */
export function blocks(text, offset = 0) {
  const list = [];
  const all = text.slice(offset).split("\n"), begins = [];
  for (let i = 0, at = offset; i < all.length; at += all[i++].length + 1) begins.push(at);
  let lines = [], kind = "", end = null, start = offset, i = 0;
  const close = () => {
    if (lines.length) list.push({ kind: kind || "paragraph", text: lines.join("\n"), start });
    lines = []; kind = ""; end = null; start = begins[i];
  };
  for (; i < all.length; i++) {
    if (!lines.length) start = begins[i];
    const line = all[i].replace(/\r$/, "");
    if (kind === "code") {
      lines.push(line);
      const t = line.trim();
      if (t.length >= end.length && t[0] === end[0] && [...t].every((c) => c === end[0])) close();
      continue;
    }
    const long = line.length > maxMarked, opened = line.length < 200 && fence.exec(line);
    if (long && kind !== "list" && kind !== "quote") {
      if (kind === "table") close();
      lines.push(line);
      continue;
    }
    if (opened && kind !== "list") { close(); kind = "code"; end = opened[1]; lines.push(line); continue; }
    if (line.trim() === "") {
      if (kind === "list" && /^( {2,}|\t)\S/.test(all[i + 1] || "")) { lines.push(line); continue; } // the item goes on
      if (kind === "list" && item.test(all[i + 1] || "")) continue;
      close();
      continue;
    }
    if (kind === "list") {
      if (item.test(line) || /^( {2,}|\t)/.test(line)) { lines.push(line); continue; }
      if (opened || heading.test(line) || rule.test(line)) { close(); i--; continue; }
      lines.push(line);
      continue;
    }
    if (kind === "quote") { if (/^ {0,3}>/.test(line)) { lines.push(line); continue; } close(); }
    if (kind === "table") { if (line.includes("|")) { lines.push(line); continue; } close(); }
    if (heading.test(line)) { close(); list.push({ kind: "heading", text: line, start: begins[i] }); continue; }
    if (rule.test(line)) { close(); list.push({ kind: "rule", text: line, start: begins[i] }); continue; }
    if (/^ {0,3}>/.test(line)) { close(); kind = "quote"; lines.push(line); continue; }
    if (item.test(line) && !/^ {4,}/.test(line)) { close(); kind = "list"; lines.push(line); continue; }
    if (line.includes("|") && tableRule.test(all[i + 1] || "") && (all[i + 1] || "").includes("-")) { close(); kind = "table"; lines.push(line); continue; }
    lines.push(line);
  }
  close();
  return list;
}

const maxInline = 20000; // a longer paragraph is drawn as it is
const maxDepth = 6;

/** The marks inside of a paragraph. Where a mark comes next is looked for once for all that stands before it. */
export function inline(text, depth = 0) {
  if (text.length > maxInline || depth > maxDepth) return [text];
  const out = [], found = new Map();
  let plain = "", i = 0;
  const flush = () => { if (plain) out.push(plain); plain = ""; };
  const find = (mark, from) => {
    let at = found.get(mark) ?? from - 1;
    if (at >= 0 && at < from) found.set(mark, (at = text.indexOf(mark, from)));
    return at;
  };
  while (i < text.length) {
    const c = text[i];
    if (c === "\\" && /[!-/:-@[-`{-~]/.test(text[i + 1] || "")) { plain += text[i + 1]; i += 2; continue; }
    if (c === "`") {
      let n = 1;
      while (text[i + n] === "`") n++;
      const mark = "`".repeat(n), at = find(mark, i + n);
      if (at > 0) { flush(); out.push(html`<code>${text.slice(i + n, at).replace(/^ (.*) $/s, "$1")}</code>`); i = at + n; continue; }
      plain += mark; i += n;
      continue;
    }
    if ((c === "*" || c === "_" || c === "~") && !(c === "_" && /\w/.test(text[i - 1] || ""))) {
      const double = text[i + 1] === c, mark = double ? c + c : c;
      if ((double || c !== "~") && /\S/.test(text[i + mark.length] || "")) {
        let at = find(mark, i + mark.length + 1);
        if (!double) for (let tries = 0; at > 0 && tries < 8 && (text[at + 1] === c || text[at - 1] === c || (c === "_" && /\w/.test(text[at + 1] || ""))); tries++) at = text.indexOf(mark, at + (text[at + 1] === c ? 2 : 1));
        if (at > 0 && /\S/.test(text[at - 1])) {
          flush();
          const inner = inline(text.slice(i + mark.length, at), depth + 1);
          out.push(c === "~" ? html`<del>${inner}</del>` : double ? html`<strong>${inner}</strong>` : html`<em>${inner}</em>`);
          i = at + mark.length;
          continue;
        }
      }
      plain += mark; i += mark.length;
      continue;
    }
    if (c === "[" || (c === "!" && text[i + 1] === "[")) {
      const start = c === "!" ? i + 2 : i + 1, middle = find("](", start), stop = middle < 0 ? -1 : find(")", middle);
      if (middle > 0 && stop > 0 && middle - start < 1000 && stop - middle < 2000) {
        const name = text.slice(start, middle), to = text.slice(middle + 2, stop).trim().split(/\s/)[0].replace(/^<|>$/g, "");
        flush();
        out.push(isLink(to) ? html`<a href=${to} target="_blank" rel="noopener noreferrer nofollow">${c === "!" ? `${name || "image"} (image, not loaded)` : inline(name, depth + 1)}</a>` : `${name} (${to})`);
        i = stop + 1;
        continue;
      }
    }
    if (c === "\n") {
      const hard = / {2,}$/.test(plain);
      plain = plain.replace(/ +$/, "");
      flush();
      out.push(hard ? html`<br />` : "\n");
      i++;
      continue;
    }
    plain += c;
    i++;
  }
  flush();
  return out;
}

/** Only these lead anywhere: no scripts, no data, nothing relative. */
export function isLink(to) { return /^(?:https?:\/{2}|mailto:)[^\s]+$/i.test(to) && to.length < 2000; }

function cells(line) {
  const t = line.trim().replace(/^\|/, "").replace(/\|$/, "");
  const out = [];
  let cell = "", code = false;
  for (let i = 0; i < t.length; i++) {
    if (t[i] === "\\" && t[i + 1] === "|") { cell += "|"; i++; continue; }
    if (t[i] === "`") code = !code;
    if (t[i] === "|" && !code) { out.push(cell.trim()); cell = ""; continue; }
    cell += t[i];
  }
  out.push(cell.trim());
  return out.slice(0, 40);
}

function listOf(lines, depth) {
  const base = item.exec(lines[0])?.[1].length ?? 0, items = [];
  for (const line of lines) {
    const m = item.exec(line);
    if (m && m[1].length <= base + 1) items.push({ mark: m[2], lines: [m[3] ?? ""], indent: m[1].length + m[2].length + 1 });
    else if (items.length) items[items.length - 1].lines.push(line.replace(new RegExp(`^ {0,${Math.min(items[items.length - 1].indent, 12)}}`), ""));
  }
  const ordered = /\d/.test(items[0]?.mark || ""), drawn = items.map((it, i) => {
    const task = /^\[([ xX])\] (.*)$/s.exec(it.lines[0]);
    if (task) it.lines[0] = task[2];
    const tight = it.lines.every((l) => l.trim() !== "") && !it.lines.some((l, n) => n && item.test(l)) && !it.lines.some((l) => fence.test(l));
    return html`<li key=${i}>${task && html`<span class="task" role="img" aria-label=${task[1] === " " ? "open" : "done"}>${task[1] === " " ? "☐" : "☑"}</span>`}${tight ? inline(it.lines.join("\n")) : blocks(it.lines.join("\n")).map((b, n) => (n === 0 && b.kind === "paragraph" ? inline(b.text) : draw(b, depth + 1)))}</li>`;
  });
  return ordered ? html`<ol start=${parseInt(items[0].mark, 10)}>${drawn}</ol>` : html`<ul>${drawn}</ul>`;
}

function Code({ text, language }) {
  const [all, showAll] = useState(false);
  const long = text.length > 40000;
  return html`<div class="code-block"><header><span>${language || "text"}</span><${CopyButton} text=${text} label="Copy this code" /></header>
    <pre tabindex="0" role="region" aria-label=${`Code${language ? ` in ${language}` : ""}`}><code>${long && !all ? text.slice(-40000) : text}</code></pre>
    ${long && html`<footer><${Button} small onClick=${() => showAll(!all)}>${all ? "Show the end only" : `Show all ${text.length.toLocaleString("en-US")} characters`}<//></footer>`}</div>`;
}

function draw(block, depth = 0) {
  const { kind, text } = block;
  if (depth > maxDepth) return html`<p>${text}</p>`;
  switch (kind) {
    case "code": {
      const lines = text.split("\n"), m = fence.exec(lines[0]), last = lines[lines.length - 1].trim();
      const closed = lines.length > 1 && last.length >= m[1].length && [...last].every((c) => c === m[1][0]);
      return html`<${Code} language=${m[2].slice(0, 40)} text=${lines.slice(1, closed ? -1 : undefined).join("\n")} />`;
    }
    case "heading": {
      const m = heading.exec(text), level = Math.min(m[1].length + 2, 6); // the page has h1 and h2
      return html`<${`h${level}`} class=${`h${m[1].length}`}>${inline((m[2] || "").replace(/[ \t]#+[ \t]*$/, "").trim())}<//>`;
    }
    case "rule": return html`<hr />`;
    case "quote": return html`<blockquote>${blocks(text.split("\n").map((l) => l.replace(/^ {0,3}> ?/, "")).join("\n")).map((b) => draw(b, depth + 1))}</blockquote>`;
    case "list": return listOf(text.split("\n"), depth);
    case "table": {
      const [head, marks, ...body] = text.split("\n").slice(0, 400), align = cells(marks || "").map((c) => (/^:-+:$/.test(c) ? "centre" : /-:$/.test(c) ? "number" : ""));
      return html`<div class="table" role="region" aria-label="Table" tabindex="0"><table><thead><tr>${cells(head).map((c, i) => html`<th scope="col" class=${align[i]}>${inline(c)}</th>`)}</tr></thead>
        <tbody>${body.map((l) => html`<tr>${cells(l).map((c, i) => html`<td class=${align[i]}>${inline(c)}</td>`)}</tr>`)}</tbody></table></div>`;
    }
  }
  return html`<p>${inline(text)}</p>`;
}

// Block is drawn again where its text changed, and not for the sake of those beside it.
class Block extends Component {
  shouldComponentUpdate(next) { return next.block.text !== this.props.block.text || next.block.kind !== this.props.block.kind; }
  render({ block }) { return draw(block); }
}

/** The blocks of a text that may go on where another one, {text, list}, ended: only the last of those is read again. */
export function grown(before, text) {
  const last = before?.list.at(-1);
  return last && text.startsWith(before.text) ? [...before.list.slice(0, -1), ...blocks(text, last.start)] : blocks(text);
}

const step = 200; // blocks that are drawn at once

/** A text of a model. The last blocks of a long one are drawn, the others on demand. */
export function Markdown({ text }) {
  const [shown, show] = useState(step), before = useRef(null);
  const list = grown(before.current, text), hidden = Math.max(0, list.length - shown);
  before.current = { text, list };
  return html`<div class="markdown">${hidden > 0 && html`<p><${Button} small onClick=${() => show(shown + step)}>Show ${Math.min(step, hidden)} earlier parts of ${hidden}<//></p>`}
    ${list.slice(hidden).map((b, i) => html`<${Block} key=${hidden + i} block=${b} />`)}</div>`;
}
