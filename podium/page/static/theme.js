// Light or dark: as the system has it, or as the visitor chose, which this browser remembers.

import { byId } from "./dom.js";

const ORDER = ["system", "light", "dark"];
const SIGNS = { system: "◐", light: "☀", dark: "☾" };
const NAMES = { system: "as the system", light: "light", dark: "dark" };

export class Theme extends EventTarget {
  constructor() {
    super();
    this.button = byId("theme");
    this.choice = remembered();
    this.button.addEventListener("click", () => this.#choose(ORDER[(ORDER.indexOf(this.choice) + 1) % ORDER.length]));
    matchMedia("(prefers-color-scheme: dark)").addEventListener("change", () => this.#tell());
    this.#show();
  }

  #choose(choice) {
    this.choice = choice;
    try {
      localStorage.setItem("theme", choice);
    } catch {
      // A browser that keeps nothing asks the system next time.
    }
    this.#show();
    this.#tell();
  }

  #show() {
    document.documentElement.dataset.theme = this.choice;
    this.button.textContent = SIGNS[this.choice];
    this.button.setAttribute("aria-label", `Theme: ${NAMES[this.choice]}`);
    this.button.title = `Theme: ${NAMES[this.choice]}`;
  }

  #tell() {
    this.dispatchEvent(new Event("change"));
  }
}

function remembered() {
  try {
    const choice = localStorage.getItem("theme");
    return ORDER.includes(choice) ? choice : "system";
  } catch {
    return "system";
  }
}
