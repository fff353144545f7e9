// A log with names that try to inject markup or code, or to break the layout: only the names change.

import { readFileSync } from "node:fs";
import type { Page } from "@playwright/test";
import { hasRoom } from "../../src/data/summary";
import type { LiveTensor, Summary } from "../../src/generated/answers";
import { expect, follow, frames, NO_NUMBER, show, showAll, test, values, wordsOf } from "./support/page";
import { logOf, summary, writtenLog } from "./support/tool";

/** The replacements for names, as MLIR writes them: quotes and backslashes are escaped. */
const HOSTILE = [
  "</script><script>window.hacked=1</script>",
  '\\"><img src=x onerror=window.hacked=1>',
  "<!--<script>",
  "__proto__",
  "constructor",
  "toString",
  // biome-ignore lint/suspicious/noTemplateCurlyInString: it is meant to look like one.
  "${window.hacked=1}",
  "{{window.hacked=1}}",
  "javascript:window.hacked=1",
  "'; window.hacked=1; '",
  "&lt;b&gt;&amp;&#60;svg onload=window.hacked=1&#62;",
  "emoji 🦀👩‍👩‍👧‍👦 \u{1f3f4}\u{e0067}\u{e0062}",
  "\u202eright to left\u202c \u200f\u061c",
  "zero\u200bwidth\ufeff and a\u0301\u0302\u0303\u0304 mark",
  "\\\\ back \\\\ slashes \\\\",
  "=cmd|' /C calc'!A0",
  "W".repeat(600),
  "spaces ".repeat(60),
  "<svg><style>*{display:none}</style></svg>",
  "]]>--></template></textarea></title></noscript>",
];
/** The longest name, without spaces for line breaks. */
const LONG = "L".repeat(10_000);

