// The official Node client against a running server: node client.mjs BASE_URL
import assert from "node:assert/strict";
import { createRequire } from "node:module";
import OpenAI from "openai";

const client = new OpenAI({ baseURL: process.argv[2] + "/v1", apiKey: "unused", maxRetries: 0 });
const messages = [{ role: "user", content: "Hello" }];
const model = (await client.models.list()).data[0].id;

const cases = {
  async models() {
    assert.equal((await client.models.retrieve(model)).id, model);
    return model;
  },
  async chat() {
    const r = await client.chat.completions.create({ model, messages, temperature: 0, max_completion_tokens: 40 });
    assert.ok(["stop", "length"].includes(r.choices[0].finish_reason));
    assert.equal(r.usage.total_tokens, r.usage.prompt_tokens + r.usage.completion_tokens);
    return r.choices[0].message.content;
  },
  async "chat, streaming"() {
    const whole = await client.chat.completions.create({ model, messages, temperature: 0, max_completion_tokens: 40 });
    const stream = await client.chat.completions.create({
      model, messages, temperature: 0, max_completion_tokens: 40, stream: true, stream_options: { include_usage: true },
    });
    let text = "", usage, finish;
    for await (const chunk of stream) {
      text += chunk.choices[0]?.delta.content ?? "";
      finish = chunk.choices[0]?.finish_reason ?? finish;
      usage = chunk.usage ?? usage;
    }
    assert.equal(text, whole.choices[0].message.content);
    assert.ok(usage.completion_tokens > 0 && ["stop", "length"].includes(finish));
    return text;
  },
  async "stream helper"() {
    const runner = client.chat.completions.stream({ model, messages, temperature: 0, max_completion_tokens: 40 });
    const final = await runner.finalChatCompletion();
    assert.equal(final.choices.length, 1);
    return final.choices[0].message.content;
  },
  async "n and logprobs"() {
    const r = await client.chat.completions.create({ model, messages, n: 3, seed: 7, max_completion_tokens: 8, logprobs: true, top_logprobs: 2 });
    assert.deepEqual(r.choices.map((c) => c.index), [0, 1, 2]);
    assert.ok(r.choices.every((c) => c.logprobs.content.every((t) => t.top_logprobs.length === 2)));
    return JSON.stringify(r.choices.map((c) => c.message.content));
  },
  async completion() {
    const r = await client.completions.create({ model, prompt: ["Hello", "Hi"], max_tokens: 5, temperature: 0 });
    assert.equal(r.choices.length, 2);
    return JSON.stringify(r.choices.map((c) => c.text));
  },
  async "refused parameter"() {
    const tools = [{ type: "function", function: { name: "f" } }];
    const e = await client.chat.completions.create({ model, messages, tools }).then(() => assert.fail("accepted"), (e) => e);
    assert.equal(e.status, 400);
    assert.equal(e.param, "tools");
    assert.equal(e.code, "unsupported_parameter");
    return e.message;
  },
  async "leaving a stream"() {
    const stream = await client.chat.completions.create({ model, messages, stream: true, ignore_eos: true });
    for await (const _ of stream) break; // aborts the request
    return "left after the first event";
  },
};

let passed = 0, failed = 0;
for (const [name, check] of Object.entries(cases)) {
  try {
    console.log(`ok    ${name}: ${await check()}`);
    passed++;
  } catch (e) { // a failing case must not hide the others
    console.log(`FAIL  ${name}: ${e}`);
    failed++;
  }
}
const version = createRequire(import.meta.url)("openai/version").VERSION;
console.log(`openai-node ${version}: ${passed} passed, ${failed} failed`);
process.exit(failed > 0 ? 1 : 0);
