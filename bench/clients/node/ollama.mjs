// Ollama's own client for JavaScript.
import assert from "node:assert/strict";
import { Ollama } from "ollama";
import { ask, model, run } from "./case.mjs";

const client = new Ollama({ host: process.argv[2] });
const options = { temperature: 0, num_predict: 16 };

function finished(r) {
  assert.ok(r.done && ["stop", "length"].includes(r.done_reason));
  for (const name of ["total_duration", "load_duration", "prompt_eval_count", "prompt_eval_duration", "eval_count", "eval_duration"]) assert.ok(r[name] > 0, name);
  return r;
}

async function refused(call, status) {
  const e = await call().then(() => assert.fail("accepted"), (e) => e);
  assert.equal(e.status_code, status, String(e));
  return e.message;
}

await run("ollama", {
  async chat() {
    const r = finished(await client.chat({ model, messages: ask, options }));
    assert.equal(r.message.role, "assistant");
    return r.message.content;
  },
  async stream() {
    let text = "", last;
    for await (const part of await client.chat({ model, messages: ask, stream: true, options })) {
      text += part.message.content;
      last = part;
    }
    finished(last);
    assert.equal(text, (await client.chat({ model, messages: ask, options })).message.content);
    return text;
  },
  async generate() {
    const r = finished(await client.generate({ model, prompt: "Hello", options }));
    assert.ok(r.context.length > 0);
    let text = "";
    for await (const part of await client.generate({ model, prompt: "Hello", stream: true, options })) text += part.response;
    assert.equal(text, r.response);
    return text;
  },
  async schema() {
    const format = { type: "object", properties: { ok: { type: "boolean" } }, required: ["ok"] };
    const r = await client.chat({ model, messages: ask, format, options: { ...options, num_predict: 100 } });
    assert.equal(typeof JSON.parse(r.message.content).ok, "boolean");
    return r.message.content;
  },
  async abort() {
    const format = { type: "array", items: { type: "integer" }, minItems: 300 }; // so long that the answer is under way, however fast the model
    const stream = await client.chat({ model, messages: [{ role: "user", content: "Count to a million." }], format, stream: true });
    const e = await (async () => { for await (const _ of stream) stream.abort(); })().then(() => assert.fail("not aborted"), (e) => e);
    assert.equal(e.name, "AbortError");
    return e.name;
  },
  async lists() {
    const { models } = await client.list();
    assert.equal(models[0].details.format, "gguf");
    const shown = await client.show({ model });
    assert.ok(shown.capabilities.includes("completion"));
    assert.ok((await client.ps()).models.length > 0);
    assert.ok((await client.version()).version);
    return models[0].name;
  },
  async faults() {
    assert.equal((await client.pull({ model })).status, "success");
    await refused(() => client.pull({ model: "no-such-model" }), 501);
    await refused(() => client.embed({ model, input: "a" }), 400);
    await refused(() => client.embeddings({ model, prompt: "a" }), 400);
    await refused(() => client.create({ model: "x", from: model }), 501);
    await refused(() => client.copy({ source: model, destination: "x" }), 501);
    await refused(() => client.delete({ model: "x" }), 501);
    return refused(() => client.chat({ model: "no-such-model", messages: ask }), 404);
  },
});
