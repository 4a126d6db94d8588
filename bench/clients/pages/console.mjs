// Views of the console, and what stands in for servers that this one has not: a rollout, replicas, drift.
const now = () => new Date().toISOString(), ago = (s) => new Date(Date.now() - 1000 * s).toISOString();

const arm = (arm, version, requests, slow) => ({ arm, version, requests, failed: slow ? 3 : 1, denied: 0, throttled: 0, empty: 0, length: 1, refused: 0, ttft_p95_seconds: 0.21 * (slow ? 1.3 : 1), ttft_p99_seconds: 0.4, itl_p95_seconds: 0.019, compute_seconds: 0.0021, mean_output_tokens: 143.2, mean_cost: 0.0004 });
const rollouts = { rollouts: [{
  plan: { id: "r1", model: "support-chat", stable: "2026-11-02", candidate: "2026-11-27", steps: [{}, {}, {}], gates: { error_rate: 0.01, ttft_ratio: 1.5, itl_ratio: 1.5, cost_ratio: 1.5, compute_ratio: 1.5, refusal_rate: 0.05 } },
  state: "running", step: 2, percent: 25, shadow: 0, began: ago(5400), since: ago(600), waiting: "1377 of 2000 requests, 10m of 30m", arms: [arm("stable", "2026-11-02", 4120), arm("candidate", "2026-11-27", 1377, true)],
  changes: [{ at: ago(5400), from: "", to: "running", percent: 5, by: "key ops-1 (acme)" }, { at: ago(600), from: "step 1", to: "step 2", percent: 25, by: "gates" }],
}] };
const replica = (n, state, why) => ({ replica: `http://10.0.0.${n}:8080`, kind: "weir", role: "both", region: "eu", zone: `eu-${n % 2 ? "a" : "b"}`, model: "support-chat", state, why, breaker: why ? "open" : "closed", in_flight: n, load: 3 * n, requests: 1000 * n, faults: why ? { connect: 4 } : {}, rests_seconds: why ? 12 : 0 });
const replicas = { models: [{ model: "support-chat", version: "2026-11-02", answers: true, policy: "prefix", replicas: [replica(1, "ready"), replica(2, "ready"), replica(3, "down", "connect: connection refused")] }] };
const bins = (shift) => ["below 18", "18 to 30", "30 to 45", "45 to 65", "above 65"].map((label, i) => ({ label, reference: [0.1, 0.3, 0.3, 0.2, 0.1][i], now: [0.1, 0.3, 0.3, 0.2, 0.1][(i + shift) % 5] }));
const column = (name, kind, state, psi) => ({ name, kind, state, distance: { psi, js: psi / 4, ks: psi / 2 }, missing: { now: 0.02, reference: 0.01 }, bins: bins(state === "drifting" ? 2 : 0), psi_history: [0.01, 0.02, 0.05, psi] });
const drift = { models: [{ model: "churn", version: "2026-10", judged: now(), rows: 20000, window_rows: 140, window_since: ago(60), window_min_rows: 1000, drifting: 1, columns: [column("age", "feature", "drifting", 0.31), column("plan", "feature", "steady", 0.02), column("score", "score", "steady", 0.01)] }] };
const audit = { entries: [...Array(12).keys()].map((i) => ({ sequence: 40 - i, time: ago(600 * i), actor: i % 3 ? "key ops-1 (acme), from 10.0.0.7:50112" : "gates", action: i % 2 ? "key.created" : "rollout.step", object: i % 2 ? "acme" : "support-chat", details: JSON.stringify({ scope: "inference", expires: "2027-01-01T00:00:00Z" }) })) };

/** Requests of the page that are answered here, by path. */
export const fixtures = { "console/sign-in": { issuers: [{ name: "login", authorize: "https://login.example/authorize", client_id: "weir-pages", scope: "openid" }] }, "v1/rollouts": rollouts, "admin/replicas": replicas, "admin/drift": drift, "admin/audit": audit };

const view = (admin, name) => async (page, sign) => { await page.goto(`${admin}/console/#/${name}`); await page.waitForSelector(sign); };

/** Each view: what is done before it is looked at, in this order, in one page. */
export const views = (admin, key) => ({
  "sign-in": async (page) => { await page.goto(`${admin}/console/`); await page.waitForSelector("input[name=key]"); },
  "wrong-key": async (page) => { await page.fill("input[name=key]", "sk-this-is-wrong"); await page.keyboard.press("Enter"); await page.waitForSelector(".trouble"); },
  now: async (page) => {
    await page.fill("input[name=key]", key);
    await page.keyboard.press("Enter");
    await page.waitForSelector(".cell.t0");
    await page.waitForSelector("#queue + .table tbody tr");
  },
  requests: async (page) => { await view(admin, "requests")(page, "td a"); },
  request: async (page) => { await page.locator("tr", { hasText: "200" }).last().locator("a").click(); await page.waitForSelector(".life tbody tr"); },
  models: async (page) => { await view(admin, "models")(page, ".forecast"); },
  unload: async (page) => { await page.locator("button", { hasText: "Unload" }).first().click(); await page.waitForSelector("dialog[open]"); },
  rollouts: async (page) => { await page.keyboard.press("Escape"); await view(admin, "rollouts")(page, ".plots"); },
  abort: async (page) => { await page.click("text=Abort"); await page.waitForSelector("dialog[open]"); },
  tenants: async (page) => {
    await page.keyboard.press("Escape");
    await page.evaluate(async (k) => {
      const headers = { Authorization: `Bearer ${k}`, "Content-Type": "application/json" };
      await fetch("../admin/tenants", { method: "POST", headers, body: JSON.stringify({ name: "acme", weight: 4, limits: { requests_per_minute: 1000000, daily_tokens: 1000000000 } }) });
    }, key);
    await view(admin, "tenants")(page, "td a");
  },
  tenant: async (page) => { await view(admin, "tenants/acme")(page, "#limits"); },
  "new-key": async (page) => { await page.click("text=New key"); await page.waitForSelector("dialog[open]"); },
  "key-made": async (page) => { // a tenant may have two live keys of a label
    await page.getByLabel("Label").fill(`look-${Math.random().toString(36).slice(2, 10)}`);
    await page.click("dialog[open] >> text=Make it"); await page.waitForSelector("text=The key, once");
  },
  replicas: async (page) => { await page.keyboard.press("Escape"); await view(admin, "replicas")(page, "td .badge"); },
  classical: async (page) => { await view(admin, "classical")(page, ".disclosure"); },
  audit: async (page) => { await view(admin, "audit")(page, "tbody tr"); },
  lost: async (page) => { await page.route("**/admin/events", (r) => r.abort()); await page.goto(`${admin}/console/#/now`); await page.reload(); await page.waitForSelector(".trouble"); },
});
