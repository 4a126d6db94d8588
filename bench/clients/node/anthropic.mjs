// POST /v1/messages by Anthropic's Node client.
import assert from "node:assert/strict";
import Anthropic from "@anthropic-ai/sdk";
import { ask, key, model, run } from "./case.mjs";

const client = new Anthropic({ baseURL: process.argv[2], apiKey: key, maxRetries: 0 });
const greedy = { model, messages: ask, temperature: 0, max_tokens: 24 };

await run("@anthropic-ai/sdk", {
  async whole() {
    const r = await client.messages.create(greedy);
    assert.ok(["end_turn", "max_tokens"].includes(r.stop_reason));
    return r.content[0].text;
  },
  async streamHelper() {
    let text = "";
    const stream = client.messages.stream(greedy).on("text", (piece) => { text += piece; });
    const final = await stream.finalMessage();
    const whole = await client.messages.create(greedy);
    assert.equal(text, final.content[0].text);
    assert.equal(text, whole.content[0].text);
    assert.equal(final.usage.output_tokens, whole.usage.output_tokens);
    return text;
  },
  async countTokens() {
    const { input_tokens: n } = await client.messages.countTokens({ model, messages: ask });
    const { usage } = await client.messages.create(greedy);
    assert.equal(n, usage.input_tokens + usage.cache_read_input_tokens);
    return n;
  },
  async refusal() {
    const e = await client.messages.create({ ...greedy, model: "other" }).then(() => assert.fail("accepted"), (e) => e);
    assert.ok(e instanceof Anthropic.NotFoundError);
    return e.message;
  },
});
