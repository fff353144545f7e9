// The button that switches between the light and dark theme, for pages without a store.

import { h } from "./dom";

/** Follows the system's theme until the button is pressed. Calls `changed` after each change. */
export function themeButton(changed: () => void = () => {}): HTMLElement {
  const button = h("button", { type: "button", class: "theme" });
  const dark = matchMedia("(prefers-color-scheme: dark)");
  let isChosen = false;
  const use = (theme: "dark" | "light") => {
    document.documentElement.dataset.theme = theme;
    const other = theme === "dark" ? "light" : "dark";
    button.textContent = other === "dark" ? "Dark" : "Light";
    button.setAttribute("aria-label", `Use the ${other} theme`);
    button.onclick = () => {
      // A manual choice overrides the system's theme.
      isChosen = true;
      use(other);
    };
    changed();
  };
  const follow = () => use(dark.matches ? "dark" : "light");
  dark.addEventListener("change", () => !isChosen && follow());
  follow();
  return button;
}
