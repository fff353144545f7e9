// The button that switches between light and dark, for pages that have no other state.

import { h } from "./dom";

/** Follows the system until somebody switches by hand. `changed` is called after the colours have. */
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
      // Whoever has switched by hand keeps what they chose.
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
