import { readFileSync } from "node:fs";
import { resolve } from "node:path";
import { expect, test } from "vitest";
import { PAGE_STARTS } from "../../src/print";

test("the sections that begin a printed page are those of print.css", () => {
  const css = readFileSync(resolve(import.meta.dirname, "../../src/print.css"), "utf8");
  const [, selectors] = css.match(/([^{}]*)\{\s*break-before: page;/) ?? [];
  const sections = selectors?.split(",").map((selector) => selector.trim().split(" ").at(-1));
  expect(PAGE_STARTS).toEqual(sections);
});
