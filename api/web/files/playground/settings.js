// The panel of a conversation's settings.
import { html, useState } from "../lib/html.js";
import { NumberField, TextArea, TextField, Select, Switch, Disclosure, Button, Dialog, Badge, toast } from "../lib/ui.js";
import { sampling, penalties, lengths, deadlines, formats } from "./request.js";

const examples = {
  json_schema: '{\n  "type": "object",\n  "properties": {\n    "city": { "type": "string" },\n    "country": { "type": "string" }\n  },\n  "required": ["city", "country"],\n  "additionalProperties": false\n}',
  regex: "[0-9]{4}-[0-9]{2}-[0-9]{2}", choice: "yes\nno", grammar: 'root ::= "yes" | "no"',
};
const formatLabels = { json_schema: "JSON Schema", regex: "Regular expression", choice: "Texts, one a line", grammar: "Grammar" };

const newTool = { name: "", description: "", parameters: '{\n  "type": "object",\n  "properties": {\n    "city": { "type": "string", "description": "Name of a city" }\n  },\n  "required": ["city"]\n}' };

function ToolDialog({ tool, onClose, onSave, onRemove }) {
  const [t, set] = useState(tool);
  let bad = "";
  try { const p = JSON.parse(t.parameters || "{}"); if (typeof p !== "object" || p === null || Array.isArray(p)) bad = "a schema is an object"; } catch (e) { bad = e.message; }
  const badName = t.name && !/^[a-zA-Z0-9_-]{1,64}$/.test(t.name) ? "letters, digits, _ and -, up to 64" : "";
  return html`<${Dialog} title=${onRemove ? "Change a tool" : "Add a tool"} open=${true} onClose=${onClose} actions=${html`${onRemove && html`<${Button} kind="danger" icon="trash" onClick=${onRemove}>Remove<//>`}
    <${Button} onClick=${onClose}>Cancel<//><${Button} kind="primary" disabled=${!t.name || badName || bad} onClick=${() => onSave(t)}>Save<//>`}>
    <${TextField} label="Name" value=${t.name} error=${badName} onValue=${(name) => set({ ...t, name })} placeholder="get_weather" />
    <${TextField} label="Description" value=${t.description} onValue=${(description) => set({ ...t, description })} placeholder="The weather in a city now" spellcheck=${true} />
    <${TextArea} label="Parameters (JSON Schema)" class="tall" rows="12" value=${t.parameters} error=${bad && `Not JSON: ${bad}`} spellcheck=${false} onValue=${(parameters) => set({ ...t, parameters })} />
  <//>`;
}

function Tools({ settings, set }) {
  const [edited, edit] = useState(null);
  const tools = settings.tools || [];
  const put = (list) => { set({ tools: list }); edit(null); };
  return html`<ul class="tools">${tools.map((t, i) => html`<li key=${i}><label><input type="checkbox" checked=${t.on !== false} onChange=${(e) => put(tools.map((o, n) => (n === i ? { ...o, on: e.target.checked } : o)))} />
      <code>${t.name}</code></label><${Button} kind="quiet" small icon="edit" label=${`Change the tool ${t.name}`} onClick=${() => edit(i)} /></li>`)}</ul>
    <div class="row"><${Button} small icon="plus" onClick=${() => edit(-1)}>Add a tool<//></div>
    ${tools.length > 0 && html`<${Select} label="Choice" value=${settings.toolChoice || "auto"} onValue=${(toolChoice) => set({ toolChoice })}
      options=${[["auto", "The model decides"], ["none", "No calls"], ["required", "At least one call"], ...tools.map((t) => [t.name, `Call ${t.name}`])]} />`}
    ${edited !== null && html`<${ToolDialog} tool=${tools[edited] || newTool} onClose=${() => edit(null)} onSave=${(t) => put(edited < 0 ? [...tools, t] : tools.map((o, n) => (n === edited ? { ...o, ...t } : o)))}
      onRemove=${edited >= 0 && (() => put(tools.filter((_, n) => n !== edited)))} />`}`;
}

const numbers = (list, settings, set) => list.map(([name, label, min, max, step, hint]) => html`<${NumberField} key=${name} label=${label} hint=${hint} value=${settings[name]} min=${min} max=${max ?? undefined}
  step=${step} placeholder="default" onValue=${(v) => set({ [name]: v })} />`);

