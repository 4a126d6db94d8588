// Each view of the pages, looked at by axe: node pages.mjs API_URL ADMIN_URL, with KEY, CHROMIUM and PICTURES set.
import fs from "node:fs";
import path from "node:path";
import { createRequire } from "node:module";
import { chromium } from "playwright-core";
import { changed } from "./compare.mjs";
import { fixtures, views as ofConsole } from "./console.mjs";

const [, , api, admin] = process.argv;
const { KEY, CHROMIUM, PICTURES, AGAINST, CHANGED } = process.env;
const axeSource = fs.readFileSync(createRequire(import.meta.url).resolve("axe-core/axe.min.js"), "utf8");
const layout = fs.readFileSync(new URL("layout.js", import.meta.url), "utf8"); // .ci/pages has it
const rules = { type: "tag", values: ["wcag2a", "wcag2aa", "wcag21a", "wcag21aa", "wcag22aa", "best-practice"] };
// A dark page and a wide one have the elements of a light one of a usual width: colours and places differ, so axe is asked about these alone.
const colours = { type: "rule", values: ["color-contrast", "link-in-text-block"] }, places = { type: "rule", values: ["target-size", "scrollable-region-focusable"] };
const looks = {
  light: { colorScheme: "light", viewport: { width: 1280, height: 800 }, rules },
  dark: { colorScheme: "dark", viewport: { width: 1280, height: 800 }, rules: colours },
  phone: { colorScheme: "light", viewport: { width: 390, height: 844 }, hasTouch: true, rules },
  "phone-dark": { colorScheme: "dark", viewport: { width: 390, height: 844 }, hasTouch: true, rules: colours },
  wide: { colorScheme: "light", viewport: { width: 1920, height: 1080 }, rules: places },
};

let faults = 0, seen = 0;
const fault = (text) => { faults++; console.log(`FAULT ${text}`); };

async function violations(page, rules) {
  await page.evaluate(`${axeSource};0`);
  const found = await page.evaluate((runOnly) => axe.run(document, { runOnly, resultTypes: ["violations"] }), rules);
  return found.violations.map((v) => `${v.id} (${v.impact}) at ${v.nodes.slice(0, 3).map((n) => n.target.join(" ")).join(", ")}: ${v.nodes[0].failureSummary?.split("\n")[1]?.trim() ?? v.help}`);
}

async function look(page, name, rules) {
  seen++;
  await page.evaluate(() => new Promise((done) => document.fonts.ready.then(() => requestAnimationFrame(() => requestAnimationFrame(done))))); // plots know their width
  for (const v of await violations(page, rules)) fault(`${name}: ${v}`);
  const lies = await page.evaluate(`${layout}()`);
  if (lies) fault(`${name}: ${lies}`);
  const picture = path.join(PICTURES, `${name}.png`);
  await page.screenshot({ path: picture });
  await compare(name, picture);
}

// With AGAINST, a folder of pictures of an earlier run on this machine, no view differs from its own in more than a share of its cells:
// CHANGED, a tenth where it says nothing, since answers, figures and times move.
async function compare(name, picture) {
  const before = AGAINST && path.join(AGAINST, `${name}.png`);
  if (!before) return;
  if (!fs.existsSync(before)) return fault(`${name}: no picture of it in ${AGAINST}`);
  const share = await changed(blank, before, picture);
  if (share > (CHANGED || 0.1)) fault(`${name}: ${Math.round(100 * share)} % of the picture differ from ${before}`);
  else most = Math.max(most, share);
}

// Each view: what is done to it before it is looked at. They run in this order, in one page.
const views = {
  "sign-in": async (page) => { await page.goto(`${api}/`); await page.waitForSelector("input[name=key]"); },
  "wrong-key": async (page) => { await page.fill("input[name=key]", "sk-this-is-wrong"); await page.keyboard.press("Enter"); await page.waitForSelector(".trouble"); },
  empty: async (page) => { await page.fill("input[name=key]", KEY); await page.keyboard.press("Enter"); await page.waitForSelector("#composer"); },
  settings: async (page) => {
    if (!(await page.$("#settings"))) await page.click("text=Settings");
    await page.waitForSelector("#settings");
    for (const title of ["Length", "Penalties and bans", "Form of the answer", "Tools", "Thoughts", "Tokens", "Class and deadlines", "More fields"]) await page.click(`#settings summary:has-text("${title}")`);
    await page.click("label:has-text('Log-probabilities')");
  },
  tool: async (page) => { await page.click("text=Add a tool"); await page.waitForSelector("dialog[open]"); },
  answer: async (page) => {
    await page.keyboard.press("Escape");
    if (page.viewportSize().width < 1181) await page.click("[aria-label='Close the settings']");
    await page.fill("#composer", "What is a weir?");
    await page.keyboard.press("Enter");
    await page.waitForSelector('.turn.assistant[aria-busy="false"]', { timeout: 60000 });
  },
  figures: async (page) => { await page.click("[aria-label='Show the figures and tokens']"); await page.waitForSelector(".tokens"); await page.focus(".token"); },
  code: async (page) => { await page.click(".tools-row >> text=Code"); await page.waitForSelector("dialog[open]"); },
  branches: async (page) => {
    await page.keyboard.press("Escape");
    await page.click("[aria-label='Answer again']");
    await page.waitForSelector(".branches");
    await page.waitForSelector('.turn.assistant[aria-busy="false"]', { timeout: 60000 });
  },
  conversations: async (page) => {
    if (page.viewportSize().width < 861) await page.click("[aria-label='Open the menu']");
    await page.click("[aria-label='Export, import or delete conversations']");
    await page.waitForSelector("dialog[open]");
  },
  menu: async (page) => { await page.keyboard.press("Escape"); },
  embeddings: async (page) => { await page.goto(`${api}/playground/#/embeddings`); await page.waitForSelector("h1:has-text('Embeddings')"); },
  rerank: async (page) => { await page.goto(`${api}/playground/#/rerank`); await page.waitForSelector("h1:has-text('Rerank')"); },
  predict: async (page) => {
    await page.goto(`${api}/playground/#/predict`);
    const cells = await page.waitForSelector(".grid input").then(() => page.$$(".grid input"));
    for (const [i, value] of ["5.1", "3.5", "1.4", "0.2"].entries()) await cells[i].fill(value);
    await page.click("button[type=submit]");
    await page.waitForSelector("text=Answered in");
  },
  decisions: async (page) => { await page.goto(`${api}/playground/#/decisions`); await page.waitForSelector("fieldset"); await page.click("button[type=submit]"); await page.waitForSelector(".answers, .trouble, .empty"); },
  models: async (page) => { await page.goto(`${api}/playground/#/start`); await page.waitForSelector("text=What else this machine can run"); await page.waitForSelector(".command"); },
  nowhere: async (page) => { await page.goto(`${api}/playground/#/nowhere`); await page.waitForSelector("text=no such view"); },
};

