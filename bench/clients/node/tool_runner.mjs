// A model's own calls, nothing forces them: toolRunner of Anthropic's Node client and runTools of openai's, whole and as a stream.
import assert from "node:assert/strict";
import Anthropic from "@anthropic-ai/sdk";
import { betaTool } from "@anthropic-ai/sdk/helpers/beta/json-schema";
import OpenAI from "openai";
import { base, key, model, run } from "./case.mjs";

const anthropic = new Anthropic({ baseURL: process.argv[2], apiKey: key, maxRetries: 0 }), openai = new OpenAI({ baseURL: base, apiKey: key, maxRetries: 0 });
const degrees = { Paris: "21", Rome: "27", Oslo: "9", Cairo: "34" };
const schema = { type: "object", properties: { city: { type: "string", description: "Name of the city" } }, required: ["city"] };
const weather = ({ city }) => `sunny, ${degrees[city.split(",")[0]] ?? "5"} degrees`;

async function toolRunner(city, stream) {
  const asked = [];
  const tool = betaTool({ name: "get_weather", description: "The weather of a city.", inputSchema: schema, run: (a) => { asked.push(a.city); return weather(a); } });
  const runner = anthropic.beta.messages.toolRunner({ model, stream, max_tokens: 200, max_iterations: 4, temperature: 0, tools: [tool],
    messages: [{ role: "user", content: `What is the weather in ${city}?` }] });
  let last;
  for await (const turn of runner) {
    last = stream ? await turn.finalMessage() : turn;
    const result = await runner.generateToolResponse();
    if (!result) break;
    runner.setMessagesParams((p) => ({ // small models would call again what they have been told, so there are no tools then
      ...p, tools: [], messages: [...p.messages, { role: "assistant", content: last.content }, result] }));
  }
  return told(city, asked, last.content.map((b) => b.text ?? "").join(""));
}

async function runTools(city, stream) {
  const asked = [];
  const tool = { type: "function", function: { name: "get_weather", description: "The weather of a city.", parameters: schema, parse: JSON.parse,
    function: (a) => { asked.push(a.city); return weather(a); } } };
  const runner = openai.chat.completions.runTools({ model, stream, max_tokens: 200, temperature: 0, tools: [tool],
    messages: [{ role: "user", content: `What is the weather in ${city}?` }] }, { maxChatCompletions: 1 });
  await runner.done();
  const said = await openai.chat.completions.create({ model, max_tokens: 200, temperature: 0, messages: runner.messages });
  return told(city, asked, said.choices[0].message.content);
}

function told(city, asked, text) {
  assert.ok(asked[0]?.includes(city), `a call of ${city}, not ${asked}; the answer is ${text}`);
  assert.ok(text.includes(degrees[city]), `${degrees[city]} in ${text}`);
  return text;
}

const cases = {};
for (const loop of [toolRunner, runTools]) for (const city of Object.keys(degrees)) for (const stream of [false, true]) {
  cases[`${loop.name}, ${city}, ${stream ? "stream" : "whole"}`] = () => loop(city, stream);
}
await run("@anthropic-ai/sdk", cases);
