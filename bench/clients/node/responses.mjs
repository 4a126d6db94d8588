// POST /v1/responses by the official Node client.
import assert from "node:assert/strict";
import OpenAI from "openai";
import { base, key, model, run } from "./case.mjs";

const client = new OpenAI({ baseURL: base, apiKey: key, maxRetries: 0 });
const ask = { model, input: "Hello", temperature: 0, max_output_tokens: 60 };

await run("openai", {
  async whole() {
    const r = await client.responses.create(ask);
    assert.equal(r.status, "completed");
    assert.equal(r.usage.total_tokens, r.usage.input_tokens + r.usage.output_tokens);
    return r.output_text;
  },
  async events() {
    const seen = [];
    for await (const event of await client.responses.create({ ...ask, stream: true })) {
      assert.equal(event.sequence_number, seen.length);
      seen.push(event.type);
    }
    assert.equal(seen[0], "response.created");
    assert.equal(seen.at(-1), "response.completed");
    return seen.length + " events";
  },
  async streamHelper() {
    let text = "";
    const stream = client.responses.stream(ask);
    for await (const event of stream) if (event.type === "response.output_text.delta") text += event.delta;
    assert.equal(text, (await stream.finalResponse()).output_text);
    return text;
  },
  async refusal() {
    const e = await client.responses.create({ ...ask, tools: [{ type: "web_search" }] }).then(() => assert.fail("accepted"), (e) => e);
    assert.equal(e.param, "tools[0].type");
    return e.message;
  },
});
