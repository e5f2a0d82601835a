// The panel at the side: a pod's explanation, or a node with its pods. What it shows is asked for when it is opened,
// and again when the stream tells of news about it.

import { byId, h } from "./dom.js";
import { age, count, number, percent, quantity, resourceName, timeOfDay } from "./format.js";
import { nodeLink, podLink } from "./lists.js";

/** Seconds between two questions about the same thing, at least: each is work for the scheduler. */
const PAUSE = 3;

export class Panel {
  constructor(store) {
    this.store = store;
    this.element = byId("panel");
    this.body = byId("panel-body");
    this.shown = null;
    byId("panel-close").addEventListener("click", () => this.leave());
    addEventListener("keydown", (event) => {
      if (event.key === "Escape" && this.shown) this.leave();
    });
    addEventListener("hashchange", () => this.route());
    store.addEventListener("change", (event) => this.#news(event.detail));
  }

  /** Show what the address names: `#/pods/NAMESPACE/NAME`, `#/nodes/NAME`, or nothing. */
  route() {
    const [kind, ...names] = location.hash.replace(/^#\//, "").split("/").map(decode);
    if (kind === "pods" && names.length === 2) this.#open({ kind, title: names.join("/"), names, path: `/explain/${names.map(encodeURIComponent).join("/")}` });
    else if (kind === "nodes" && names.length === 1) this.#open({ kind, title: names[0], names, path: `/nodes/${encodeURIComponent(names[0])}` });
    else this.#close();
  }

  leave() {
    history.pushState(null, "", location.pathname);
    this.#close();
  }

  #open(what) {
    if (!this.shown) this.from = document.activeElement;
    this.shown = what;
    this.due = false;
    this.body.replaceChildren(h("p", { class: "empty" }, what.kind === "pods" ? "Asking the engine…" : "Looking…"));
    byId("panel-kind").textContent = what.kind === "pods" ? "Pod" : "Node";
    byId("panel-title").textContent = what.title;
    document.body.classList.add("with-panel");
    this.element.hidden = false;
    this.body.scrollTop = 0;
    byId("panel-title").focus({ preventScroll: true });
    this.#ask();
  }

  #close() {
    if (!this.shown) return;
    this.shown = null;
    clearTimeout(this.timer);
    this.element.hidden = true;
    document.body.classList.remove("with-panel");
    this.from?.focus?.({ preventScroll: true });
  }

  // --- asking ---

  async #ask() {
    const what = this.shown;
    clearTimeout(this.timer);
    this.asking = true;
    try {
      const answer = await fetch(what.path, { signal: AbortSignal.timeout(30_000) });
      const found = answer.ok ? (what.kind === "pods" ? explanation : nodePage)(await answer.json()) : [h("p", { class: "verdict" }, await answer.text())];
      if (what === this.shown) this.body.replaceChildren(...found, h("p", { class: "asof" }, `as of ${timeOfDay(Date.now() / 1000)}`));
    } catch {
      if (what === this.shown) this.body.replaceChildren(h("p", { class: "verdict" }, "No answer."), h("button", { type: "button", class: "text", onclick: () => this.#ask() }, "Ask again"));
    } finally {
      this.asking = false;
      if (what === this.shown) this.timer = setTimeout(() => this.due && this.#again(), PAUSE * 1000);
    }
    if (what === this.shown) this.asked = performance.now();
  }

  #again() {
    this.due = false;
    this.#ask();
  }

  #news({ nodes, about, whole }) {
    if (!this.shown) return;
    const { kind, names } = this.shown;
    if (kind === "nodes") this.due ||= whole || nodes.some((node) => node.name === names[0]);
    else this.due ||= whole || this.#concerns(about, names);
    if (this.due && !this.asking && performance.now() - (this.asked ?? 0) > PAUSE * 1000) this.#again();
  }

  #concerns(about, [namespace, name]) {
    const same = (each) => each.namespace === namespace && each.name === name;
    const pod = [...this.store.pods.values()].find(same);
    const decision = this.store.decisions.find(same);
    const uid = pod?.uid ?? decision?.uid ?? this.uid;
    this.uid = uid;
    return uid !== undefined && about.has(uid);
  }
}

function decode(text) {
  try {
    return decodeURIComponent(text);
  } catch {
    return text;
  }
}

const section = (title, ...children) => h("section", {}, h("h3", {}, title), children);

// --- a pod ---

