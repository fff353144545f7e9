// Creates elements in one call. Text from a log becomes text nodes, never markup.

type Child = Node | string | number | null | undefined | false;

/** Creates an element. Null attributes are skipped; `on…` functions are listeners; other names are as in HTML. */
export function h<Tag extends keyof HTMLElementTagNameMap>(
  tag: Tag,
  attributes: Record<string, unknown> = {},
  ...children: (Child | Child[])[]
): HTMLElementTagNameMap[Tag] {
  const element = document.createElement(tag);
  for (const [name, value] of Object.entries(attributes)) {
    if (value === null || value === undefined || value === false) continue;
    if (name.startsWith("on") && typeof value === "function") {
      element.addEventListener(name.slice(2), value as EventListener);
    } else {
      element.setAttribute(name, value === true ? "" : String(value));
    }
  }
  append(element, children);
  return element;
}

function append(element: HTMLElement, children: (Child | Child[])[]): void {
  for (const child of children.flat()) {
    if (child === null || child === undefined || child === false) continue;
    element.append(typeof child === "number" ? String(child) : child);
  }
}

/** Replaces an element's children. */
export function fill(element: HTMLElement, ...children: (Child | Child[])[]): void {
  element.replaceChildren();
  append(element, children);
}

/** Combines all calls within a frame into one call of `then`. */
export function oncePerFrame(then: () => void): () => void {
  let waiting = false;
  return () => {
    if (waiting) return;
    waiting = true;
    requestAnimationFrame(() => {
      waiting = false;
      then();
    });
  };
}

/** Downloads text as a file. */
export function save(name: string, text: string, type = "text/csv"): void {
  const url = URL.createObjectURL(new Blob([text], { type }));
  const link = h("a", { href: url, download: name });
  link.click();
  // Delayed: some browsers start reading only after this function returns.
  setTimeout(() => URL.revokeObjectURL(url), 10_000);
}
