// Signing in at the sign-in service of the configuration, by OpenID Connect's code flow with PKCE. The browser goes there and comes back
// with a code, which this server changes for a token: the page asks no other host, and there is no cookie.
import { address, ask, Fault, key } from "./api.js";

const kept = "weir.signin"; // in sessionStorage, from the way there until the way back

/** Where people sign in: [{name, authorize, client_id, scope, error}]. page: "console" or "playground". */
export async function offers(page, signal) {
  try { return (await ask(`${page}/sign-in`, { signal })).issuers || []; } catch { return []; }
}

/** Whether this browser can: the proof of PKCE needs a page that came over TLS, or from this machine. */
export const able = () => Boolean(globalThis.crypto?.subtle);

const text = (bytes) => btoa(String.fromCharCode(...new Uint8Array(bytes))).replace(/\+/g, "-").replace(/\//g, "_").replace(/=+$/, "");
const random = () => text(crypto.getRandomValues(new Uint8Array(32)));

/** Leads the browser to an issuer. */
export async function leave(page, offer) {
  const verifier = random(), state = random(), nonce = random(), redirect = address(`${page}/`);
  const challenge = text(await crypto.subtle.digest("SHA-256", new TextEncoder().encode(verifier)));
  const to = new URL(offer.authorize);
  if (to.protocol !== "https:" && to.protocol !== "http:") throw new Fault({ message: "the sign-in service has no address that a browser can be led to" });
  sessionStorage.setItem(kept, JSON.stringify({ issuer: offer.name, verifier, state, nonce, redirect, hash: location.hash }));
  for (const [name, value] of Object.entries({ response_type: "code", client_id: offer.client_id, redirect_uri: redirect, scope: offer.scope, state, nonce, code_challenge: challenge, code_challenge_method: "S256" })) to.searchParams.set(name, value);
  location.assign(to.href);
}

/** Takes what the browser came back with, if it did. Resolves to a Fault, or to null. */
export async function arrive(page) {
  const came = new URLSearchParams(location.search);
  if (!came.has("state")) return null;
  let left = {};
  try { left = JSON.parse(sessionStorage.getItem(kept)) || {}; sessionStorage.removeItem(kept); } catch { /* then nothing was left */ }
  history.replaceState(null, "", location.pathname + (left.hash || "")); // the code is in no history
  if (!left.state || came.get("state") !== left.state) return new Fault({ message: "this sign-in was not begun in this tab; begin it here" });
  if (!came.get("code")) return new Fault({ message: `the sign-in service refused: ${(came.get("error_description") || came.get("error") || "it gave no code").slice(0, 200)}` });
  try {
    const got = await ask(`${page}/sign-in`, { body: { issuer: left.issuer, code: came.get("code"), code_verifier: left.verifier, redirect_uri: left.redirect, nonce: left.nonce } });
    key.set(got.token);
    return null;
  } catch (fault) { return fault; }
}