function explanation(d) {
  return [
    h("p", { class: "tags" }, h("span", { class: `state ${d.state}` }, d.state), tag(d.profile ? `profile ${d.profile}` : `scheduler ${d.schedulerName}`), tag(`priority ${number(d.priority)}`), d.queue && tag(queueText(d.queue))),
    h("p", { class: "verdict" }, d.verdict),
    d.node && h("p", {}, "On ", h("a", { href: nodeLink(d.node) }, d.node), "."),
    d.causes.length > 0 && causes(d),
    d.changes.length > 0 && section("Would help", h("p", { class: "aside" }, "Each was checked against all filters."), h("ul", { class: "plain" }, d.changes.map((change) => h("li", {}, h("b", {}, count(change.nodes, "node")), ` ${change.text}`)))),
    d.nearest.length > 0 && section("Nearest nodes", h("ul", { class: "near" }, d.nearest.map((near) => h("li", {}, h("a", { href: nodeLink(near.node) }, near.node), h("span", {}, near.text))))),
    d.preemption && section("Preemption", h("p", {}, d.preemption.text), d.preemption.victims.length > 0 && h("ul", { class: "plain" }, d.preemption.victims.map((victim) => h("li", {}, podAnchor(victim.pod), ` priority ${number(victim.priority)}`)))),
    d.scores.length > 0 && scores(d),
    d.wakes.length > 0 && section("Tried again when", h("dl", { class: "wakes" }, d.wakes.flatMap((wake) => [h("dt", {}, wake.plugin), h("dd", {}, wake.events.join(" · "))]))),
    d.lastDecision && section("Last attempt", h("p", {}, `${d.lastDecision.result}${d.lastDecision.node ? ` to ${d.lastDecision.node}` : ""} at ${timeOfDay(Date.parse(d.lastDecision.time) / 1000)}, attempt ${number(d.lastDecision.attempt)}`)),
    d.message && section("Message", h("p", { class: "message" }, d.message)),
  ].filter(Boolean);
}

const tag = (text) => h("span", { class: "tag" }, text);

function queueText(queue) {
  if (queue.pool === "backoff") return `in backoff for another ${age(queue.backoffSeconds)}`;
  return `${queue.pool} for ${age(queue.waiting)}, ${count(queue.attempts, "attempt")}`;
}

function causes(d) {
  const rows = d.causes.map((cause) =>
    h("li", { share: d.nodeCount ? cause.nodes / d.nodeCount : 0 },
      h("b", {}, `${number(cause.nodes)} of ${number(d.nodeCount)}`),
      h("span", { class: "plugin" }, cause.plugin),
      h("span", { class: "detail" }, cause.detail)));
  return section("Refused by", h("ul", { class: "causes" }, rows));
}

function scores(d) {
  const plugins = Object.keys(d.scores[0].plugins);
  const head = h("tr", {}, h("th", { scope: "col" }, "Plugin"), d.scores.map((score) => h("th", { scope: "col", class: score.node === d.node ? "own" : undefined }, h("a", { href: nodeLink(score.node) }, score.node))));
  const rows = plugins.map((plugin) => h("tr", {}, h("th", { scope: "row" }, plugin), d.scores.map((score) => h("td", {}, number(score.plugins[plugin])))));
  const total = h("tr", { class: "total" }, h("th", { scope: "row" }, "Total"), d.scores.map((score) => h("td", {}, number(score.total))));
  return section(`Scores: it fits on ${count(d.feasible, "node")}`, h("div", { class: "scroll", tabindex: "0" }, h("table", {}, h("thead", {}, head), h("tbody", {}, rows, total))));
}

function podAnchor(key) {
  const [namespace, name] = key.split("/");
  return h("a", { href: podLink(namespace, name) }, key);
}

// --- a node ---

function nodePage(d) {
  const order = Object.keys(d.resources).sort((a, b) => rank(a) - rank(b) || a.localeCompare(b));
  return [
    h("p", { class: "tags" }, d.zone && tag(d.zone), d.unschedulable && h("span", { class: "state unschedulable" }, "cordoned"), d.taints.map((taint) => tag(`taint ${taint}`))),
    section("Requested", resources(order.map((name) => [name, d.resources[name]]))),
    section(count(d.podList.length, "pod"), h("ul", { class: "pods" }, d.podList.map(nodePod))),
  ];
}

const rank = (name) => ["cpu", "memory", "pods"].indexOf(name) + 1 || 9;

export function resources(rows) {
  return h("ul", { class: "uses" }, rows.map(([name, use]) =>
    h("li", { share: Math.min(use.share, 1) }, h("span", {}, resourceName(name)), h("i", { class: "bar" }), h("span", { class: "of" }, use.allocatable && `${quantity(use.requested)} of ${quantity(use.allocatable)}`), h("b", {}, percent(use.share)))));
}

function nodePod(pod) {
  const parts = [pod.requests.cpu && `${quantity(pod.requests.cpu)} CPU`, pod.requests.memory, ...Object.entries(pod.requests).filter(([name]) => name.includes("/")).map(([name, amount]) => `${amount} ${name}`)];
  return h("li", {}, h("a", { href: podLink(pod.namespace, pod.name) }, h("span", { class: "name" }, h("span", { class: "namespace" }, `${pod.namespace}/`), pod.name), h("span", { class: "meta" }, `priority ${number(pod.priority)}${parts.some(Boolean) ? ` · ${parts.filter(Boolean).join(" · ")}` : ""}`)));
}
