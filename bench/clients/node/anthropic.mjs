// POST /v1/messages by Anthropic's Node client.
import assert from "node:assert/strict";
import Anthropic from "@anthropic-ai/sdk";
import { ask, key, model, run } from "./case.mjs";

const client = new Anthropic({ baseURL: process.argv[2], apiKey: key, maxRetries: 0 });
const greedy = { model, messages: ask, temperature: 0, max_tokens: 24 };
const paris = [{ role: "user", content: "What is the weather in Paris?" }];
const weather = (city) => [{ name: "get_weather", description: "The weather of a city.", input_schema: {
  type: "object", properties: { city: { type: "string", ...city } }, required: ["city"], additionalProperties: false } }];
const demand = { ...greedy, messages: paris, max_tokens: 200, tools: weather({ enum: ["Paris", "Rome"] }), tool_choice: { type: "tool", name: "get_weather" } };

// What the embedded model answers by itself: nothing forces the call.
const embedded = model !== "weir-default" ? {} : {
  async ownCall() {
    const r = await client.messages.create({ ...greedy, messages: paris, max_tokens: 200, tools: weather({}) });
    assert.equal(r.stop_reason, "tool_use");
    assert.deepEqual(r.content.map((b) => [b.name, b.input]), [["get_weather", { city: "Paris" }]]);
    const result = { type: "tool_result", tool_use_id: r.content[0].id, content: "sunny, 21 degrees" };
    const said = await client.messages.create({ ...greedy, max_tokens: 200, tools: weather({}),
      messages: [...paris, { role: "assistant", content: r.content }, { role: "user", content: [result] }] });
    assert.equal(said.content[0].text, "The weather in Paris is sunny, 21 degrees.");
    return said.content[0].text;
  },
};

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
  async tool() {
    const r = await client.messages.create(demand);
    assert.equal(r.stop_reason, "tool_use");
    assert.ok(["Paris", "Rome"].includes(r.content.at(-1).input.city));
    return JSON.stringify(r.content.at(-1).input);
  },
  async toolAsAStream() {
    let json = "";
    const final = await client.messages.stream(demand).on("inputJson", (piece) => { json += piece; }).finalMessage();
    assert.deepEqual(JSON.parse(json), final.content.at(-1).input);
    assert.deepEqual(final.content.at(-1).input, (await client.messages.create(demand)).content.at(-1).input);
    return json;
  },
  ...embedded,
});
