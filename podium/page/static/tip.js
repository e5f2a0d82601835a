// What a node is, beside its cell: at once what the stream told, then the pods on it, which are asked for.

import { byId, h } from "./dom.js";
import { count } from "./format.js";
import { resources } from "./panel.js";

/** Milliseconds that the pointer rests before the node is asked for, and for which an answer holds. */
const REST = 120;
const FRESH = 3000;
const MOST_PODS = 8;

export class Tip {
  constructor(store) {
    this.store = store;
    this.element = byId("tip");
    this.answers = new Map();
    this.name = null;
    addEventListener("scroll", () => this.hide(), { passive: true });
  }

  show(name, box) {
    this.name = name;
    this.box = box;
    clearTimeout(this.timer);
    const known = this.answers.get(name);
    this.#draw(known?.document);
    if (!known || performance.now() - known.at > FRESH) this.timer = setTimeout(() => this.#ask(name), REST);
  }

  hide() {
    this.name = null;
    clearTimeout(this.timer);
    this.element.hidden = true;
  }

  async #ask(name) {
    try {
      const answer = await fetch(`/nodes/${encodeURIComponent(name)}`, { signal: AbortSignal.timeout(10_000) });
      if (!answer.ok) return;
      if (this.answers.size > 200) this.answers.clear();
      this.answers.set(name, { document: await answer.json(), at: performance.now() });
    } catch {
      return; // what the stream told is there already
    }
    if (this.name === name) this.#draw(this.answers.get(name).document);
  }

  #draw(document) {
    const node = this.store.nodes.get(this.name);
    if (!node) return this.hide();
    const facts = [node.zone, count(node.pods, "pod"), node.state].filter(Boolean).join(" · ");
    this.element.replaceChildren(h("h3", {}, node.name), h("p", {}, facts), ...(document ? more(document) : uses(node)));
    this.element.hidden = false;
    this.#place();
  }

  #place() {
    const { offsetWidth: width, offsetHeight: height } = this.element;
    const { left, top, width: w, height: h_ } = this.box;
    const x = left + w + 10 + width < innerWidth ? left + w + 10 : Math.max(8, left - width - 10);
    const y = Math.max(8, Math.min(top + h_ / 2 - 40, innerHeight - height - 8));
    this.element.style.transform = `translate(${Math.round(x)}px, ${Math.round(y)}px)`;
  }
}

function uses(node) {
  const known = [["cpu", node.cpu], ["memory", node.memory], ["pods", node.podShare], ...Object.entries(node.others)];
  return [resources(known.slice(0, 4).map(([name, share]) => [name, { share }]))];
}

function more(d) {
  const order = ["cpu", "memory", "pods", ...Object.keys(d.resources).filter((name) => name.includes("/"))].filter((name) => d.resources[name]);
  const pods = d.podList.slice(0, MOST_PODS).map((pod) => h("li", {}, h("span", { class: "namespace" }, `${pod.namespace}/`), pod.name));
  const left = d.podList.length - pods.length;
  return [
    resources(order.map((name) => [name, d.resources[name]])),
    ...d.taints.map((taint) => h("p", { class: "taint" }, `taint ${taint}`)),
    h("ul", { class: "few" }, pods, left > 0 && h("li", { class: "more" }, `and ${count(left, "more pod")}`)),
  ];
}
