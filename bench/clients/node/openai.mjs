// The official Node client.
import assert from "node:assert/strict";
import OpenAI from "openai";
import { ask, base, key, long, model, run } from "./case.mjs";

const client = new OpenAI({ baseURL: base, apiKey: key, maxRetries: 0 });
const chat = (parameters) => client.chat.completions.create({ model, messages: ask, temperature: 0, max_tokens: 24, ...parameters });
const refused = (promise) => promise.then(() => assert.fail("accepted"), (e) => e);

await run("openai", {
  async models() {
    assert.equal((await client.models.retrieve(model)).id, model);
    return model;
  },
  async chat() {
    const r = await chat({});
    assert.ok(["stop", "length"].includes(r.choices[0].finish_reason));
    assert.equal(r.usage.total_tokens, r.usage.prompt_tokens + r.usage.completion_tokens);
    return r.choices[0].message.content;
  },
  async stream() {
    const whole = await chat({});
    let text = "", usage, finish;
    for await (const chunk of await chat({ stream: true, stream_options: { include_usage: true } })) {
      text += chunk.choices[0]?.delta.content ?? "";
      finish = chunk.choices[0]?.finish_reason ?? finish;
      usage = chunk.usage ?? usage;
    }
    assert.equal(text, whole.choices[0].message.content);
    assert.equal(usage.completion_tokens, whole.usage.completion_tokens);
    assert.equal(finish, whole.choices[0].finish_reason);
    return text;
  },
  async "stream helper"() {
    const final = await client.chat.completions.stream({ model, messages: ask, temperature: 0, max_tokens: 24 }).finalChatCompletion();
    assert.equal(final.choices.length, 1);
    return final.choices[0].message.content;
  },
  async "n and logprobs"() {
    const r = await chat({ n: 3, seed: 7, temperature: 1, max_tokens: 8, logprobs: true, top_logprobs: 2 });
    assert.deepEqual(r.choices.map((c) => c.index), [0, 1, 2]);
    assert.ok(r.choices.every((c) => c.logprobs.content.every((t) => t.top_logprobs.length === 2)));
    return JSON.stringify(r.choices.map((c) => c.message.content));
  },
  async completion() {
    const r = await client.completions.create({ model, prompt: ["Hello", "Hi"], max_tokens: 5, temperature: 0 });
    assert.equal(r.choices.length, 2);
    return JSON.stringify(r.choices.map((c) => c.text));
  },
  async decisions() {
    const r = await client.decisions.create({ model, input: "I was charged twice.", questions: [
      { type: "predicate", name: "angry", instructions: "The customer is angry." },
      { type: "choice", instructions: "Which team?", choices: [{ value: "billing" }, { value: true }] },
      { type: "score", instructions: "How urgent?", levels: [{ label: "low" }, { label: "high" }] }] });
    assert.deepEqual(r.answers.map((a) => [a.type, a.name]), [["predicate", "angry"], ["choice", null], ["score", null]]);
    assert.deepEqual(r.answers[1].probabilities.map((p) => p.value), ["billing", true]);
    for (const a of r.answers.slice(1)) assert.ok(Math.abs(a.probabilities.reduce((n, p) => n + p.probability, 0) - 1) < 1e-9);
    assert.equal(r.usage.total_tokens, r.usage.input_tokens);
    const e = await refused(client.decisions.create({ model, input: "x", questions: [{ type: "choice", instructions: "?", choices: [{ value: "a" }, { value: "a" }] }] }));
    assert.deepEqual([e.status, e.param], [400, "questions[0].choices[1].value"]);
    return JSON.stringify(r.answers);
  },
  async "refused parameter"() {
    const e = await refused(chat({ best_of: 2 }));
    assert.deepEqual([e.status, e.param, e.code], [400, "best_of", "unsupported_parameter"]);
    return e.message;
  },
  async overflow() {
    const e = await refused(chat({ messages: long }));
    assert.deepEqual([e.status, e.code], [400, "context_length_exceeded"]);
    assert.match(e.message, /This model's maximum context length is/);
    return e.message;
  },
  async "large body"() { // three times: a server that closes while the body is still sent resets some of them
    for (let i = 0; i < 3; i++) {
      const e = await refused(chat({ messages: [{ role: "user", content: "x".repeat(9 << 20) }] }));
      assert.equal(e.status, 413, e);
    }
    return "413";
  },
  async "leaving a stream"() {
    for await (const _ of await chat({ max_tokens: undefined, stream: true, ignore_eos: true })) break; // aborts the request
    assert.ok((await chat({ max_tokens: 1 })).choices);
    return "left after the first event";
  },
});
