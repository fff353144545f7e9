// The sections about growth and about what keeps tensors alive match `ttmem summary --json`.

import { count } from "../../src/format";
import { overflow, violations } from "./support/accessibility";
import { expect, sectionsOf, show, test, values } from "./support/page";
import { logOf, recordingOfLeak, recordingOfPyTorch, summary } from "./support/tool";

test("what stays, and when memory is full", async ({ page, open }) => {
  const growth = summary(recordingOfLeak()).ranks[0].growth!;
  await open(recordingOfLeak());
  const section = await show(page, "growth");
  await expect(section).toContainText(growth.title!);
  for (const line of [...growth.notes, ...growth.caveats]) await expect(section).toContainText(line);
  const rows = section.locator("tbody tr");
  await expect(rows).toHaveCount(growth.survivors.length);
  for (const [at, survivor] of growth.survivors.entries()) {
    const row = rows.nth(at);
    expect(await values(row)).toEqual([survivor.per_iteration_per_bank, survivor.per_bank]);
    for (const text of [survivor.op, survivor.loc, survivor.module, survivor.held_by, survivor.held_part]) {
      if (text !== null) await expect(row).toContainText(text);
    }
  }
  const { step } = growth.survivors[0];
  const link = rows.first().getByRole("button");
  await expect(link).toHaveText(`step ${count(step!)}`);
  await link.click();
  await expect(page).toHaveURL(new RegExp(`#op=${step}\\b`));
});

test("what keeps tensors alive is listed, and part of the verdict", async ({ page, open }) => {
  const { holders, oom } = summary(recordingOfLeak()).ranks[0];
  expect(oom).not.toBeNull();
  await open(recordingOfLeak());
  const section = await show(page, "holders");
  const rows = section.locator("tbody tr");
  await expect(rows).toHaveCount(holders!.rows.length);
  for (const [at, { chain, per_bank: bytes }] of holders!.rows.entries()) {
    await expect(rows.nth(at)).toContainText(chain);
    expect(await values(rows.nth(at))).toEqual([bytes]);
  }
  expect(holders!.rows[0].chain).toContain("`predictions` in `train()`");
  await show(page, "overview");
  await expect(page.locator(".verdict [data-fact=holders]")).toContainText(holders!.rows[0].chain);
});

for (const colorScheme of ["light", "dark"] as const) {
  test(`${colorScheme}: contrast, labels, roles and width`, async ({ page, open }) => {
    await page.emulateMedia({ colorScheme });
    await page.setViewportSize({ width: 700, height: 900 });
    await open(recordingOfLeak());
    for (const id of ["overview", "growth", "holders"]) {
      await show(page, id);
      expect(await violations(page, `#${id}`)).toEqual([]);
    }
    expect(await overflow(page)).toBeLessThanOrEqual(0);
  });
}

test("memory that does not grow has no section", async ({ page, open }) => {
  for (const file of [recordingOfPyTorch(), logOf("vae-decoder")]) {
    await open(file);
    const sections = await sectionsOf(page);
    expect(sections).not.toContain("growth");
    expect(sections).not.toContain("holders");
  }
});
