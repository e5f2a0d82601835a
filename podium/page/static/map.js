// The map: every node a cell, by zone, coloured by use. One canvas, of which only cells that changed are drawn again.

import { byId, framed, h, keyed, setText } from "./dom.js";
import { count, number, percent, resourceName } from "./format.js";

/** Cells from large to small: width, height, gap. The first size with which all nodes fit the height is taken. */
const SIZES = [
  [132, 58, 7], [120, 44, 6], [96, 40, 5], [72, 34, 4], [52, 30, 4], [38, 28, 3], [28, 24, 3], [22, 20, 3], [18, 16, 2],
  [14, 14, 2], [12, 12, 2], [10, 10, 2], [9, 9, 1], [8, 8, 1], [7, 7, 1], [6, 6, 1], [5, 5, 1],
];
const LABEL = 26;
const ZONE_GAP = 12;
const STEPS = 10;
const STANDARD = ["cpu", "memory", "pods"];

/** How well one colour is read on another, as WCAG counts it. */
function contrast(a, b) {
  const [dark, light] = [luminance(a), luminance(b)].sort((x, y) => x - y);
  return (light + 0.05) / (dark + 0.05);
}

function luminance(colour) {
  const [red, green, blue] = colour.match(/[\d.]+/g).map((part) => {
    const share = Number(part) / 255;
    return share <= 0.04045 ? share / 12.92 : ((share + 0.055) / 1.055) ** 2.4;
  });
  return 0.2126 * red + 0.7152 * green + 0.0722 * blue;
}

export class NodeMap {
  /** `onOpen(name)`: a node was chosen. `tip`: shows what a node is, beside it. */
  constructor(store, tip, onOpen) {
    this.store = store;
    this.tip = tip;
    this.onOpen = onOpen;
    this.canvas = byId("map");
    this.body = byId("map-body");
    this.context = this.canvas.getContext("2d");
    this.measure = "cpu";
    this.cells = [];
    this.at = new Map();
    this.dirty = new Set();
    this.focused = null;
    this.hovered = null;
    this.layoutDue = true;
    this.draw = framed(() => this.#draw());
    store.addEventListener("change", (event) => this.#changed(event.detail));
    new ResizeObserver(() => this.relayout()).observe(this.body);
    this.#listen();
  }

  relayout() {
    this.layoutDue = true;
    this.draw();
  }

  #changed({ moved, nodes }) {
    this.layoutDue ||= moved;
    for (const node of nodes) this.dirty.add(node.name);
    if (this.layoutDue || nodes.length) this.draw();
    this.#showMeasures();
  }

  // --- what is measured ---

  #showMeasures() {
    const others = new Set();
    for (const node of this.store.nodes.values()) for (const name in node.others) others.add(name);
    const names = [...STANDARD, ...[...others].filter((name) => !/^(hugepages-|ephemeral-storage)/.test(name)).sort().slice(0, 3)];
    if (!names.includes(this.measure)) this.measure = "cpu";
    keyed(byId("measures"), names, (name) => name, (name) => this.#choice(name), (button) => this.#mark(button));
  }

  #choice(name) {
    const button = h("button", { type: "button", role: "radio", "data-measure": name, title: name }, resourceName(name));
    button.addEventListener("click", () => this.choose(name));
    button.addEventListener("keydown", (event) => {
      const step = { ArrowRight: 1, ArrowDown: 1, ArrowLeft: -1, ArrowUp: -1 }[event.key];
      if (!step) return;
      event.preventDefault();
      const all = [...byId("measures").children];
      const next = all[(all.indexOf(button) + step + all.length) % all.length];
      this.choose(next.dataset.measure);
      next.focus();
    });
    this.#mark(button);
    return button;
  }

