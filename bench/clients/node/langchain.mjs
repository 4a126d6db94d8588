// LangChain's OpenAI models for JavaScript.
import assert from "node:assert/strict";
import { ChatOpenAI, OpenAI } from "@langchain/openai";
import { base, key, long, model, run } from "./case.mjs";

const settings = { model, apiKey: key, temperature: 0, maxTokens: 24, maxRetries: 0, configuration: { baseURL: base } };
const chat = new ChatOpenAI(settings);

await run("@langchain/openai", {
  async chat() {
    const r = await chat.invoke([["system", "Be brief."], ["user", "Hello"]]);
    assert.equal(r.usage_metadata.total_tokens, r.usage_metadata.input_tokens + r.usage_metadata.output_tokens);
    return r.content;
  },
  async stream() {
    let whole;
    for await (const chunk of await chat.stream("Hello")) whole = whole ? whole.concat(chunk) : chunk;
    assert.equal(whole.content, (await chat.invoke("Hello")).content);
    assert.ok(whole.usage_metadata.output_tokens > 0);
    return whole.content;
  },
  async batch() {
    const [a, b, c] = await chat.batch(["Hello Ann", "Hello Bob", "Hello Ann"]);
    assert.equal(a.content, c.content);
    return b.content;
  },
  async stops() {
    const word = (await chat.invoke("Hello")).content.split(" ")[1];
    const r = await chat.invoke("Hello", { stop: [word] });
    assert.ok(!r.content.includes(word));
    return `ended before ${word}`;
  },
  async completion() {
    const text = await new OpenAI({ ...settings, maxTokens: 5 }).invoke("Hello");
    assert.ok(text);
    return text;
  },
  async overflow() {
    const e = await chat.invoke(long[0].content).then(() => assert.fail("accepted"), (e) => e);
    assert.equal(e.name, "ContextOverflowError"); // told by the text
    return e.message;
  },
});
