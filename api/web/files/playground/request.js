// From the settings of a conversation to the body of a request, and to code that sends it.
import { address, key } from "../lib/api.js";
import { messages } from "./tree.js";

/** The parameters that are numbers: [name, label, min, max, step, hint]. null is the server's default. */
export const sampling = [
  ["temperature", "Temperature", 0, 2, 0.1, "0 takes the most probable token each time"],
  ["top_p", "Top P", 0, 1, 0.05], ["top_k", "Top K", -1, null, 1], ["min_p", "Min P", 0, 1, 0.01], ["typical_p", "Typical P", 0, 1, 0.05], ["seed", "Seed", 0, null, 1],
];
export const penalties = [["repetition_penalty", "Repetition", 0, 2, 0.05], ["presence_penalty", "Presence", -2, 2, 0.1], ["frequency_penalty", "Frequency", -2, 2, 0.1]];
export const lengths = [
  ["max_tokens", "Max tokens", 1, null, 1, "Empty: as many as fit"], ["min_tokens", "Min tokens", 0, null, 1], ["n", "Answers", 1, 16, 1, "More than one become branches"],
];
export const deadlines = [["ttft_deadline_ms", "First token within ms", 1, null, 1], ["deadline_ms", "Whole answer within ms", 1, null, 1]];

export const formats = [["", "Text"], ["json_object", "Any JSON object"], ["json_schema", "JSON that fits a schema"], ["regex", "Regular expression"], ["choice", "One of some texts"], ["grammar", "Grammar (GBNF or Lark)"]];

const parse = (text, what) => { try { return JSON.parse(text); } catch (e) { throw new Error(`${what} is not JSON: ${e.message}`); } };
const lines = (text) => text.split("\n").map((l) => l.replace(/\r$/, "")).filter(Boolean);
const unescaped = (text) => text.replace(/\\n/g, "\n").replace(/\\t/g, "\t");

function formatOf({ format, formatText = "" }) {
  switch (format) {
    case "json_object": return { response_format: { type: "json_object" } };
    case "json_schema": return { response_format: { type: "json_schema", json_schema: { name: "answer", schema: parse(formatText, "The schema"), strict: true } } };
    case "regex": return { structured_outputs: { regex: formatText } };
    case "choice": return { structured_outputs: { choice: lines(formatText) } };
    case "grammar": return { structured_outputs: { grammar: formatText } };
  }
  return {};
}

function toolsOf({ tools = [], toolChoice }) {
  const used = tools.filter((t) => t.on !== false && t.name);
  if (!used.length) return {};
  const list = used.map((t) => ({ type: "function", function: { name: t.name, ...(t.description ? { description: t.description } : {}), parameters: parse(t.parameters || "{}", `The parameters of ${t.name}`) } }));
  const choice = !toolChoice || toolChoice === "auto" ? {} : { tool_choice: ["none", "required"].includes(toolChoice) ? toolChoice : { type: "function", function: { name: toolChoice } } };
  return { tools: list, ...choice };
}

/** The body of the request for an answer to the turn id. Throws an Error where a field of the settings cannot be read. */
export function bodyOf(c, id, model) {
  const s = c.settings;
  const body = { model, messages: messages(c, id, s.system?.trim() ? s.system : "") };
  for (const [name] of [...sampling, ...penalties, ...lengths, ...deadlines]) if (s[name] !== undefined && s[name] !== null) body[name] = s[name];
  if (s.stop?.trim()) body.stop = lines(s.stop).map(unescaped);
  if (s.bad_words?.trim()) body.bad_words = lines(s.bad_words);
  if (s.logit_bias?.trim()) body.logit_bias = parse(s.logit_bias, "Logit bias");
  if (s.ignore_eos) body.ignore_eos = true;
  if (s.special) body.skip_special_tokens = false;
  if (s.service_tier) body.service_tier = s.service_tier;
  if (s.reasoning_effort) body.reasoning_effort = s.reasoning_effort;
  if (s.thinking_token_budget !== undefined && s.thinking_token_budget !== null) body.thinking_token_budget = s.thinking_token_budget;
  if (s.logprobs) { body.logprobs = true; body.top_logprobs = s.top_logprobs ?? 5; }
  Object.assign(body, formatOf(s), toolsOf(s));
  body.stream = true;
  body.stream_options = { include_usage: true, include_progress: true, ...((body.n || 1) === 1 ? { continuous_usage_stats: true } : {}) };
  if (s.extra?.trim()) Object.assign(body, parse(s.extra, "More fields"));
  return body;
}

