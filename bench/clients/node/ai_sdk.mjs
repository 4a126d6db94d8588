// The AI SDK with its provider for OpenAI-compatible servers.
import assert from "node:assert/strict";
import { APICallError, generateObject, generateText, jsonSchema, stepCountIs, streamText, tool } from "ai";
import { createOpenAICompatible } from "@ai-sdk/openai-compatible";
import { ask, base, key, long, model, run } from "./case.mjs";

const weir = createOpenAICompatible({ name: "weir", baseURL: base, apiKey: key, includeUsage: true });
const typed = createOpenAICompatible({ name: "weir", baseURL: base, apiKey: key, supportsStructuredOutputs: true });
const schema = jsonSchema({
  type: "object", required: ["city", "days"], additionalProperties: false,
  properties: { city: { enum: ["Paris", "Rome"] }, days: { type: "integer", minimum: 1, maximum: 3 } },
});
const tools = { get_weather: tool({ description: "The weather of a city.", inputSchema: schema, execute: async ({ city }) => `sun in ${city}` }) };
const fits = (o) => assert.ok(["Paris", "Rome"].includes(o.city) && o.days >= 1 && o.days <= 3, JSON.stringify(o));
const weather = { get_weather: tool({
  description: "The weather of a city.", execute: async ({ city }) => ({ Paris: "sunny, 21 degrees" })[city],
  inputSchema: jsonSchema({ type: "object", required: ["city"], additionalProperties: false, properties: { city: { type: "string" } } }),
}) };
const oneCall = { providerOptions: { weir: { parallel_tool_calls: false } } }; // a small model goes on until the length ends it
const said = "The weather in Paris is sunny, 21 degrees.";
const person = jsonSchema({
  type: "object", required: ["name", "age"], additionalProperties: false, properties: { name: { type: "string" }, age: { type: "integer" } },
});
const settings = { model: weir(model), messages: ask, temperature: 0, maxOutputTokens: 24, maxRetries: 0 };

// What the embedded model answers by itself: nothing forces the calls.
const embedded = model !== "weir-default" ? {} : {
  async "own call and its result"() {
    const r = await generateText({ ...settings, messages: undefined, prompt: "What is the weather in Paris?", tools: weather, maxOutputTokens: 100,
      stopWhen: stepCountIs(3) });
    assert.equal(r.text, said);
    assert.equal(r.steps.length, 2);
    return r.text;
  },
  async "own call as a stream"() {
    const r = streamText({ ...settings, messages: undefined, prompt: "What is the weather in Paris?", tools: weather, maxOutputTokens: 100,
      stopWhen: stepCountIs(3) });
    assert.equal(await r.text, said);
    return (await r.steps).length;
  },
  async "own object"() {
    const r = await generateObject({ ...settings, model: typed(model), messages: undefined, prompt: "Ann is 31 years old.", schema: person,
      maxOutputTokens: 100 });
    assert.deepEqual(r.object, { name: "Ann", age: 31 });
    return JSON.stringify(r.object);
  },
};

await run("ai", {
  async generateText() {
    const r = await generateText(settings);
    assert.ok(["stop", "length"].includes(r.finishReason));
    assert.equal(r.usage.totalTokens, r.usage.inputTokens + r.usage.outputTokens);
    return r.text;
  },
  async streamText() {
    const r = streamText(settings);
    let text = "";
    for await (const part of r.textStream) text += part;
    assert.equal(text, (await generateText(settings)).text);
    assert.ok((await r.usage).outputTokens > 0 && ["stop", "length"].includes(await r.finishReason));
    return text;
  },
  async "system and parts"() {
    const messages = [{ role: "user", content: [{ type: "text", text: "Hel" }, { type: "text", text: "lo" }] }];
    return (await generateText({ ...settings, system: "Be brief.", messages })).text;
  },
  async "stop sequences"() {
    const word = (await generateText(settings)).text.split(" ")[1];
    const r = await generateText({ ...settings, stopSequences: [word] });
    assert.ok(!r.text.includes(word) && r.finishReason === "stop");
    return `ended before ${word}`;
  },
  async "provider options"() {
    const r = await generateText({ ...settings, providerOptions: { weir: { reasoningEffort: "none", user: "u1", chat_id: "c1" } } });
    assert.equal(r.text, (await generateText(settings)).text);
    return r.text;
  },
  async completion() {
    const r = await generateText({ model: weir.completionModel(model), prompt: "Hello", maxOutputTokens: 5, temperature: 0, maxRetries: 0 });
    assert.ok(r.text);
    return r.text;
  },
  async generateObject() {
    const r = await generateObject({ ...settings, model: typed(model), schema, maxOutputTokens: 100 });
    fits(r.object);
    return r.object;
  },
  async "tools"() {
    const r = await generateText({ ...settings, tools, toolChoice: "required", maxOutputTokens: 100, ...oneCall });
    assert.equal(r.finishReason, "tool-calls");
    r.toolCalls.forEach((c) => fits(c.input));
    assert.deepEqual(r.toolResults.map((t) => t.output), r.toolCalls.map((c) => `sun in ${c.input.city}`));
    return r.toolCalls.length;
  },
  async "tools as a stream"() {
    const r = streamText({ ...settings, tools, toolChoice: { type: "tool", toolName: "get_weather" }, maxOutputTokens: 100 });
    const calls = await r.toolCalls;
    assert.equal(calls.length, 1);
    fits(calls[0].input);
    return calls[0].input;
  },
  async "steps with results"() {
    const r = await generateText({
      ...settings, ...oneCall, tools, maxOutputTokens: 100, stopWhen: stepCountIs(2),
      prepareStep: ({ stepNumber }) => ({ toolChoice: stepNumber === 0 ? "required" : "none" }),
    });
    assert.equal(r.steps.length, 2);
    assert.ok(r.text);
    return r.text;
  },
  async overflow() {
    const e = await generateText({ ...settings, messages: long }).then(() => assert.fail("accepted"), (e) => e);
    assert.ok(APICallError.isInstance(e), e);
    assert.equal(e.statusCode, 400);
    assert.match(e.message, /This model's maximum context length is/);
    return e.message;
  },
  async abort() {
    const leaving = new AbortController();
    const r = streamText({ ...settings, maxOutputTokens: undefined, abortSignal: leaving.signal, onError() {} });
    for await (const _ of r.textStream) leaving.abort();
    assert.ok((await generateText(settings)).text);
    return "left after the first part";
  },
  ...embedded,
});
