// What Colab's page does with a link: it takes the two keys out of the
// fragment, asks its user, dials the server on this machine, and serves its
// notebook there. The notebook itself is the host's (localtab): frames go
// both ways unread.

import { large, show } from "./view.js";

const largeFrames = [];

const farEnd = () => new WebSocket(`wss://${location.host}/stand-in/far-end?notebook=${encodeURIComponent(location.pathname)}`);

function state(name, words) {
  document.documentElement.dataset.state = name;
  document.querySelector("#status").textContent = words;
}

// link returns what the fragment says, or what it said before the page was
// loaded again.
function link() {
  const fragment = new URLSearchParams(location.hash.slice(1));
  for (const [key, kept] of [["mcpProxyToken", "mcp_proxy_token"], ["mcpProxyPort", "mcp_proxy_port"]]) {
    if (fragment.has(key)) sessionStorage.setItem(kept, fragment.get(key));
  }
  return { token: sessionStorage.getItem("mcp_proxy_token"), port: sessionStorage.getItem("mcp_proxy_port") };
}

function ask({ token, port }) {
  const dialog = document.querySelector("dialog");
  document.querySelector("#secret").value = `${token}&${port}`;
  dialog.returnValue = "cancel"; // Escape
  dialog.addEventListener("close", () => {
    if (dialog.returnValue === "connect") connect({ token, port });
    else state("cancelled", "not connected");
  }, { once: true });
  dialog.showModal();
  state("asking", "waiting for you");
}

function connect({ token, port }) {
  state("connecting", "connecting");
  const host = farEnd();
  // Never again after it has closed: Colab's user must load the link anew.
  const server = new WebSocket(`ws://localhost:${port}/?access_token=${encodeURIComponent(token)}`, ["mcp"]);
  const hostIsOpen = new Promise((open) => { host.onopen = open; });
  server.onopen = () => state("connected", "connected to an agent");
  server.onmessage = async ({ data }) => {
    await hostIsOpen;
    host.send(data);
  };
  host.onmessage = ({ data }) => {
    if (data.length > large) largeFrames.push(data);
    else view.changed();
    server.send(data);
  };
  server.onclose = ({ code, reason }) => {
    host.close(1000);
    state("closed", `disconnected (${code}${reason && ": " + reason})`);
  };
  host.onclose = () => server.close();
}

// digests are the SHA-256 of the results in the large frames so far, in hex,
// for a test to compare with what arrived at the other end.
const sums = [];
globalThis.digests = async () => {
  while (largeFrames.length) {
    const frame = largeFrames.shift();
    const result = frame.slice(frame.indexOf('"result":') + '"result":'.length, -1);
    const sum = await crypto.subtle.digest("SHA-256", new TextEncoder().encode(result));
    sums.push(Array.from(new Uint8Array(sum), (b) => b.toString(16).padStart(2, "0")).join(""));
  }
  return sums;
};

document.querySelector("h1").textContent = decodeURIComponent(location.pathname.split("/").pop());
const view = show(farEnd(), document.querySelector("#cells"));
const found = link();
if (found.token && found.port) ask(found);
else state("alone", "no link");