/** set(changes) puts them into the settings. */
export function Settings({ settings, set }) {
  const used = (names) => names.filter((n) => settings[n] !== undefined && settings[n] !== null && settings[n] !== "" && settings[n] !== false).length || undefined;
  const title = (text, names) => html`${text} ${used(names) && html`<${Badge} kind="tint">${used(names)}<//>`}`;
  return html`<div class="settings">
    <${TextArea} label="System prompt" rows="4" value=${settings.system || ""} onValue=${(system) => set({ system })} placeholder="What the model is told before the first turn" />
    <${Disclosure} open=${true} title=${title("Sampling", sampling.map(([n]) => n))}>${numbers(sampling, settings, set)}<//>
    <${Disclosure} title=${title("Length", [...lengths.map(([n]) => n), "stop", "ignore_eos"])}>${numbers(lengths, settings, set)}
      <${TextArea} label="Stop at" hint="One text a line; \\n is a line break" rows="2" value=${settings.stop || ""} onValue=${(stop) => set({ stop })} />
      <${Switch} label="Go on past the end token" checked=${!!settings.ignore_eos} onValue=${(ignore_eos) => set({ ignore_eos })} /><//>
    <${Disclosure} title=${title("Penalties and bans", [...penalties.map(([n]) => n), "logit_bias", "bad_words"])}>${numbers(penalties, settings, set)}
      <${TextArea} label="Words that may not come" hint="One a line" rows="2" value=${settings.bad_words || ""} onValue=${(bad_words) => set({ bad_words })} />
      <${TextField} label="Logit bias" hint='Token ids and what is added: {"50256": -100}' class="mono-field" value=${settings.logit_bias || ""} onValue=${(logit_bias) => set({ logit_bias })} /><//>
    <${Disclosure} title=${title("Form of the answer", ["format"])}>
      <${Select} label="Form" value=${settings.format || ""} options=${formats} onValue=${(format) => set({ format, formatText: examples[format] || "" })} />
      ${examples[settings.format] !== undefined && html`<${TextArea} label=${formatLabels[settings.format]} rows="8" class="tall" spellcheck=${false} value=${settings.formatText || ""} onValue=${(formatText) => set({ formatText })} />`}<//>
    <${Disclosure} title=${html`Tools ${settings.tools?.length ? html`<${Badge} kind="tint">${settings.tools.length}<//>` : ""}`}><${Tools} settings=${settings} set=${set} /><//>
    <${Disclosure} title=${title("Thoughts", ["reasoning_effort", "thinking_token_budget"])}>
      <${Select} label="Effort" inline value=${settings.reasoning_effort || ""} options=${[["", "default"], ["none", "none"], ["minimal", "minimal"], ["low", "low"], ["medium", "medium"], ["high", "high"]]} onValue=${(reasoning_effort) => set({ reasoning_effort })} />
      <${NumberField} label="Token budget" min=${-1} step=${1} placeholder="default" value=${settings.thinking_token_budget} onValue=${(thinking_token_budget) => set({ thinking_token_budget })} /><//>
    <${Disclosure} title=${title("Tokens", ["logprobs", "special"])}>
      <${Switch} label="Log-probabilities" hint="Colours each token by its probability and shows what else could have come" checked=${!!settings.logprobs} onValue=${(logprobs) => set({ logprobs })} />
      ${settings.logprobs && html`<${NumberField} label="Alternatives" min=${0} max=${20} step=${1} placeholder="5" value=${settings.top_logprobs} onValue=${(top_logprobs) => set({ top_logprobs })} />`}
      <${Switch} label="Show control tokens" checked=${!!settings.special} onValue=${(special) => set({ special })} /><//>
    <${Disclosure} title=${title("Class and deadlines", ["service_tier", ...deadlines.map(([n]) => n)])}>
      <${Select} label="Class" inline value=${settings.service_tier || ""} options=${[["", "mine"], ["priority", "interactive"], ["default", "default"], ["flex", "batch"]]} onValue=${(service_tier) => set({ service_tier })} />${numbers(deadlines, settings, set)}<//>
    <${Disclosure} title=${title("More fields", ["extra"])}><${TextArea} label="JSON object that is added to the request" rows="4" class="tall" spellcheck=${false} value=${settings.extra || ""} onValue=${(extra) => set({ extra })} placeholder=${'{ "chat_template_kwargs": {} }'} /><//>
    <div class="row end"><${Button} small kind="quiet" onClick=${() => { set(null); toast("All settings are the server's defaults again"); }}>Set all back<//></div>
  </div>`;
}
