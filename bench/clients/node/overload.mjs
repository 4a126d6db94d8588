// The official Node client against a server that has one slot and a waiting queue of one request.
import assert from "node:assert/strict";
import OpenAI from "openai";
import { ask, base, key, model, run } from "./case.mjs";

// watched is a client whose attempts are noted: when each began, its status and what it was told.
function watched(maxRetries) {
  const attempts = [];
  const noted = async (url, init) => {
    const at = performance.now(), headers = new Headers(init.headers);
    const r = await fetch(url, init);
    attempts.push({
      at, over: performance.now(), status: r.status, count: headers.get("x-stainless-retry-count"),
      retry: r.headers.get("x-should-retry"), ms: Number(r.headers.get("retry-after-ms")), reason: r.headers.get("x-weir-reason"),
    });
    return r;
  };
  const client = new OpenAI({ baseURL: base, apiKey: key, maxRetries, fetch: noted });
  return { attempts, send: (more) => client.chat.completions.create({ model, messages: ask, max_tokens: 150, ignore_eos: true, ...more }) };
}

const median = (list) => list.toSorted((a, b) => a - b)[list.length >> 1];

await run("openai", {
  async crowd() {
    const clients = Array.from({ length: 12 }, () => watched(8));
    const results = await Promise.allSettled(clients.map((c) => c.send({})));
    let refusals = 0, retries = 0;
    const ratios = [], asked = [];
    for (const { attempts } of clients) {
      attempts.forEach((a, i) => {
        assert.equal(a.count, String(i));
        if (a.status === 200) return;
        refusals++;
        assert.ok([429, 503].includes(a.status) && a.reason && a.ms > 0, JSON.stringify(a));
        if (i + 1 === attempts.length) return;
        retries++;
        const waited = attempts[i + 1].at - a.over;
        assert.equal(a.retry, "true");
        assert.ok(waited >= a.ms - 2, `waited ${waited} ms of ${a.ms}`); // timers of Node may be a millisecond early
        ratios.push(waited / a.ms);
        asked.push(a.ms);
      });
    }
    assert.ok(refusals > 0 && retries > 0);
    const answered = results.filter((r) => r.status === "fulfilled").length;
    return `${answered} of ${clients.length} answered, ${refusals} refusals, ${retries} retries, ` +
      `asked to wait ${median(asked).toFixed(0)} ms and waited ${median(ratios).toFixed(2)} x that (medians)`;
  },
  async deadline() {
    const c = watched(5);
    const e = await c.send({ max_tokens: 4000, deadline_ms: 30 }).then(() => assert.fail("accepted"), (e) => e);
    assert.ok(["deadline_exceeded", "deadline_unreachable"].includes(e.code), e.code);
    assert.equal(c.attempts.length, 1);
    return e.code;
  },
});
