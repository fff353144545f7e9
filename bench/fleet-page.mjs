// Measures the page of a fleet: until its cells are drawn, and while ranks scroll and the mouse moves over them.
//
// node bench/fleet-page.mjs page.html
import { measure } from "./opened.mjs";

await measure(process.argv[2], ".heat-chart", "cells", async (page) => {
  await page.getByRole("button", { name: "Small rows" }).click();
  await page.locator(".heat-scroll").scrollIntoViewIfNeeded();
  const box = await page.locator(".heat-scroll").boundingBox();
  await page.mouse.move(box.x + box.width * 0.6, box.y + box.height / 2);
  return async (turn) => {
    await page.mouse.wheel(0, turn % 80 < 40 ? 90 : -90);
    await page.mouse.move(box.x + box.width * (0.5 + 0.2 * Math.sin(turn / 7)), box.y + box.height * 0.5);
  };
});
