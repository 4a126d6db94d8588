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
  async compaction() {
    const input = [{ role: "user", content: "Hello" }, { role: "assistant", content: "Hi!" }, { role: "user", content: "Thank you" }];
    const small = await client.responses.compact({ model, input });
    assert.equal(small.object, "response.compaction");
    assert.deepEqual(small.output.map((item) => item.type), ["message", "message", "compaction"]);
    return (await client.responses.create({ ...ask, input: [...small.output, { role: "user", content: "Hello" }] })).output_text;
  },
  async keptChats() {
    const chat = { model, messages: [{ role: "user", content: "Hello" }], temperature: 0, max_tokens: 16, store: true, metadata: { case: "node" } };
    const first = await client.chat.completions.create(chat);
    for await (const _ of await client.chat.completions.create({ ...chat, stream: true }));
    const kept = [];
    for await (const c of client.chat.completions.list({ metadata: { case: "node" }, limit: 1 })) kept.push(c);
    assert.equal(kept.length, 2);
    assert.equal(kept[1].choices[0].message.content, first.choices[0].message.content);
    for await (const m of client.chat.completions.messages.list(first.id)) assert.equal(m.content, "Hello");
    for (const c of kept) assert.ok((await client.chat.completions.delete(c.id)).deleted);
    return (await client.chat.completions.retrieve(first.id).then(() => assert.fail("still there"), (e) => e)).code;
  },
  async refusal() {
    const e = await client.responses.create({ ...ask, tools: [{ type: "web_search" }] }).then(() => assert.fail("accepted"), (e) => e);
    assert.equal(e.param, "tools[0].type");
    return e.message;
  },
});