/** Replaces all names and locations of a log with hostile texts, consistently. */
function hostile(log: string): string {
  const text = readFileSync(log, "utf8");
  const found = new Set<string>();
  for (const [, name] of text.matchAll(/(?:ttir\.name = |loc\(|callsite\(|fused\[|, | at |\()"([^"\\]+)"/g))
    found.add(name);
  for (const name of found)
    if (/^(ttnn|ttir|ttcore|func|stablehlo|sdy|mesh)\b/.test(name)) found.delete(name);
  const replacement = new Map([...found].map((name, at) => [name, instead(at)]));
  const named = text.replace(/"([^"\\\n]+)"/g, (whole, name) => {
    const other = replacement.get(name);
    return other === undefined ? whole : `"${other}"`;
  });
  return named
    .replace(
      /module @[\w.]+/g,
      (whole) => `module @"${whole.slice(8)}</script><script>window.hacked=1</script>"`,
    )
    .replaceAll(/\b(main_const_eval_\d+)\b/g, "$1<img src=x onerror=window.hacked=1>")
    .replaceAll(/"ttnn\.(silu|mean|full|matmul|relu|add)"/g, '"ttnn.$1</script><svg onload=window.hacked=1>"')
    .replaceAll('"ttnn.multiply"', `"ttnn.multiply${"M".repeat(700)}"`);
}

/** A different replacement for each name. */
function instead(at: number): string {
  if (at % 23 === 7) return `${LONG}${at}`;
  return `${HOSTILE[at % HOSTILE.length]} ${at}`;
}

const CASES = ["vae-decoder", "llm-decode", "oom-fragmentation", "submit-states"];
const NAME = `</title></script><script>window.hacked=1</script><img src=x onerror=window.hacked=1> "'&🦀 ${"N".repeat(200)}`;

for (const name of CASES) {
  test(`${name}: hostile names change no number and run nothing`, async ({ page, open }) => {
    const log = writtenLog(`hostile-${name}`, hostile(logOf(name)));
    const [before, now] = [summary(logOf(name)), summary(log)];
    expect(JSON.stringify(now)).toContain("window.hacked");
    expect(numbersOf(now), "the log means the same").toEqual(numbersOf(before));

    await open(log, { name: NAME });
    // Characters that are invalid in file names are replaced earlier.
    await expect(page.locator("h1")).toContainText("onerror=window.hacked=1");
    await expect(page.locator("h1")).toContainText("🦀");
    expect(await page.title()).toContain("onerror=window.hacked=1");
    await showAll(page);
    await checkSafe(page);
    const [rank] = before.ranks;
    for (const [pool, { peak_per_bank: peak }] of Object.entries(rank.pools).filter(([, pool]) =>
      hasRoom(pool),
    )) {
      const shown = await values(page.locator(`#overview [data-pool="${pool}"] [data-fact="peak"]`));
      expect(shown, pool).toEqual(peak === null ? [] : [peak]);
    }
    const live = await show(page, "live");
    const { peak } = rank;
    expect(await values(live.locator('[data-fact="allocated"]'))).toEqual([peak?.allocated_per_bank]);
    expect(await values(live.locator('[data-fact="explained"]'))).toEqual([peak?.explained_per_bank]);
    // Groups of tensors with such names expand.
    const groups = live.locator("[aria-expanded=false]");
    if ((await groups.count()) > 0) {
      await groups.first().locator("> :first-child").click();
      await expect(live.locator('[aria-level="2"]').first()).toBeVisible();
      await checkSafe(page);
    }
    await checkWidth(page, [1280, 420]);
  });
}

test("hostile names in tooltips, searches and graphs", async ({ page, open }) => {
  const log = writtenLog("hostile-looked-at", hostile(logOf("vae-decoder")));
  await open(log);
  for (const section of ["memory", "tensors", "padding"]) {
    const plot = (await show(page, section)).locator(".time-area").first();
    const box = (await plot.boundingBox())!;
    for (const share of [0.2, 0.5, 0.8]) {
      await page.mouse.move(box.x + box.width * share, box.y + box.height * 0.6);
      await frames(page);
    }
  }
  // The operation with the longest location, in the table and in the text.
  const steps = summary(log, "--top", "200").ranks[0].suspects;
  const longest = steps.reduce((a, b) => ((b.loc?.length ?? 0) > (a.loc?.length ?? 0) ? b : a));
  expect(longest.loc?.length).toBeGreaterThan(10_000);
  await follow(page, `#op=${longest.step}`);
  const table = await show(page, "operations");
  await table.getByLabel("Search operations").fill("</script>");
  await expect(table.locator(".operations-count")).toHaveText(/\d+ of \d+/);
  await table.getByLabel("Search operations").fill("");
  await table
    .locator(`[data-row="${longest.step}"]`)
    .getByRole("button", { name: /in its graph/ })
    .click();
  await expect(page.locator('#ir .ir-line[aria-selected="true"]')).toBeVisible();
  await page.getByLabel("Search this graph").fill("<script>");
  await expect(page.locator("#ir .ir-found")).toHaveText(/of/);
  await expect(page.locator("#ir mark").first()).toHaveText("<script>");
  await checkSafe(page);
  await checkWidth(page, [1280, 420]);
});

/** No text of the log became an element or was executed. */
async function checkSafe(page: Page): Promise<void> {
  const found = await page.evaluate(() => ({
    hacked: (window as { hacked?: unknown }).hacked,
    polluted: ({} as { hacked?: unknown }).hacked,
    made: [...document.querySelectorAll("img, svg, iframe, object, embed, template, textarea, style + style")]
      .filter((element) => element.closest("#app"))
      .map(({ outerHTML }) => outerHTML.slice(0, 200)),
    scripts: [...document.scripts].filter(
      (script) => script.type !== "module" && script.type !== "application/x-ttmem",
    ).length,
    inApp: document.querySelectorAll("#app script, #app style, #app link").length,
  }));
  expect(found).toEqual({ hacked: undefined, polluted: undefined, made: [], scripts: 0, inApp: 0 });
  expect(await wordsOf(page)).not.toMatch(NO_NUMBER);
}

/** The page is not wider than the window: wide content scrolls within its box. */
async function checkWidth(page: Page, widths: number[]): Promise<void> {
  const wide: Record<number, unknown> = {};
  for (const width of widths) {
    await page.setViewportSize({ width, height: 900 });
    await showAll(page);
    wide[width] = await page.evaluate(() => {
      const room = document.documentElement.clientWidth;
      const isCut = (element: Element) => {
        for (let at: Element | null = element; at && at !== document.body; at = at.parentElement) {
          if (getComputedStyle(at).overflowX !== "visible") return true;
        }
        return false;
      };
      const sticksOut = [...document.querySelectorAll("#app *")]
        .filter((element) => element.getBoundingClientRect().left + element.scrollWidth > room + 1)
        .filter((element) => !isCut(element))
        .map((element) => `#${element.closest("section")?.id ?? ""} ${element.tagName}.${element.className}`);
      return { over: document.documentElement.scrollWidth - room, sticksOut: sticksOut.slice(-5) };
    });
  }
  const fine = Object.fromEntries(widths.map((width) => [width, { over: 0, sticksOut: [] }]));
  expect(wide).toEqual(fine);
}

/** A summary without names, which must not change. */
function numbersOf({ ranks }: Summary): unknown {
  const tensor = ({ shape, dtype, class: kind, per_bank, born_step, dies_step }: LiveTensor) => [
    ...[shape, dtype, kind],
    ...[per_bank, born_step, dies_step],
  ];
  return ranks.map((rank) => ({
    operations: rank.operations,
    distribution: rank.distribution.map(({ count }) => count),
    pools: rank.pools,
    live: rank.peak?.live?.map(tensor),
    unexplained: rank.peak?.unexplained_per_bank,
    padding: rank.padding && [rank.padding.padded_bytes, rank.padding.logical_bytes],
    suspects: rank.suspects.map(({ step, added_per_bank }) => [step, added_per_bank]),
    fragmentation: Object.entries(rank.fragmentation).map(([pool, found]) => [
      ...[pool, found.step, found.free_per_bank, found.largest_free_per_bank, found.severity, found.blocks],
    ]),
    weights: rank.weights && [rank.weights.count, rank.weights.bytes, rank.weights.kept_twice_bytes],
    oom: rank.oom && [rank.oom.cause, rank.oom.step, rank.oom.requested_per_bank],
  }));
}
