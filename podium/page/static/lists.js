// The figures, the queue by pool with its reasons, and the recent decisions.

import { byId, framed, h, keyed, setText } from "./dom.js";
import { age, count, duration, number, percent, POOLS, timeOfDay, total } from "./format.js";

const POOL_ORDER = ["unschedulable", "backoff", "in flight", "active", "gated"];
const MAX_DECISIONS = 40;

export const podLink = (namespace, name) => `#/pods/${encodeURIComponent(namespace)}/${encodeURIComponent(name)}`;
export const nodeLink = (name) => `#/nodes/${encodeURIComponent(name)}`;

export class Lists {
  constructor(store) {
    this.store = store;
    this.filter = "";
    this.held = null;
    this.draw = framed(() => this.#draw());
    byId("queue-filter").addEventListener("input", (event) => {
      this.filter = event.target.value.trim().toLowerCase();
      this.draw();
    });
    byId("hold").addEventListener("click", () => this.#hold());
    setInterval(() => document.hidden || this.#tick(), 1000);
  }

  #draw() {
    this.#figures();
    this.#reasons();
    this.#pools();
    this.#decisions();
  }

  // --- figures ---

  #figures() {
    const { totals, nodes, lengths, samples } = this.store;
    const pending = POOL_ORDER.reduce((sum, pool) => sum + (lengths[pool] ?? 0), 0);
    const latest = samples.at(-1);
    const cycle = samples.findLast((sample) => sample.cycleP50 !== null);
    const rows = [
      { name: "Nodes", value: number(nodes.size), note: zones(nodes) },
      { name: "Pods on nodes", value: number(totals.pods?.[0] ?? 0), note: `of ${number(totals.pods?.[1] ?? 0)}` },
      use("CPU requested", "cpu", totals, "cores"),
      use("Memory requested", "memory", totals, ""),
      { name: "Pending", value: number(pending), note: pending ? `${number(lengths.unschedulable ?? 0)} unschedulable` : "nobody waits" },
      { name: "Bound now", value: latest ? number(latest.bound) : "–", unit: "pods/s", note: cycle ? `cycle ${duration(cycle.cycleP50)}, p99 ${duration(cycle.cycleP99)}` : "" },
    ];
    keyed(byId("figures"), rows, (row) => row.name, figure, updateFigure);
  }

  // --- queue ---

  #reasons() {
    const most = Math.max(1, ...this.store.reasons.map(([, pods]) => pods));
    keyed(byId("reasons"), this.store.reasons.slice(0, 6), ([reason]) => reason, ([reason, pods]) => reasonRow(reason, pods, most, () => this.#use(reason)), (element, [, pods]) => {
      element.style.setProperty("--share", String(pods / most));
      setText(element.querySelector("b"), number(pods));
    });
  }

  #use(reason) {
    const input = byId("queue-filter");
    input.value = input.value === reason ? "" : reason;
    this.filter = input.value.toLowerCase();
    this.draw();
  }

  #pools() {
    const pods = [...this.store.pods.values()].filter((pod) => !this.filter || `${pod.namespace}/${pod.name} ${pod.reason}`.toLowerCase().includes(this.filter));
    const pools = POOL_ORDER.map((pool) => {
      const rows = pods.filter((pod) => pod.pool === pool).sort((a, b) => b.priority - a.priority || a.since - b.since);
      return { pool, length: this.store.lengths[pool] ?? 0, rows };
    }).filter((each) => each.length > 0);
    const shown = pools.length ? pools : [{ pool: "none", length: 0, rows: [] }];
    keyed(byId("pools"), shown, (each) => each.pool, poolSection, () => {});
    for (const each of pools) this.#pool(each);
  }

  #pool({ pool, length, rows }) {
    const section = byId(`pool-${pool.replace(" ", "-")}`);
    setText(section.querySelector("h3 b"), number(length));
    const hidden = this.filter ? 0 : length - rows.length;
    setText(section.querySelector(".more"), hidden > 0 ? `and ${count(hidden, "more pod")}` : this.filter && !rows.length ? "none of those shown matches" : "");
    keyed(section.querySelector("ul"), rows, (pod) => pod.uid, podRow, updatePod);
  }

  #tick() {
    for (const element of document.querySelectorAll("[data-since]")) setText(element, waited(element.dataset));
  }

  // --- decisions ---

  #hold() {
    this.held = this.held ? null : [...this.store.decisions];
    byId("hold").setAttribute("aria-pressed", String(Boolean(this.held)));
    setText(byId("hold"), this.held ? "Go on" : "Hold");
    this.draw();
  }

  #decisions() {
    const rows = (this.held ?? this.store.decisions).slice(0, MAX_DECISIONS);
    keyed(byId("decisions"), rows.length ? rows : [null], (d) => (d ? `${d.uid} ${d.time}` : ""), decisionRow);
  }
}

