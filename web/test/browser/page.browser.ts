// The page as a file: self-contained, offline, printable and accessible.

import { mkdirSync, readFileSync } from "node:fs";
import { createRequire } from "node:module";
import { join } from "node:path";
import type { Page } from "@playwright/test";
import { expect, frames, show, showAll, test } from "./support/page";
import { corpus, KEPT, logOf, report } from "./support/tool";

const CSP = "default-src 'none'; script-src 'unsafe-inline'; style-src 'unsafe-inline'; img-src data: blob:";

/** The file without its packed data: base64 has no addresses, but may look like anything. */
function ownText(file: string): string {
  const html = readFileSync(file, "utf8");
  return html.replace(/(<script type="application\/x-ttmem"[^>]*>)[A-Za-z0-9+/=]*(<\/script>)/g, "$1$2");
}

test("the files refer to no other host", () => {
  for (const name of corpus()) {
    const text = ownText(report(logOf(name)));
    const found = [
      /\b(https?|ftp):\/*[^\s"'`]{0,60}/gi,
      // With a slash: `Ws:` may be a short name in minified code, and a socket is found below.
      /\bwss?:\/[^\s"'`]{0,60}/gi,
      /["'`(=]\/\/[\w-]+\.[\w.]+/g,
      /@import/gi,
      /\burl\((?!["']?(data:|#))[^)]{0,60}/g,
      /\b(fetch|XMLHttpRequest|WebSocket|EventSource|sendBeacon|importScripts)\s*\(/g,
    ].flatMap((pattern) => text.match(pattern) ?? []);
    expect(found, name).toEqual([]);
    const attributes = /<[a-z]+\b[^>]*?\s(?:src|href|action|srcset|poster|data)=("[^"]*"|'[^']*'|[^\s>]+)/gi;
    const outside = [...text.matchAll(attributes)]
      .map(([, value]) => value.replace(/^["']|["']$/g, ""))
      .filter((value) => !/^(data:|#)/.test(value));
    expect(outside, name).toEqual([]);
  }
});

test("the file's policy forbids loading anything", () => {
  const html = readFileSync(report(logOf("vae-decoder")), "utf8");
  const policies = [...html.matchAll(/http-equiv="Content-Security-Policy"\s+content="([^"]*)"/g)];
  expect(policies.map(([, policy]) => policy)).toEqual([CSP]);
  expect(html.indexOf("Content-Security-Policy")).toBeLessThan(html.search(/<script|<style|<link/));
  expect(html).not.toContain("ttmem:data");
  expect(html).not.toContain("ttmem:title");
});

test("the page itself is small", () => {
  for (const name of corpus()) {
    const html = readFileSync(report(logOf(name)), "utf8");
    expect(ownText(report(logOf(name))).length, "without data").toBeLessThan(310_000);
    expect(html.length, name).toBeLessThan(500_000);
  }
});

for (const name of ["vae-decoder", "oom-fragmentation", "two-ranks-info-only", "info-only", "llm-decode"]) {
  test(`${name}: prints on at most two pages`, async ({ page, open }) => {
    await open(logOf(name));
    await showAll(page);
    mkdirSync(join(KEPT, "print"), { recursive: true });
    const pdf = await page.pdf({ path: join(KEPT, "print", `${name}.pdf`), format: "A4" });
    const pages = pdf.toString("latin1").match(/\/Type\s*\/Page\b(?!s)/g) ?? [];
    expect(pages.length).toBeGreaterThan(0);
    expect(pages.length).toBeLessThanOrEqual(2);
  });
}

const axe = readFileSync(createRequire(import.meta.url).resolve("axe-core/axe.min.js"), "utf8");

for (const name of ["vae-decoder", "oom-fragmentation", "two-ranks-info-only"]) {
  for (const colorScheme of ["light", "dark"] as const) {
    test(`${name}, ${colorScheme}: contrast, labels and roles (WCAG 2 A and AA)`, async ({ page, open }) => {
      await page.emulateMedia({ colorScheme });
      await open(logOf(name));
      await showAll(page);
      await page.evaluate(axe);
      expect(await violations(page)).toEqual([]);
    });
  }
}

interface Axe {
  run(
    context: Document,
    options: unknown,
  ): Promise<{
    violations: { id: string; nodes: { target: unknown[]; html: string; any: { message: string }[] }[] }[];
  }>;
}

/** The violations that axe finds: the rule, the first elements and the messages. */
function violations(page: Page): Promise<string[]> {
  return page.evaluate(async () => {
    const { axe } = window as unknown as { axe: Axe };
    const rules = { type: "tag", values: ["wcag2a", "wcag2aa", "wcag21a", "wcag21aa"] };
    const { violations } = await axe.run(document, { runOnly: rules, resultTypes: ["violations"] });
    return violations.flatMap(({ id, nodes }) =>
      nodes
        .slice(0, 3)
        .map(
          ({ target, html, any }) =>
            `${id} (of ${nodes.length}): ${target} ${html.slice(0, 90)} ${any[0]?.message ?? ""}`,
        ),
    );
  });
}

test("everything can be reached with the Tab key", async ({ page, open }) => {
  await open(logOf("vae-decoder"));
  await showAll(page);
  await page.evaluate(() => {
    scrollTo(0, 0);
    (document.activeElement as HTMLElement | null)?.blur();
  });
  const seen: string[] = [];
  for (let press = 0; press < 150; press++) {
    await page.keyboard.press("Tab");
    const now = await page.evaluate(async () => {
      await new Promise(requestAnimationFrame);
      const at = document.activeElement;
      if (!at || at === document.body) return null;
      const name =
        at.getAttribute("aria-label") ??
        (at as HTMLInputElement).labels?.[0]?.textContent ??
        at.textContent ??
        at.getAttribute("title");
      const outline = getComputedStyle(at);
      const isSeen = outline.outlineStyle !== "none" || outline.boxShadow !== "none";
      return `${at.closest("section")?.id ?? "bar"} ${at.getAttribute("role") ?? at.tagName.toLowerCase()} ${name?.slice(0, 60)}${isSeen ? "" : " (no outline)"}`;
    });
    if (now === null) break;
    seen.push(now);
  }
  const reached = seen.join("\n");
  expect(reached).toMatch(/^bar .*Use the (dark|light) theme/m);
  expect(reached).toMatch(/^bar select run/m);
  expect(reached).toMatch(/^memory tab DRAM/m);
  expect(reached).toMatch(/^memory application Memory of DRAM/m);
  expect(reached).toMatch(/^tensors application/m);
  expect(reached).toMatch(/^live button Save as CSV/m);
  expect(reached).toMatch(/^live treegrid Live tensors/m);
  expect(reached).toMatch(/^consumers button/m);
  expect(reached).toMatch(/^operations input Search operations/m);
  expect(reached).toMatch(/^operations grid/m);
  expect(reached).toMatch(/^ir input Search this graph/m);
  expect(reached).toMatch(/^ir grid/m);
  expect(seen.filter((name) => name.includes("(no outline)"))).toEqual([]);
  expect(seen.length, "few stops: table rows are not tab stops").toBeLessThan(150);
});

test("heading levels are in order", async ({ page, open }) => {
  await open(logOf("vae-decoder"));
  await showAll(page);
  const levels = await page
    .locator("h1, h2, h3, h4")
    .evaluateAll((headings) => headings.map(({ tagName }) => Number(tagName[1])));
  expect(levels[0]).toBe(1);
  expect(levels.filter((level) => level === 1)).toHaveLength(1);
  for (const [at, level] of levels.entries())
    if (at > 0) expect(level).toBeLessThanOrEqual(levels[at - 1] + 1);
  await expect(page.locator("html")).toHaveAttribute("lang", "en");
  await expect(page.locator("main")).toHaveCount(1);
});

/** The first view, for the README. */
test("screenshots of the first view", async ({ page, open }) => {
  mkdirSync(join(KEPT, "screenshots"), { recursive: true });
  await page.setViewportSize({ width: 1280, height: 1000 });
  await open(logOf("vae-decoder"));
  for (const theme of ["light", "dark"] as const) {
    await page.emulateMedia({ colorScheme: theme });
    await showAll(page);
    await show(page, "overview");
    await page.evaluate(() => scrollTo(0, 0));
    await frames(page);
    await page.screenshot({ path: join(KEPT, "screenshots", `first-view-${theme}.png`) });
  }
});

/** For visual inspection; nothing is compared. */
for (const name of ["vae-decoder", "oom-fragmentation", "two-ranks-info-only", "info-only"]) {
  test(`${name}: screenshots of the page`, async ({ page, open }) => {
    const folder = join(KEPT, "screenshots");
    mkdirSync(folder, { recursive: true });
    const shots = [
      { theme: "light", width: 1280 },
      { theme: "dark", width: 1280 },
      { theme: "light", width: 1920 },
      { theme: "dark", width: 1920 },
      { theme: "light", width: 420 },
    ] as const;
    await open(logOf(name));
    for (const { theme, width } of shots) {
      await page.emulateMedia({ colorScheme: theme });
      await page.setViewportSize({ width, height: 900 });
      await showAll(page);
      await show(page, "overview");
      await frames(page);
      // The pages are several thousand pixels high: PNG compression would take most of the test's time.
      await page.screenshot({
        path: join(folder, `${name}-${theme}-${width}.jpg`),
        fullPage: true,
        quality: 90,
      });
    }
  });
}