  #mark(button) {
    const chosen = button.dataset.measure === this.measure;
    button.setAttribute("aria-checked", String(chosen));
    button.tabIndex = chosen ? 0 : -1;
  }

  choose(name) {
    this.measure = name;
    for (const button of byId("measures").children) this.#mark(button);
    this.redraw();
  }

  /** Everything anew: another measure, another theme. */
  redraw() {
    this.palette = undefined;
    for (const name of this.store.nodes.keys()) this.dirty.add(name);
    this.layoutDue = true;
    this.draw();
  }

  use(node) {
    return { cpu: node.cpu, memory: node.memory, pods: node.podShare }[this.measure] ?? node.others[this.measure];
  }

  // --- layout ---

  #layout() {
    const zones = new Map();
    for (const node of this.store.nodes.values()) {
      if (!zones.has(node.zone)) zones.set(node.zone, []);
      zones.get(node.zone).push(node.name);
    }
    const order = new Intl.Collator("en", { numeric: true });
    this.zones = [...zones].sort(([a], [b]) => order.compare(a, b));
    for (const [, names] of this.zones) names.sort(order.compare);
    this.width = this.body.clientWidth;
    const most = innerWidth < 700 ? 620 : Math.max(380, Math.min(innerHeight - 330, 620));
    this.size = SIZES.find((size) => this.#height(size) <= most) ?? SIZES.at(-1);
    this.height = Math.max(this.#height(this.size), 60);
    this.#place();
    this.#resize();
    this.#legend();
  }

  #columns([width, , gap]) {
    return Math.max(1, Math.floor((this.width + gap) / (width + gap)));
  }

  #height(size) {
    const columns = this.#columns(size);
    let height = 0;
    for (const [, names] of this.zones) {
      height += LABEL + Math.ceil(names.length / columns) * (size[1] + size[2]) - size[2] + ZONE_GAP;
    }
    return height - ZONE_GAP;
  }

  #place() {
    const [width, height, gap] = this.size;
    const columns = this.#columns(this.size);
    // Wide cells share what is left of the line, small ones stay square.
    this.cellWidth = width > 28 ? Math.min((this.width + gap) / columns - gap, width * 1.6) : width;
    this.cells = [];
    this.at = new Map();
    this.labels = [];
    let top = 0;
    this.zones.forEach(([zone, names], block) => {
      this.labels.push({ text: zone || "no zone", nodes: names.length, y: top });
      names.forEach((name, i) => {
        const column = i % columns;
        const row = Math.floor(i / columns);
        const cell = { name, x: column * (this.cellWidth + gap), y: top + LABEL + row * (height + gap), block, row, column };
        this.at.set(name, this.cells.length);
        this.cells.push(cell);
      });
      top += LABEL + Math.ceil(names.length / columns) * (height + gap) - gap + ZONE_GAP;
    });
  }

  #resize() {
    const ratio = Math.min(devicePixelRatio || 1, 2);
    this.canvas.width = Math.round(this.width * ratio);
    this.canvas.height = Math.round(this.height * ratio);
    this.canvas.style.height = `${this.height}px`;
    this.context.setTransform(ratio, 0, 0, ratio, 0, 0);
  }

  #legend() {
    const kinds = new Set([...this.store.nodes.values()].map((node) => node.state));
    const bar = h("span", { class: "ramp" }, Array.from({ length: STEPS + 1 }, (_, i) => h("i", { class: `use-${i}` })));
    const parts = [h("span", {}, "0 %"), bar, h("span", {}, "100 % requested")];
    if (kinds.has("cordoned")) parts.push(h("span", { class: "key" }, h("i", { class: "cordoned" }), "cordoned"));
    if (kinds.has("not ready")) parts.push(h("span", { class: "key" }, h("i", { class: "not-ready" }), "not ready"));
    byId("legend").replaceChildren(...parts);
  }

  // --- drawing ---

  #colours() {
    const probe = byId("map-voice");
    const value = (name) => {
      probe.style.color = `var(--${name})`;
      return getComputedStyle(probe).color;
    };
    const names = ["ink", "soft", "card", "none", "bad", "focus"];
    const use = Array.from({ length: STEPS + 1 }, (_, i) => value(`use-${i}`));
    const texts = [value("on-low"), value("on-high")];
    return {
      ...Object.fromEntries(names.map((name) => [name, value(name)])),
      use,
      on: use.map((colour) => texts.reduce((a, b) => (contrast(a, colour) >= contrast(b, colour) ? a : b))),
      font: getComputedStyle(document.body).fontFamily,
    };
  }

  #draw() {
    this.palette ??= this.#colours();
    if (this.layoutDue) {
      this.layoutDue = false;
      this.#layout();
      this.#showEmpty();
      this.dirty.clear();
      this.#drawLabels();
      for (const cell of this.cells) this.#drawCell(cell);
    } else {
      for (const name of this.dirty) {
        const index = this.at.get(name);
        if (index !== undefined) this.#drawCell(this.cells[index]);
      }
      this.dirty.clear();
    }
    this.#drawFocus();
  }

  #showEmpty() {
    const empty = this.store.nodes.size === 0;
    byId("map-empty").hidden = !empty;
    this.canvas.hidden = empty;
    byId("legend").hidden = empty;
    const waits = !this.store.known || this.store.status.synced === false;
    setText(byId("map-empty"), waits ? "Waiting for the cluster…" : "The cluster has no nodes yet.");
  }

  #drawLabels() {
    const { context, palette } = this;
    context.textBaseline = "middle";
    for (const { text, nodes, y } of this.labels) {
      context.font = `600 12px ${palette.font}`;
      context.fillStyle = palette.ink;
      context.fillText(text, 0, y + LABEL / 2 - 2);
      const after = context.measureText(text).width + 8;
      context.font = `12px ${palette.font}`;
      context.fillStyle = palette.soft;
      context.fillText(count(nodes, "node"), after, y + LABEL / 2 - 2);
    }
  }

  #drawCell(cell) {
    const node = this.store.nodes.get(cell.name);
    if (!node) return;
    const { context, palette } = this;
    const [, height, gap] = this.size;
    const width = this.cellWidth;
    const use = this.use(node);
    const step = Math.min(STEPS, Math.round((use ?? 0) * STEPS));
    context.fillStyle = palette.card;
    context.fillRect(cell.x - gap / 2, cell.y - gap / 2, width + gap, height + gap);
    context.fillStyle = use === undefined ? palette.none : palette.use[step];
    this.#shape(cell.x, cell.y, width, height);
    context.fill();
    if (node.state) this.#drawState(cell, node.state, width, height);
    if (width < 50) return;
    context.fillStyle = use === undefined ? palette.soft : palette.on[step];
    this.#drawText(cell, use, width, height);
  }

  #shape(x, y, width, height) {
    const radius = width > 40 ? 5 : width > 12 ? 3 : width > 7 ? 1.5 : 0;
    this.context.beginPath();
    if (radius) this.context.roundRect(x, y, width, height, radius);
    else this.context.rect(x, y, width, height);
  }

  /** Not by colour alone: a cordoned node is crossed, one that is not ready has a frame. */
  #drawState(cell, state, width, height) {
    const { context, palette } = this;
    context.save();
    this.#shape(cell.x, cell.y, width, height);
    context.clip();
    context.strokeStyle = state === "not ready" ? palette.bad : palette.soft;
    context.lineWidth = width > 12 ? 2 : 1;
    context.beginPath();
    if (state === "not ready") {
      context.lineWidth = width > 12 ? 5 : 3;
      context.rect(cell.x, cell.y, width, height);
    } else {
      for (let x = cell.x - height; x < cell.x + width; x += width > 12 ? 7 : 4) {
        context.moveTo(x, cell.y + height);
        context.lineTo(x + height, cell.y);
      }
    }
    context.stroke();
    context.restore();
  }

  #drawText(cell, use, width, height) {
    const { context, palette } = this;
    context.textBaseline = "middle";
    const text = use === undefined ? "–" : percent(use);
    if (width < 80) {
      context.font = `600 12px ${palette.font}`;
      context.fillText(text, cell.x + 8, cell.y + height / 2 + 1);
      return;
    }
    context.font = `11px ${palette.font}`;
    context.fillText(this.#short(cell.name, width - 16), cell.x + 8, cell.y + height / 2 - 8);
    context.font = `600 13px ${palette.font}`;
    context.fillText(text, cell.x + 8, cell.y + height / 2 + 9);
  }

  /** The end of a name tells nodes apart, not its beginning. */
  #short(name, width) {
    if (this.context.measureText(name).width <= width) return name;
    let from = 1;
    while (from < name.length - 1 && this.context.measureText(`…${name.slice(from)}`).width > width) from += 1;
    return `…${name.slice(from)}`;
  }

  #drawFocus() {
    for (const name of this.framed ?? []) {
      const index = this.at.get(name);
      if (index !== undefined) this.#drawCell(this.cells[index]);
    }
    this.framed = [];
    const marks = [[this.hovered, this.palette.ink], [document.activeElement === this.canvas ? this.focused : null, this.palette.focus]];
    for (const [name, colour] of marks) {
      const index = name === null ? undefined : this.at.get(name);
      if (index === undefined) continue;
      const cell = this.cells[index];
      this.context.strokeStyle = colour;
      this.context.lineWidth = 2;
      this.#shape(cell.x + 1, cell.y + 1, Math.max(this.cellWidth - 2, 2), Math.max(this.size[1] - 2, 2));
      this.context.stroke();
      this.framed.push(name);
    }
  }

  // --- mouse, finger, keys ---

  #listen() {
    const canvas = this.canvas;
    canvas.addEventListener("pointermove", (event) => event.pointerType === "mouse" && this.#hover(this.#under(event)));
    canvas.addEventListener("pointerleave", () => this.#hover(null));
    canvas.addEventListener("click", (event) => {
      const name = this.#under(event);
      if (name === null) return;
      this.focused = name;
      this.#hover(null);
      this.onOpen(name);
    });
    canvas.addEventListener("focus", () => this.#focus(this.focused ?? this.cells[0]?.name ?? null));
    canvas.addEventListener("blur", () => {
      this.tip.hide();
      this.draw();
    });
    canvas.addEventListener("keydown", (event) => this.#key(event));
  }

  #under(event) {
    const box = this.canvas.getBoundingClientRect();
    const x = event.clientX - box.left;
    const y = event.clientY - box.top;
    const [, height, gap] = this.size ?? [0, 0, 0];
    const half = gap / 2;
    const hit = this.cells.find((c) => x >= c.x - half && x < c.x + this.cellWidth + half && y >= c.y - half && y < c.y + height + half);
    return hit?.name ?? null;
  }

  #hover(name) {
    if (name === this.hovered) return;
    this.hovered = name;
    this.canvas.style.cursor = name ? "pointer" : "default";
    if (name) this.#showTip(name);
    else this.tip.hide();
    this.draw();
  }

  #focus(name) {
    this.focused = name;
    if (name && this.canvas.matches(":focus-visible")) {
      const node = this.store.nodes.get(name);
      const use = this.use(node);
      const told = use === undefined ? "none" : percent(use);
      setText(byId("map-voice"), `${name}, ${node.zone || "no zone"}, ${resourceName(this.measure)} ${told}, ${count(node.pods, "pod")}${node.state ? `, ${node.state}` : ""}`);
      this.#showTip(name);
    }
    this.draw();
  }

  #showTip(name) {
    const cell = this.cells[this.at.get(name)];
    const box = this.canvas.getBoundingClientRect();
    this.tip.show(name, { left: box.left + cell.x, top: box.top + cell.y, width: this.cellWidth, height: this.size[1] });
  }

  #key(event) {
    if (event.key === "Enter" || event.key === " ") {
      event.preventDefault();
      if (this.focused) this.onOpen(this.focused);
      return;
    }
    const index = this.at.get(this.focused) ?? 0;
    const next = { ArrowLeft: index - 1, ArrowRight: index + 1, Home: 0, End: this.cells.length - 1 }[event.key] ?? this.#line(event.key, index);
    if (next === undefined || event.ctrlKey || event.metaKey || event.altKey) return;
    event.preventDefault();
    const cell = this.cells[Math.max(0, Math.min(next, this.cells.length - 1))];
    if (cell) this.#focus(cell.name);
  }

  /** The cell above or below, over the border of a zone too. */
  #line(key, index) {
    const step = { ArrowUp: -1, ArrowDown: 1 }[key];
    const from = this.cells[index];
    if (!step || !from) return undefined;
    for (let i = index + step, best; i >= 0 && i < this.cells.length; i += step) {
      const cell = this.cells[i];
      if (cell.block === from.block && cell.row === from.row) continue;
      best ??= cell;
      if (cell.block !== best.block || cell.row !== best.row) break;
      if (cell.column === from.column || (step > 0 && this.cells[i + 1]?.row !== cell.row && cell.column < from.column)) return i;
    }
    return undefined;
  }
}
