// The state of the cluster as the stream tells it, and who wants to know of changes. Nothing here touches the screen.

const NODE = ["name", "zone", "state", "pods", "cpu", "memory", "podShare", "others"];
const POD = ["uid", "namespace", "name", "pool", "priority", "attempts", "since", "backoffUntil", "nominatedNode", "reason"];
const DECISION = ["time", "namespace", "name", "uid", "result", "node", "feasible", "nodes", "microseconds", "reason", "nominatedNode", "victims"];
const SAMPLE = ["time", "bound", "refused", "cycleP50", "cycleP99", "boundP50", "boundP99", "active", "backoff", "unschedulable", "gated"];

const MAX_DECISIONS = 100;
const MAX_SAMPLES = 600;

function named(fields, row) {
  const made = {};
  for (let i = 0; i < fields.length; i++) made[fields[i]] = row[i];
  return made;
}

export class Store extends EventTarget {
  constructor() {
    super();
    this.clear();
    this.known = false;
  }

  clear() {
    this.nodes = new Map();
    this.pods = new Map();
    this.lengths = {};
    this.reasons = [];
    this.totals = {};
    this.status = {};
    this.decisions = [];
    this.samples = [];
    this.time = 0;
  }

  /** The whole state: what was known before is forgotten. */
  replace(document) {
    this.clear();
    this.apply(document, true);
  }

  /** What has changed. Tells listeners of `change` which nodes and pods it was about. */
  apply(document, whole = false) {
    const nodes = (document.nodes ?? []).map((row) => named(NODE, row));
    let moved = whole || (document.goneNodes ?? []).length > 0;
    for (const node of nodes) {
      const before = this.nodes.get(node.name);
      moved ||= before === undefined || before.zone !== node.zone;
      this.nodes.set(node.name, node);
    }
    for (const name of document.goneNodes ?? []) this.nodes.delete(name);
    const about = new Set(document.gonePods ?? []);
    for (const uid of about) this.pods.delete(uid);
    for (const row of document.pods ?? []) {
      const pod = named(POD, row);
      this.pods.set(pod.uid, pod);
      about.add(pod.uid);
    }
    const decisions = (document.decisions ?? []).map((row) => named(DECISION, row));
    for (const decision of decisions) about.add(decision.uid);
    this.decisions = [...decisions, ...this.decisions].slice(0, MAX_DECISIONS);
    this.samples = [...this.samples, ...(document.samples ?? []).map((row) => named(SAMPLE, row))].slice(-MAX_SAMPLES);
    for (const field of ["lengths", "reasons", "totals", "status"]) {
      if (document[field] !== undefined && document[field] !== null) this[field] = document[field];
    }
    this.time = document.time;
    this.known = true;
    this.dispatchEvent(new CustomEvent("change", { detail: { whole, moved, nodes, about } }));
  }
}