// What OpenAI's clients know; all else goes into extra_body in Python.
const known = new Set(["model", "messages", "temperature", "top_p", "seed", "presence_penalty", "frequency_penalty", "max_tokens", "n", "stop", "logit_bias", "service_tier", "reasoning_effort", "logprobs", "top_logprobs",
  "response_format", "tools", "tool_choice", "stream", "input", "encoding_format", "dimensions"]);

function plain(body) {
  const { stream_options, ...rest } = body;
  return rest;
}

function python(v, indent = 0) {
  const pad = " ".repeat(indent + 4), end = " ".repeat(indent);
  if (v === null || v === undefined) return "None";
  if (v === true) return "True";
  if (v === false) return "False";
  if (typeof v === "string") return JSON.stringify(v).replace(/[\u007f-\uffff]/g, (ch) => "\\u" + ch.charCodeAt(0).toString(16).padStart(4, "0")).replace(/(?:\\ud[89ab][0-9a-f]{2}\\ud[c-f][0-9a-f]{2})/g, (pair) => {
    const [hi, lo] = pair.match(/[0-9a-f]{4}/g).map((x) => parseInt(x, 16));
    return "\\U" + ((hi - 0xd800) * 0x400 + (lo - 0xdc00) + 0x10000).toString(16).padStart(8, "0");
  });
  if (Array.isArray(v)) return v.length ? `[\n${v.map((x) => pad + python(x, indent + 4)).join(",\n")},\n${end}]` : "[]";
  if (typeof v === "object") { const e = Object.entries(v); return e.length ? `{\n${e.map(([k, x]) => `${pad}${python(k)}: ${python(x, indent + 4)}`).join(",\n")},\n${end}}` : "{}"; }
  return String(v);
}

const indented = (text) => text.replace(/\n/g, "\n    ");
const keyName = "WEIR_API_KEY";

/** Code that sends a body to a path, by language. The key is named, never written. */
export function snippets(path, body) {
  const b = plain(body), url = address(path), withKey = !!key.get(), base = address("v1");
  const curl = `curl ${url} ${withKey ? `-H "Authorization: Bearer $${keyName}" ` : ""}-H 'Content-Type: application/json' --data-binary @- <<'END'\n${JSON.stringify(b, null, 2)}\nEND\n`;
  const secret = withKey ? `os.environ["${keyName}"]` : '"none"', jsSecret = withKey ? `process.env.${keyName}` : '"none"';
  if (path !== "v1/chat/completions" && path !== "v1/embeddings") {
    const headers = withKey ? `, headers={"Authorization": "Bearer " + os.environ["${keyName}"]}` : "";
    return { curl,
      Python: `${withKey ? "import os\n" : ""}import httpx\n\nanswer = httpx.post(\n    ${python(url)},\n    json=${indented(python(b))}${headers},\n    timeout=None,\n)\nprint(answer.json())\n`,
      JavaScript: `const answer = await fetch(${JSON.stringify(url)}, {\n  method: "POST",\n  headers: { "Content-Type": "application/json"${withKey ? `, Authorization: \`Bearer \${process.env.${keyName}}\`` : ""} },\n  body: JSON.stringify(${JSON.stringify(b, null, 2).replace(/\n/g, "\n  ")}),\n});\nconsole.log(await answer.json());\n` };
  }
  const chat = path === "v1/chat/completions", method = chat ? "chat.completions.create" : "embeddings.create";
  const own = Object.entries(b).filter(([k]) => known.has(k)), extra = Object.entries(b).filter(([k]) => !known.has(k));
  const args = [...own.map(([k, v]) => `    ${k}=${python(v, 4)},`), ...(extra.length ? [`    extra_body=${python(Object.fromEntries(extra), 4)},`] : [])].join("\n");
  const pyEnd = chat && b.stream ? `for chunk in answer:\n    if chunk.choices:\n        print(chunk.choices[0].delta.content or "", end="", flush=True)\n` : chat ? "print(answer.choices[0].message.content)\n" : "print(len(answer.data), \"vectors\")\n";
  const jsEnd = chat && b.stream ? `for await (const chunk of answer) process.stdout.write(chunk.choices[0]?.delta?.content ?? "");\n` : chat ? "console.log(answer.choices[0].message.content);\n" : "console.log(answer.data.length, \"vectors\");\n";
  return { curl,
    Python: `${withKey ? "import os\n" : ""}from openai import OpenAI\n\nclient = OpenAI(base_url=${python(base)}, api_key=${secret})\nanswer = client.${method}(\n${args}\n)\n${pyEnd}`,
    JavaScript: `import OpenAI from "openai";\n\nconst client = new OpenAI({ baseURL: ${JSON.stringify(base)}, apiKey: ${jsSecret} });\nconst answer = await client.${method}(${JSON.stringify(b, null, 2)});\n${jsEnd}` };
}
