// Numbers and times as people read them, with their units.

const whole = new Intl.NumberFormat("en");
const clock = new Intl.DateTimeFormat("en-GB", { hour: "2-digit", minute: "2-digit", second: "2-digit" });

export const number = (value) => whole.format(Math.round(value));

export const percent = (share) => `${Math.round(share * 100)} %`;

export const timeOfDay = (seconds) => clock.format(new Date(seconds * 1000));

/** `3 pods`, `1 pod`. */
export const count = (value, noun) => `${number(value)} ${noun}${value === 1 ? "" : "s"}`;

function short(value) {
  return value >= 100 ? number(value) : value >= 10 ? value.toFixed(1).replace(/\.0$/, "") : value.toFixed(2).replace(/\.?0+$/, "");
}

/** Milliseconds as µs, ms or s. */
export function duration(milliseconds) {
  if (milliseconds < 1) return `${short(milliseconds * 1000)} µs`;
  return milliseconds < 1000 ? `${short(milliseconds)} ms` : `${short(milliseconds / 1000)} s`;
}

/** Seconds as 12 s, 4 min, 3 h 5 min, 2 d. */
export function age(seconds) {
  const s = Math.max(0, Math.round(seconds));
  if (s < 100) return `${s} s`;
  if (s < 6000) return `${Math.round(s / 60)} min`;
  if (s < 172800) return `${Math.floor(s / 3600)} h ${Math.floor((s % 3600) / 60)} min`;
  return `${Math.floor(s / 86400)} d`;
}

/** Totals of the cluster: milliCPU as cores, bytes as GiB or TiB. */
export function total(resource, value) {
  if (resource === "cpu") return short(value / 1000);
  if (resource === "memory") return value >= 2 ** 40 ? `${short(value / 2 ** 40)} TiB` : `${short(value / 2 ** 30)} GiB`;
  return number(value);
}

/** A quantity as Kubernetes writes it, easier to read: 8200m is 8.2, 16Gi is 16 GiB. */
export function quantity(text) {
  if (/^-?\d+m$/.test(text)) return short(Number(text.slice(0, -1)) / 1000);
  return text.replace(/^([\d.]+)([KMGTPE]i)$/, "$1 $2B");
}

/** A pool of the queue, as it is called on the page. */
export const POOLS = {
  unschedulable: "Unschedulable",
  backoff: "In backoff",
  active: "Next to be tried",
  "in flight": "Being scheduled",
  gated: "Gated",
};

export const resourceName = (name) => ({ cpu: "CPU", memory: "Memory", pods: "Pods" })[name] ?? name.replace(/^.*\//, "");
