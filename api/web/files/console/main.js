// The console of the admin listener.
import { html, render } from "../lib/html.js";
import { Shell, Empty } from "../lib/ui.js";

const nav = [["now", "Now", "now"]];

function App() {
  return html`<${Shell} name="console" nav=${nav} current="now"><${Empty} icon="now" title="Nothing is shown here yet">
    <p>The terminal shows what the server does now: <code>weir top</code>.</p><//><//>`;
}

render(html`<${App} />`, document.getElementById("app"));
