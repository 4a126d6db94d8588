// The console of the admin listener.
import { html, render, useEffect } from "../lib/html.js";
import { key } from "../lib/api.js";
import { arrive } from "../lib/signin.js";
import { useRoute } from "../lib/hooks.js";
import { Badge, Button, Empty, Guard, Shell, SignIn, Spinner, Trouble } from "../lib/ui.js";
import { useLive } from "./live.js";
import { Now } from "./now.js";
import { Request, Requests } from "./request.js";
import { Models } from "./models.js";
import { Rollouts } from "./rollouts.js";
import { Replicas } from "./replicas.js";
import { Tenant, Tenants } from "./tenants.js";
import { Drift } from "./drift.js";
import { Audit } from "./audit.js";

const nav = [["now", "Now", "now"], ["requests", "Requests", "list"], ["models", "Models", "box"], ["rollouts", "Rollouts", "rollout"], ["tenants", "Tenants", "people"], ["replicas", "Replicas", "server"], ["classical", "Classical models", "plot"], ["audit", "Audit log", "audit"]];
const views = { now: Now, requests: Requests, models: Models, rollouts: Rollouts, tenants: Tenants, replicas: Replicas, classical: Drift, audit: Audit };
const single = { request: Request, tenants: Tenant }; // of one thing, by its id

const states = { connecting: ["", "connecting"], open: ["good", "live"], waiting: ["warn", "connection lost, trying again"], refused: ["bad", "refused"] };

function App({ arrived }) {
  const live = useLive(), route = useRoute(), [view = "now", id] = route.path;
  useEffect(() => { document.title = `${nav.find(([n]) => n === view)?.[1] || "Request"} · weir console`; }, [view]);
  const fault = live.fault;
  if (live.state === "refused" && (fault?.status === 401 || fault?.status === 403)) {
    return html`<${SignIn} name="console" arrived=${arrived} fault=${key.get() ? fault : null} onKey=${(k) => { key.set(k); live.again(); }} />`;
  }
  if (!live.now) {
    return html`<main class="sign-in"><h1 class="unseen">weir console</h1>${fault ? html`<${Trouble} title="The server does not say how it is" fault=${fault} onAgain=${live.again} />` : html`<${Spinner} />`}</main>`;
  }
  const [kind, words] = states[live.state];
  const top = html`<span role="status"><${Badge} kind=${kind}>${words}<//></span>
    ${key.get() && html`<${Button} kind="quiet" icon="key" label="Sign out: forget the key" onClick=${() => { key.set(""); live.again(); }} />`}`;
  const View = id === undefined ? views[view] : single[view];
  return html`<${Shell} name="console" nav=${nav} current=${view === "request" ? "requests" : view} top=${top}><${Guard} key=${`${view}/${id || ""}`}>
    ${View ? html`<${View} live=${live} id=${id} name=${id} />` : html`<${Empty} title="There is no such view" actions=${html`<a class="button primary" href="#/now">To what runs now</a>`} />`}<//><//>`;
}

render(html`<${App} arrived=${await arrive("console")} />`, document.getElementById("app"));
