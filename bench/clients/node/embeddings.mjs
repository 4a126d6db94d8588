// Vectors through the official Node client and LangChain's, which ask for base64 unless told otherwise.
import assert from "node:assert/strict";
import { OpenAIEmbeddings } from "@langchain/openai";
import OpenAI from "openai";
import { base, key, model, run } from "./case.mjs";

const client = new OpenAI({ baseURL: base, apiKey: key, maxRetries: 0 });
const input = ["How do I bake bread?", "The cat sleeps."];
const embed = (parameters) => client.embeddings.create({ model, input, ...parameters });
const same = (a, b) => {
  assert.equal(a.length, b.length);
  a.forEach((x, i) => assert.ok(Math.abs(x - b[i]) < 1e-6, `${x} is not ${b[i]}`));
};

await run("openai", {
  async "base64 and float"() {
    const [standard, float] = [await embed({}), await embed({ encoding_format: "float" })];
    assert.deepEqual(standard.data.map((d) => d.index), [0, 1]);
    standard.data.forEach((d, i) => same(d.embedding, float.data[i].embedding));
    assert.equal(standard.usage.prompt_tokens, standard.usage.total_tokens);
    return standard.data[0].embedding.length;
  },
  async "base64 as it is"() {
    const { data: [d] } = await embed({ encoding_format: "base64" });
    assert.equal(typeof d.embedding, "string");
    const bytes = Buffer.from(d.embedding, "base64");
    same(Array.from({ length: bytes.length / 4 }, (_, i) => bytes.readFloatLE(4 * i)), (await embed({})).data[0].embedding);
    return bytes.length;
  },
  async dimensions() {
    const { data: [d] } = await embed({ dimensions: 32 });
    assert.equal(d.embedding.length, 32);
    assert.ok(Math.abs(d.embedding.reduce((sum, x) => sum + x * x, 0) - 1) < 1e-5);
    return 32;
  },
  async "refused input"() {
    const e = await embed({ input: "" }).then(() => assert.fail("accepted"), (e) => e);
    assert.deepEqual([e.status, e.param, e.code], [400, "input", "invalid_value"]);
    return e.message;
  },
  async langchain() {
    const vectors = new OpenAIEmbeddings({ model, apiKey: key, configuration: { baseURL: base }, maxRetries: 0 });
    const [documents, query] = [await vectors.embedDocuments(input), await vectors.embedQuery(input[0])];
    const { data } = await embed({});
    data.forEach((d, i) => same(documents[i], d.embedding));
    same(query, data[0].embedding);
    return documents.length;
  },
});
