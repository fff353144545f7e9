// The section about allocations matches `ttmem summary --json --by`.

import { mkdirSync } from "node:fs";
import { join } from "node:path";
import type { Locator } from "@playwright/test";
import { count, percent } from "../../src/format";
import type { AllocationGroup, Allocations, GroupBy } from "../../src/generated/answers";
import { overflow, violations } from "./support/accessibility";
import { expect, NO_NUMBER, sectionsOf, show, test, values, wordsOf } from "./support/page";
import { corpusFile, KEPT, logOf, recordingOfPyTorch, summary } from "./support/tool";

const TRAINING = corpusFile("torch_snapshot/train_gpt2_30m.pickle.gz");
const GRAPHS = corpusFile("torch_snapshot/graph_expandable_pools.pickle.gz");

function answer(file: string, by: GroupBy): Allocations {
  return summary(file, "--by", by).ranks[0].allocations!;
}

async function expectGroups(section: Locator, of: "live" | "total", found: Allocations): Promise<void> {
  const groups: AllocationGroup[] = of === "live" ? found.groups : found.busiest;
  // In one call, since there are many rows.
  const rows = await section.locator(`tr[data-group=${of}]`).evaluateAll((rows) =>
    rows.map((row) => ({
      bytes: [...row.querySelectorAll("data")].map(({ value }) => Number(value)),
      cells: [...row.querySelectorAll("td")].map(({ textContent }) => textContent),
    })),
  );
  expect(rows.map(({ bytes }) => bytes)).toEqual(
    groups.map((group) => [group[of].bytes, group.at_end.bytes]),
  );
  for (const [at, group] of groups.entries()) {
    const { cells } = rows[at];
    expect(cells[2]).toBe(percent(group[of].bytes, found[of].bytes));
    expect(cells[3]).toBe(count(group[of].count));
    if (group.key !== null && found.by !== "class") expect(cells[0]).toContain(group.key);
    if (group.op !== null && found.by !== "op") expect(cells[5]).toBe(group.op);
  }
}

test("groups by each property, most allocated, and reserved memory", async ({ page, open }) => {
  await open(TRAINING);
  const section = await show(page, "allocations");
  const choice = section.getByLabel("group by");
  await expect(choice).toHaveValue("line");
  const choices = await choice
    .locator("option")
    .evaluateAll((options) => options.map((option) => (option as HTMLOptionElement).value));
  expect(choices).toEqual(["line", "stack", "op", "module", "class", "size"]);
  for (const by of choices as GroupBy[]) {
    await choice.selectOption(by);
    const found = answer(TRAINING, by);
    await expectGroups(section, "live", found);
    await expectGroups(section, "total", found);
  }
  const { reserved } = answer(TRAINING, "line");
  const rows = section.locator("tr[data-group=reserved]");
  await expect(rows).toHaveCount(reserved.length);
  for (const [at, pool] of reserved.entries()) {
    expect(await values(rows.nth(at))).toEqual([pool.bytes, pool.allocated, pool.free, pool.largest_free]);
  }
  expect(await wordsOf(page)).not.toMatch(NO_NUMBER);
});

test("waste, the largest transient, and the moments they name", async ({ page, open }) => {
  const { live, waste, largest_transient: transient, position } = answer(TRAINING, "line");
  await open(TRAINING);
  const section = await show(page, "allocations");
  const fact = (name: string) => section.locator(`[data-fact=${name}]`);
  expect(await values(fact("live"))).toEqual([live.bytes]);
  await expect(fact("live")).toContainText(`before step ${count(position)}`);
  expect(await values(fact("internal"))).toEqual([waste!.internal]);
  expect(await values(fact("external"))).toEqual([waste!.external]);
  await expect(fact("external").getByRole("img")).toHaveAttribute(
    "aria-label",
    /^Over the run: .* at the end$/,
  );
  await expect(fact("external").locator(".parts i")).toHaveCount(waste!.over_time.length);
  expect(await values(fact("transient"))).toEqual([transient!.bytes]);
  for (const text of [transient!.op!, transient!.line!, `step ${count(transient!.freed_by)}`]) {
    await expect(fact("transient")).toContainText(text);
  }
  await fact("internal").getByRole("button").click();
  await expect(page).toHaveURL(new RegExp(`#op=${waste!.internal_position}\\b`));
});

test("the call stack of a group opens with the keyboard", async ({ page, open }) => {
  await open(TRAINING);
  const section = await show(page, "allocations");
  await section.getByLabel("group by").focus();
  await section.getByLabel("group by").selectOption("stack");
  const { groups } = answer(TRAINING, "stack");
  const at = groups.findIndex(({ stack }) => (stack?.length ?? 0) > 1);
  const row = section.locator("tr[data-group=live]").nth(at);
  await row.locator("summary").focus();
  await page.keyboard.press("Enter");
  await expect(row.locator("li")).toHaveText(groups[at].stack!);
});

test("private pools are named", async ({ page, open }) => {
  await open(GRAPHS);
  const section = await show(page, "allocations");
  const pools = answer(GRAPHS, "line").reserved.filter((pool) => pool.private_pool !== null);
  expect(pools.length).toBeGreaterThan(0);
  for (const { private_pool: pool } of pools) {
    await expect(section).toContainText(`private pool (${pool!.join(", ")})`);
  }
});

for (const colorScheme of ["light", "dark"] as const) {
  test(`${colorScheme}: contrast, labels, roles and width`, async ({ page, open }) => {
    await page.emulateMedia({ colorScheme });
    await open(TRAINING);
    const section = await show(page, "allocations");
    mkdirSync(KEPT, { recursive: true });
    await section.screenshot({ path: join(KEPT, `allocations-${colorScheme}.png`) });
    await page.setViewportSize({ width: 700, height: 900 });
    for (const by of ["line", "stack"]) {
      await section.getByLabel("group by").selectOption(by);
      await section.locator("details").evaluateAll((all) => {
        for (const details of all) (details as HTMLDetailsElement).open = true;
      });
      expect(await violations(page, "#allocations")).toEqual([]);
      expect(await overflow(page)).toBeLessThanOrEqual(0);
    }
  });
}

test("inputs without a caching allocator have no section", async ({ page, open }) => {
  for (const file of [recordingOfPyTorch(), logOf("vae-decoder")]) {
    const has = summary(file).ranks.some(({ allocations }) => allocations != null);
    await open(file);
    expect((await sectionsOf(page)).includes("allocations"), file).toBe(has);
  }
});
