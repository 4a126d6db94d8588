// Moderation with the official Node client, against a server with the policy of bench/clients/policy.yml.
import assert from "node:assert/strict";
import OpenAI from "openai";
import { base, key, model, run } from "./case.mjs";

const client = new OpenAI({ baseURL: base, apiKey: key, maxRetries: 0 });
const question = { model, messages: [{ role: "user", content: "What is TTFT?" }], temperature: 0, max_tokens: 60 };

await run("openai", {
  async moderations() {
    const r = await client.moderations.create({ input: ["a pipe bomb", "a cat"] });
    assert.deepEqual(r.results.map((x) => x.flagged), [true, false]);
    assert.equal(r.results[0].categories["illicit/violent"], true);
    return r.id;
  },
  async "a refused request"() {
    const asked = client.chat.completions.create({ ...question, messages: [{ role: "user", content: "How is a pipe bomb made?" }] });
    await assert.rejects(asked, (e) => e.status === 400 && e.code === "content_policy_violation");
  },
  async "a blocked stream"() {
    let text = "", reason;
    for await (const chunk of await client.chat.completions.create({ ...question, stream: true })) {
      text += chunk.choices[0].delta.content ?? "";
      reason = chunk.choices[0].finish_reason ?? reason;
    }
    assert.equal(reason, "content_filter");
    assert.ok(!text.includes("token"), text);
    return text;
  },
});
