// The legend of a chart: what is drawn how, with a switch for each line.

import { h } from "../dom";

/** How something is drawn. */
export interface Key {
  label: string;
  /** A role in style.css. */
  color: string;
  look: "area" | "solid" | "thin" | "dashed" | "dotted" | "tick" | "block" | "hatched";
  title?: string;
}

export function swatch(key: Key): HTMLElement {
  return h("span", {
    class: `chart-swatch chart-swatch-${key.look}`,
    style: `--swatch: var(--${key.color})`,
    "aria-hidden": "true",
  });
}

/** Something that is drawn and cannot be switched off. */
export function keyItem(key: Key): HTMLElement {
  return h("span", { class: "chart-key", title: key.title }, swatch(key), key.label);
}

/** A line that can be switched off. */
export function keySwitch(key: Key, isOn: boolean, toggle: () => void): HTMLButtonElement {
  return h(
    "button",
    {
      class: "chart-key",
      type: "button",
      "aria-pressed": String(isOn),
      title: key.title ?? `Show or hide: ${key.label}`,
      onclick: toggle,
    },
    swatch(key),
    key.label,
  );
}
