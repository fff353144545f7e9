// Tells a wheel that is turned over a chart from one that is still scrolling the page.

/** A wheel that turns on after scrolling the page is still scrolling the page. */
const SAME_GESTURE_MS = 250;

let pageScrolled = Number.NEGATIVE_INFINITY;
addEventListener(
  "wheel",
  (event) => {
    if (!(event.target instanceof Element && event.target.closest(".time-area")))
      pageScrolled = event.timeStamp;
  },
  { passive: true, capture: true },
);

/** Whether a wheel over a chart is the page's. */
export function isPageScroll(event: WheelEvent): boolean {
  if (event.timeStamp - pageScrolled >= SAME_GESTURE_MS) return false;
  pageScrolled = event.timeStamp;
  return true;
}
