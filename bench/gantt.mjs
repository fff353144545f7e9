// Measures a page of what ran when: until its bars are drawn, and while it is zoomed in and out and dragged.
//
// node bench/gantt.mjs page.html
import { measure } from "./opened.mjs";

await measure(process.argv[2], ".gantt-chart", "bars", async (page) => {
  const box = await page.locator(".gantt-rows").boundingBox();
  await page.mouse.move(box.x + box.width * 0.6, box.y + box.height / 2);
  return async (turn) => {
    const isIn = turn % 80 < 40;
    await page.mouse.wheel(0, isIn ? -60 : 60);
    if (turn % 20 === 0) await page.mouse.down();
    await page.mouse.move(box.x + box.width * (0.5 + 0.2 * Math.sin(turn / 7)), box.y + box.height * 0.5);
    if (turn % 20 === 10) await page.mouse.up();
  };
});