// --- elements ---

function zones(nodes) {
  const names = new Set();
  for (const node of nodes.values()) if (node.zone) names.add(node.zone);
  return names.size ? `in ${count(names.size, "zone")}` : "";
}

function use(name, resource, totals, unit) {
  const [requested, allocatable] = totals[resource] ?? [0, 0];
  const share = allocatable ? requested / allocatable : 0;
  return { name, value: percent(share), share, note: `${total(resource, requested)} of ${total(resource, allocatable)} ${unit}` };
}

function figure(row) {
  const element = h("div", {}, h("dt", {}, row.name), h("dd", {}, h("b"), h("span", { class: "unit" }, row.unit ? ` ${row.unit}` : "")), h("dd", { class: "note" }), row.share !== undefined && h("dd", { class: "bar", "aria-hidden": "true" }));
  updateFigure(element, row);
  return element;
}

function updateFigure(element, row) {
  setText(element.querySelector("b"), row.value);
  setText(element.querySelector(".note"), row.note);
  if (row.share !== undefined) element.style.setProperty("--share", String(Math.min(row.share, 1)));
}

function reasonRow(reason, pods, most, onclick) {
  return h("button", { type: "button", share: pods / most, onclick, title: "Filter by this reason" }, h("b", {}, number(pods)), h("span", {}, reason));
}

function poolSection({ pool }) {
  if (pool === "none") return h("p", { class: "empty" }, "No pod is pending.");
  return h("section", { id: `pool-${pool.replace(" ", "-")}`, class: "pool" }, h("h3", {}, POOLS[pool], " ", h("b")), h("ul"), h("p", { class: "more" }));
}

function podRow(pod) {
  const element = h(
    "li", {},
    h("a", { href: podLink(pod.namespace, pod.name) },
      h("span", { class: "name" }, h("span", { class: "namespace" }, `${pod.namespace}/`), pod.name),
      h("span", { class: "meta" }, h("span", { class: "priority" }), h("span", { class: "tries" }), h("time")),
      h("span", { class: "reason" })),
  );
  updatePod(element, pod);
  return element;
}

function updatePod(element, pod) {
  setText(element.querySelector(".priority"), pod.priority ? `priority ${number(pod.priority)}` : "");
  setText(element.querySelector(".tries"), pod.attempts ? count(pod.attempts, "attempt") : "");
  setText(element.querySelector(".reason"), pod.nominatedNode ? `nominated to ${pod.nominatedNode} · ${pod.reason}` : pod.reason);
  const time = element.querySelector("time");
  time.dataset.since = pod.since;
  time.dataset.until = pod.backoffUntil;
  setText(time, waited(time.dataset));
}

function waited({ since, until }) {
  const now = Date.now() / 1000;
  if (Number(until) > now) return `again in ${age(Number(until) - now)}`;
  return age(now - Number(since));
}

const SIGNS = { scheduled: "→", unschedulable: "–", error: "!" };

function decisionRow(decision) {
  if (!decision) return h("li", { class: "empty" }, "No decision yet.");
  const placed = decision.result === "scheduled";
  const words = placed ? `${number(decision.feasible)} of ${count(decision.nodes, "node")} fit` : decision.reason || decision.result;
  const victims = decision.victims ? ` · evicts ${count(decision.victims, "pod")} on ${decision.nominatedNode}` : "";
  return h(
    "li", { class: decision.result },
    h("time", {}, timeOfDay(decision.time)),
    h("a", { href: podLink(decision.namespace, decision.name), title: `${decision.namespace}/${decision.name}` }, decision.name),
    h("span", { class: "to" }, `${SIGNS[decision.result] ?? ""} `, placed ? h("a", { href: nodeLink(decision.node) }, decision.node) : "no node"),
    h("span", { class: "words" }, `${words}${victims} · ${duration(decision.microseconds / 1000)}`),
  );
}
