// Tools with the official Node client. A call that the request asks for follows the grammar of its tool, so that the cases hold
// for any model.
import assert from "node:assert/strict";
import OpenAI from "openai";
import { base, key, model, run } from "./case.mjs";

const client = new OpenAI({ baseURL: base, apiKey: key, maxRetries: 0 });
const question = [{ role: "user", content: "What is the weather in Paris?" }];
const parameters = {
  type: "object", required: ["city"], additionalProperties: false, properties: { city: { type: "string", enum: ["Paris", "Rome"] } },
};
const tools = [{ type: "function", function: { name: "get_weather", strict: true, parameters } }];
const request = { model, messages: question, tools, tool_choice: "required", parallel_tool_calls: false, temperature: 0, max_tokens: 200 };

function check(calls) {
  assert.ok(calls.length > 0);
  return calls.map((c) => {
    assert.ok(c.id);
    assert.equal(c.function.name, "get_weather");
    const { city } = JSON.parse(c.function.arguments);
    assert.ok(["Paris", "Rome"].includes(city));
    return city;
  });
}

// What the embedded model answers by itself: nothing forces the call.
const embedded = model !== "weir-default" ? {} : {
  async "own call"() {
    const own = { model, tools: [{ type: "function", function: { name: "get_weather", parameters: {
      type: "object", required: ["city"], properties: { city: { type: "string" } } } } }], temperature: 0 };
    const { message } = (await client.chat.completions.stream({ ...own, messages: question }).finalChatCompletion()).choices[0];
    assert.deepEqual(message.tool_calls.map((c) => [c.function.name, JSON.parse(c.function.arguments)]), [["get_weather", { city: "Paris" }]]);
    const result = { role: "tool", tool_call_id: message.tool_calls[0].id, content: "sunny, 21 degrees" };
    const r = await client.chat.completions.create({ ...own, messages: [...question, message, result] });
    assert.equal(r.choices[0].message.content, "The weather in Paris is sunny, 21 degrees.");
    return r.choices[0].message.content;
  },
};

await run("openai", {
  async required() {
    const r = await client.chat.completions.create(request);
    assert.equal(r.choices[0].finish_reason, "tool_calls");
    return check(r.choices[0].message.tool_calls);
  },
  async "stream helper"() {
    const whole = await client.chat.completions.create(request);
    const streamed = await client.chat.completions.stream(request).finalChatCompletion();
    const plain = (r) => r.choices[0].message.tool_calls.map((c) => [c.function.name, c.function.arguments]);
    assert.deepEqual(plain(streamed), plain(whole));
    assert.equal(streamed.choices[0].finish_reason, "tool_calls");
    return check(streamed.choices[0].message.tool_calls);
  },
  async "a conversation"() {
    const r = await client.chat.completions.create(request);
    const call = r.choices[0].message.tool_calls[0];
    const answer = await client.chat.completions.create({
      ...request, tool_choice: "none", max_tokens: 16,
      messages: [...question, r.choices[0].message, { role: "tool", tool_call_id: call.id, content: "sun" }],
    });
    assert.equal(answer.choices[0].message.tool_calls, undefined);
    return answer.choices[0].message.content;
  },
  ...embedded,
});
