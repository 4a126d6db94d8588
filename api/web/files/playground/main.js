// The playground of the API listener.
import { html, render } from "../lib/html.js";
import { key } from "../lib/api.js";
import { useLoad } from "../lib/hooks.js";
import { Shell, SignIn, Spinner, Trouble, Table, Guard } from "../lib/ui.js";
import { ask } from "../lib/api.js";

const nav = [["chat", "Chat", "chat"]];

function App() {
  const models = useLoad((signal) => ask("v1/models", { signal }));
  if (models.fault?.needsKey || models.fault?.status === 403) {
    return html`<${SignIn} name="playground" fault=${key.get() ? models.fault : null} onKey=${(k) => { key.set(k); models.again(); }} busy=${models.loading} />`;
  }
  return html`<${Shell} name="playground" nav=${nav} current="chat"><${Guard}><div class="page"><header><h1>Models</h1></header>
    ${models.fault ? html`<${Trouble} fault=${models.fault} onAgain=${models.again} />` : models.value ? html`<${Table} caption="Models" rows=${models.value.data} rowKey=${(m) => m.id}
      columns=${[{ name: "id", title: "Model" }, { name: "kind", title: "Kind" }, { name: "max_model_len", title: "Context", number: true }]} />` : html`<${Spinner} />`}</div><//><//>`;
}

render(html`<${App} />`, document.getElementById("app"));
