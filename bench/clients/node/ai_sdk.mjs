// The AI SDK with its provider for OpenAI-compatible servers.
import assert from "node:assert/strict";
import { APICallError, generateText, streamText } from "ai";
import { createOpenAICompatible } from "@ai-sdk/openai-compatible";
import { ask, base, key, long, model, run } from "./case.mjs";

const weir = createOpenAICompatible({ name: "weir", baseURL: base, apiKey: key, includeUsage: true });
const settings = { model: weir(model), messages: ask, temperature: 0, maxOutputTokens: 24, maxRetries: 0 };

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
});
