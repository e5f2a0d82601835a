// Small charts of the last ten minutes, as SVG: one path a series, changed once a second.

import { byId, h, s, setText } from "./dom.js";
import { duration, number, timeOfDay } from "./format.js";

const WIDTH = 360;
const HEIGHT = 104;
const SPAN = 600;

const CHARTS = [
  {
    id: "chart-rate", title: "Throughput", unit: "pods/s", tell: (v) => `${number(v)}/s`,
    series: [{ key: "bound", name: "bound", area: true }, { key: "refused", name: "failed attempts" }],
  },
  {
    id: "chart-latency", title: "Created to bound", unit: "", tell: duration,
    series: [{ key: "boundP50", name: "median" }, { key: "boundP99", name: "p99" }],
  },
  {
    id: "chart-pending", title: "Pending", unit: "pods", tell: number,
    series: [{ key: "waiting", name: "waiting", area: true }, { key: "unschedulable", name: "unschedulable" }],
  },
];

const read = (sample, key) => (key === "waiting" ? sample.active + sample.backoff + sample.unschedulable + sample.gated : sample[key]);

export class Charts {
  constructor(store) {
    this.store = store;
    this.charts = CHARTS.map((chart) => this.#build(chart));
  }

  #build(chart) {
    const lines = chart.series.map((series, i) => ({
      ...series,
      fill: series.area && s("path", { class: `area s${i}` }),
      path: s("path", { class: `line s${i}` }),
      value: h("b", {}, "–"),
    }));
    const top = s("text", { class: "axis", x: 0, y: 12 });
    const from = s("text", { class: "axis", x: 0, y: HEIGHT + 13 });
    const rule = s("line", { class: "rule", y1: 0, y2: HEIGHT, hidden: true });
    const picture = s(
      "svg", { viewBox: `0 0 ${WIDTH} ${HEIGHT + 16}`, role: "img", "aria-label": chart.title },
      s("line", { class: "grid", x1: 0, x2: WIDTH, y1: 0.5, y2: 0.5 }),
      s("line", { class: "grid", x1: 0, x2: WIDTH, y1: HEIGHT / 2, y2: HEIGHT / 2 }),
      s("line", { class: "base", x1: 0, x2: WIDTH, y1: HEIGHT, y2: HEIGHT }),
      lines.map((line) => [line.fill, line.path]),
      rule, top, from, s("text", { class: "axis", x: WIDTH, y: HEIGHT + 13, "text-anchor": "end" }, "now"),
    );
    const legend = h("p", { class: "series" }, lines.map((line, i) => h("span", { class: `s${i}` }, h("i"), `${line.name} `, line.value)));
    byId(chart.id).append(h("figcaption", {}, h("h2", {}, chart.title), legend), picture);
    const built = { ...chart, lines, top, from, picture, rule, at: null };
    picture.addEventListener("pointermove", (event) => this.#point(built, event));
    picture.addEventListener("pointerleave", () => this.#leave(built));
    return built;
  }

  #point(chart, event) {
    const box = chart.picture.getBoundingClientRect();
    chart.at = (event.clientX - box.left) / box.width;
    this.#tell(chart);
  }

  #leave(chart) {
    chart.at = null;
    this.#tell(chart);
  }

  draw() {
    for (const chart of this.charts) this.#draw(chart);
  }

  #draw(chart) {
    const samples = this.store.samples;
    const end = samples.at(-1)?.time ?? 0;
    const span = Math.min(SPAN, Math.max(60, end - (samples[0]?.time ?? end)));
    chart.span = span;
    let most = 0;
    for (const sample of samples) for (const { key } of chart.series) most = Math.max(most, read(sample, key) ?? 0);
    const high = nice(most || 1);
    const x = (time) => WIDTH - ((end - time) / span) * WIDTH;
    const y = (value) => HEIGHT - (value / high) * (HEIGHT - 4);
    for (const line of chart.lines) {
      const d = pathOf(samples, line.key, x, y);
      line.path.setAttribute("d", d);
      if (line.fill) line.fill.setAttribute("d", d && samples.length > 1 ? `${d}L${WIDTH},${HEIGHT}L${x(samples[0].time).toFixed(1)},${HEIGHT}Z` : "");
    }
    setText(chart.top, most ? chart.tell(high) : "");
    setText(chart.from, span >= 90 ? `${Math.round(span / 60)} min ago` : `${Math.round(span)} s ago`);
    this.#tell(chart);
  }

  /** The values now, or those under the pointer. */
  #tell(chart) {
    const samples = this.store.samples;
    const end = samples.at(-1)?.time ?? 0;
    const time = chart.at === null ? end : end - (1 - chart.at) * (chart.span ?? SPAN);
    const sample = chart.at === null ? samples.at(-1) : nearest(samples, time);
    for (const line of chart.lines) {
      let value = sample && read(sample, line.key);
      if (chart.at === null && (value === null || value === undefined)) value = samples.findLast((each) => read(each, line.key) !== null)?.[line.key];
      setText(line.value, value === undefined || value === null ? "–" : chart.tell(value));
    }
    chart.rule.toggleAttribute("hidden", chart.at === null || !sample);
    chart.rule.setAttribute("x1", (chart.at ?? 0) * WIDTH);
    chart.rule.setAttribute("x2", (chart.at ?? 0) * WIDTH);
    chart.picture.setAttribute("aria-label", `${chart.title}: ${chart.lines.map((line) => `${line.name} ${line.value.textContent}`).join(", ")}${chart.at === null || !sample ? "" : ` at ${timeOfDay(sample.time)}`}`);
  }
}

/** A pause in the values is a pause in the line. */
function pathOf(samples, key, x, y) {
  let path = "";
  let before = 0;
  for (const sample of samples) {
    const value = read(sample, key);
    if (value === null || value === undefined) continue;
    const joined = path && sample.time - before < 15;
    path += `${joined ? "L" : "M"}${x(sample.time).toFixed(1)},${y(value).toFixed(1)}`;
    if (!joined) path += "h0.01";
    before = sample.time;
  }
  return path;
}

function nearest(samples, time) {
  let best;
  for (const sample of samples) if (!best || Math.abs(sample.time - time) < Math.abs(best.time - time)) best = sample;
  return best;
}

/** The next of 1, 2, 5, 10, … */
function nice(value) {
  const power = 10 ** Math.floor(Math.log10(value));
  return [1, 2, 5, 10].map((step) => step * power).find((step) => step >= value * 0.999);
}
