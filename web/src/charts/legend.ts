// The legend of a chart, with a toggle for each line.

import { h } from "../dom";

/** The label and appearance of a legend entry. */
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

/** A legend entry that can't be toggled. */
export function keyItem(key: Key): HTMLElement {
  return h("span", { class: "chart-key", title: key.title }, swatch(key), key.label);
}

/** A legend entry that toggles a line. */
export function keySwitch(key: Key, isOn: boolean, toggle: () => void): HTMLButtonElement {
  return h(
    "button",
    {
      class: "chart-key",
      type: "button",
      "aria-pressed": String(isOn),
      title: key.title ?? `Show or hide ${key.label}`,
      onclick: toggle,
    },
    swatch(key),
    key.label,
  );
}
