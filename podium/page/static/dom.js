// Small helpers to build and update elements. Text is always set as text, so nothing that a cluster says becomes markup.

/** Make an element: `h("li", { class: "pod", onclick: f }, "text", child)`. Undefined and false children are left out. */
export function h(name, attributes = {}, ...children) {
  const element = document.createElement(name);
  return fill(element, attributes, children);
}

const SVG = "http://www.w3.org/2000/svg";

/** The same for SVG. */
export function s(name, attributes = {}, ...children) {
  return fill(document.createElementNS(SVG, name), attributes, children);
}

function fill(element, attributes, children) {
  for (const [key, value] of Object.entries(attributes)) {
    if (value === undefined || value === false || value === null) continue;
    if (key.startsWith("on")) element.addEventListener(key.slice(2), value);
    else if (key === "share") element.style.setProperty("--share", String(value));
    else element.setAttribute(key, value === true ? "" : String(value));
  }
  element.append(...children.flat(Infinity).filter((child) => child !== undefined && child !== false && child !== null));
  return element;
}

/** Set text only where it is another: an unchanged text costs no layout. */
export function setText(element, text) {
  if (element.textContent !== text) element.textContent = text;
}

export const byId = (id) => document.getElementById(id);

/**
 * Keep the children of `parent` equal to `items`, in order: elements are reused by key, moved and made as few as
 * possible. `make(item)` gives a new element, `update(element, item)` brings an old one up to date.
 */
export function keyed(parent, items, keyOf, make, update) {
  const old = parent.keyedChildren ?? new Map();
  const now = new Map();
  let at = parent.firstElementChild;
  for (const item of items) {
    const key = keyOf(item);
    let element = old.get(key);
    if (element) {
      old.delete(key);
      update?.(element, item);
    } else {
      element = make(item);
    }
    now.set(key, element);
    if (element === at) at = at.nextElementSibling;
    else parent.insertBefore(element, at);
  }
  for (const element of old.values()) element.remove();
  parent.keyedChildren = now;
}

/** Run `work` once before the next frame, however often it is asked for. A hidden page draws when it is seen again. */
export function framed(work) {
  let asked = false;
  return () => {
    if (asked) return;
    asked = true;
    requestAnimationFrame(() => {
      asked = false;
      work();
    });
  };
}
