// Distinguishes a wheel event meant for a chart from one that continues scrolling the page.

/** Wheel events within this time after a page scroll belong to the same gesture. */
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

/** Whether a wheel event over a chart still scrolls the page. */
export function isPageScroll(event: WheelEvent): boolean {
  if (event.timeStamp - pageScrolled >= SAME_GESTURE_MS) return false;
  pageScrolled = event.timeStamp;
  return true;
}