// A page in one of the looks, with what goes wrong in it.
async function open(browser, name, { rules, ...how }) {
  const context = await browser.newContext({ ...how, reducedMotion: "reduce" }), page = await context.newPage();
  page.on("pageerror", (e) => fault(`${name}: ${e.message}`));
  page.on("console", (m) => { if (m.type() === "error" && !/status of 40[0-9]|ERR_FAILED/.test(m.text())) fault(`${name}: ${m.text()}`); });
  page.on("request", (r) => { if (![api, admin].some((host) => r.url().startsWith(`${host}/`)) && !/^(data|blob):/.test(r.url())) fault(`${name}: a request to ${r.url()}`); });
  return page;
}

async function lookAtAll(page, name, rules, list) {
  for (const [view, go] of Object.entries(list)) {
    try { await go(page); } catch (e) { fault(`${name} ${view}: ${e.message.split("\n")[0]}`); }
    await look(page, `${name}-${view}`, rules);
  }
}

// Streams of others that run while the console is looked at. The result ends them.
function load(streams) {
  const open = new Set();
  let over = false;
  const body = JSON.stringify({ messages: [{ role: "user", content: "What is a weir?" }], stream: true, max_tokens: 64 });
  const one = async () => {
    while (!over) {
      const own = new AbortController();
      open.add(own);
      try {
        const r = await fetch(`${api}/v1/chat/completions`, { method: "POST", body, signal: own.signal, headers: { "Content-Type": "application/json", Authorization: `Bearer ${KEY}` } });
        await r.text();
      } catch { /* the end */ }
      open.delete(own);
    }
  };
  const all = Array.from({ length: streams }, one);
  return async () => { over = true; open.forEach((c) => c.abort()); await Promise.all(all); };
}

// Two looks at a time: each page has a process of its own.
async function inEachLook(look) {
  const left = Object.entries(looks);
  await Promise.all([1, 2].map(async () => { for (let next = left.shift(); next; next = left.shift()) await look(...next); }));
}

// Both checks find what is wrong.
async function checkTheChecks(page) {
  await page.evaluate(() => { const b = document.createElement("button"); document.querySelector("main").append(b); });
  if (!(await violations(page, rules)).length) fault("axe did not find a button without a name");
  await page.evaluate(() => { const p = document.createElement("p"); Object.assign(p.style, { color: "#888", background: "#999" }); p.textContent = "Hard to read"; document.querySelector("main").append(p); });
  if (!(await violations(page, colours)).some((v) => v.startsWith("color-contrast"))) fault("axe did not find a text that its ground hides");
  await page.evaluate(() => {
    const over = document.createElement("p"), r = document.querySelector("main a, main button").getBoundingClientRect();
    over.textContent = "over it";
    Object.assign(over.style, { position: "fixed", left: `${r.left}px`, top: `${r.top}px`, width: `${r.width}px`, height: `${r.height}px`, zIndex: 99 });
    document.body.append(over);
  });
  if (!(await page.evaluate(`${layout}()`)).includes("lies under")) fault("the check of the layout did not find a covered button");
}

const browser = await chromium.launch({ executablePath: CHROMIUM, args: ["--no-sandbox"] }), blank = await browser.newPage();
let most = 0; // of the shares of pictures that differ from those in AGAINST
await inEachLook(async (name, how) => {
  const page = await open(browser, name, how);
  await lookAtAll(page, name, how.rules, views);
  if (name === "light") {
    await checkTheChecks(page);
    if (await changed(blank, path.join(PICTURES, "light-empty.png"), path.join(PICTURES, "light-settings.png")) < 0.02) fault("two views look the same to the comparison of pictures");
    if (await changed(blank, path.join(PICTURES, "light-empty.png"), path.join(PICTURES, "light-empty.png"))) fault("a picture differs from itself");
  }
  await page.context().close();
});
const ended = load(50);
await inEachLook(async (name, how) => {
  const page = await open(browser, name, how);
  for (const [path, answer] of Object.entries(fixtures)) await page.route(`**/${path}*`, (r) => r.fulfill({ json: answer }));
  await lookAtAll(page, `console-${name}`, how.rules, ofConsole(admin, KEY));
  await page.context().close();
});
await ended();
await browser.close();
console.log(`${seen} views, ${faults} faults; pictures in ${PICTURES}${AGAINST ? `, at most ${Math.round(1000 * most) / 10} % of one differ from ${AGAINST}` : ""}`);
process.exit(faults ? 1 : 0);
