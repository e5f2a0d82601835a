// The page: a store that the stream fills, and views that draw it.

import { Charts } from "./charts.js";
import { byId, framed, h, setText } from "./dom.js";
import { age, timeOfDay } from "./format.js";
import { Lists, podLink } from "./lists.js";
import { NodeMap } from "./map.js";
import { Panel } from "./panel.js";
import { Store } from "./store.js";
import { Stream } from "./stream.js";
import { Theme } from "./theme.js";
import { Tip } from "./tip.js";

const store = new Store();
const theme = new Theme();
const tip = new Tip(store);
const map = new NodeMap(store, tip, (name) => (location.hash = `#/nodes/${encodeURIComponent(name)}`));
const charts = new Charts(store);
const lists = new Lists(store);
const panel = new Panel(store);
const drawCharts = framed(() => charts.draw());

store.addEventListener("change", () => {
  lists.draw();
  drawCharts();
});
theme.addEventListener("change", () => map.redraw());
map.draw();
panel.route();

// --- the connection ---

const stream = new Stream(store);
const WORDS = { connecting: "connecting", live: "live", lost: "connection lost" };

function showConnection() {
  const { state } = stream;
  byId("link").dataset.state = state;
  setText(byId("link").querySelector("span"), state === "live" ? liveText() : WORDS[state]);
  document.body.classList.toggle("stale", state === "lost" && store.known);
  byId("lost").hidden = state !== "lost";
  if (state !== "lost") return;
  const wait = Math.max(0, (stream.retryAt - performance.now()) / 1000);
  const since = store.known ? `This is the state of ${timeOfDay(store.time)}.` : "Nothing was heard of podium yet.";
  setText(byId("lost"), `The connection is lost. ${since} ${wait > 0.5 ? `Trying again in ${age(wait)}.` : "Trying again…"}`);
}

/** What a live page is live of: a replica that does not lead decides nothing. */
function liveText() {
  const { synced, leader, stopping } = store.status;
  if (stopping) return "stopping";
  if (leader === false) return "standby, not the leader";
  return synced === false ? "waiting for the cluster" : "live";
}

stream.addEventListener("state", showConnection);
store.addEventListener("change", () => stream.state === "live" && showConnection());

// --- any pod, by name ---

const find = byId("find-pod");
find.addEventListener("focus", () => {
  const names = new Set([...store.pods.values(), ...store.decisions].map((pod) => `${pod.namespace}/${pod.name}`));
  byId("find-names").replaceChildren(...[...names].slice(0, 200).map((name) => h("option", { value: name })));
});
byId("find").addEventListener("submit", (event) => {
  event.preventDefault();
  const [name, namespace = "default"] = find.value.trim().split("/").reverse();
  if (name) location.hash = podLink(namespace, name);
});
addEventListener("keydown", (event) => {
  if (event.key === "/" && !event.target.closest("input")) {
    event.preventDefault();
    find.focus();
  }
});
