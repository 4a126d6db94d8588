// The official Node client against weir route before another engine.
import assert from "node:assert/strict";
import OpenAI from "openai";
import { base, key, model, run } from "./case.mjs";

const client = new OpenAI({ baseURL: base, apiKey: key, maxRetries: 0 });
const messages = [{ role: "user", content: "Name three rivers." }];
const chat = (parameters) => client.chat.completions.create({ model, messages, temperature: 0, max_tokens: 24, ...parameters });
const tool = { type: "function", function: { name: "get_weather", parameters: {
  type: "object", properties: { city: { type: "string", enum: ["Paris", "Rome"] } }, required: ["city"], additionalProperties: false } } };

await run("openai", {
  async chat() {
    const r = await chat({});
    assert.equal(r.usage.total_tokens, r.usage.prompt_tokens + r.usage.completion_tokens);
    return r.choices[0].message.content;
  },
  async stream() {
    const whole = await chat({});
    let text = "", usage;
    for await (const chunk of await chat({ stream: true, stream_options: { include_usage: true } })) {
      text += chunk.choices[0]?.delta.content ?? "";
      usage = chunk.usage ?? usage;
    }
    assert.equal(text, whole.choices[0].message.content);
    assert.equal(usage.completion_tokens, whole.usage.completion_tokens);
    return text;
  },
  async "stream helper"() {
    return (await client.chat.completions.stream({ model, messages, temperature: 0, max_tokens: 24 }).finalChatCompletion()).choices[0].message.content;
  },
  async completion() {
    return (await client.completions.create({ model, prompt: "The capital of France is", max_tokens: 6, temperature: 0 })).choices[0].text;
  },
  async tools() {
    const r = await chat({ tools: [tool], tool_choice: "required", max_tokens: 100 });
    const call = r.choices[0].message.tool_calls[0];
    assert.equal(call.function.name, "get_weather");
    assert.ok(["Paris", "Rome"].includes(JSON.parse(call.function.arguments).city));
    return call.function.arguments;
  },
  async "leaving a stream"() {
    for await (const _ of await chat({ max_tokens: 2000, stream: true })) break; // aborts the request
    assert.ok((await chat({ max_tokens: 1 })).choices);
    return "left after the first event";
  },
});
