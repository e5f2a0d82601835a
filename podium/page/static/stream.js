// The stream of updates: server-sent events, with a watchdog, because a connection may die without a word.

/** Seconds without a sign of life after which the connection counts as lost; the server sends one every ten. */
const SILENCE = 16;
const FIRST_RETRY = 1;
const LAST_RETRY = 10;

export class Stream extends EventTarget {
  constructor(store, url = "/stream") {
    super();
    this.store = store;
    this.url = url;
    this.last = "";
    this.tries = 0;
    this.state = "connecting";
    this.heard = performance.now();
    setInterval(() => this.#watch(), 1000);
    addEventListener("online", () => this.#open());
    document.addEventListener("visibilitychange", () => document.hidden || this.#watch());
    // A page that leaves must not keep its place on the server until the next message.
    addEventListener("pagehide", () => this.source?.close());
    addEventListener("pageshow", (event) => event.persisted && this.#open());
    this.#open();
  }

  #open() {
    clearTimeout(this.timer);
    this.source?.close();
    // A new EventSource cannot send Last-Event-ID: what was seen last goes into the address.
    const source = new EventSource(this.last ? `${this.url}?after=${encodeURIComponent(this.last)}` : this.url);
    this.source = source;
    this.heard = performance.now();
    source.addEventListener("open", () => (this.heard = performance.now()));
    source.addEventListener("state", (event) => this.#hear(event, () => this.store.replace(JSON.parse(event.data))));
    source.addEventListener("change", (event) => this.#hear(event, () => this.store.apply(JSON.parse(event.data))));
    source.addEventListener("beat", () => (this.heard = performance.now()));
    source.addEventListener("error", () => source === this.source && this.#lose());
  }

  #hear(event, work) {
    this.heard = performance.now();
    this.last = event.lastEventId;
    this.tries = 0;
    work();
    this.#become("live");
  }

  #watch() {
    const silent = (performance.now() - this.heard) / 1000;
    if (silent > SILENCE && this.source.readyState !== EventSource.CLOSED) this.#lose();
    else if (this.state === "lost") this.#become("lost");
  }

  /** Close, say so, and try again by ourselves: a browser gives up for good after some answers. */
  #lose() {
    this.source.close();
    const pause = Math.min(FIRST_RETRY * 2 ** this.tries, LAST_RETRY);
    this.tries += 1;
    this.retryAt = performance.now() + pause * 1000;
    clearTimeout(this.timer);
    this.timer = setTimeout(() => this.#open(), pause * 1000);
    this.#become("lost");
  }

  #become(state) {
    if (state === this.state && state === "live") return;
    this.state = state;
    this.dispatchEvent(new Event("state"));
  }
}
