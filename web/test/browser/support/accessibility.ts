// Checks pages with axe.

import { readFileSync } from "node:fs";
import { createRequire } from "node:module";
import type { Page } from "@playwright/test";

const axe = readFileSync(createRequire(import.meta.url).resolve("axe-core/axe.min.js"), "utf8");

/** The violations of the accessibility guidelines in the page, or in an element of it. */
export async function violations(page: Page, within?: string): Promise<string[]> {
  await page.evaluate(axe);
  return page.evaluate(async (within) => {
    interface Result {
      violations: { id: string; nodes: { target: unknown; failureSummary?: string }[] }[];
    }
    const { axe } = window as unknown as {
      axe: { run(where: Document | string, options: unknown): Promise<Result> };
    };
    const rules = ["wcag2a", "wcag2aa", "wcag21a", "wcag21aa", "best-practice"];
    const { violations } = await axe.run(within ?? document, {
      runOnly: rules,
      resultTypes: ["violations"],
    });
    return violations.map(({ id, nodes }) => `${id}: ${nodes[0]?.target} ${nodes[0]?.failureSummary}`);
  }, within);
}

/** How much wider the content is than the window, in pixels. */
export function overflow(page: Page): Promise<number> {
  return page.evaluate(() => document.documentElement.scrollWidth - document.documentElement.clientWidth);
}
