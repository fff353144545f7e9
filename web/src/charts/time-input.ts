// Mouse, wheel and keyboard input of all charts over time: it changes the visible range and the pin.

import type { TimeStore } from "../state";
import { isPageScroll } from "./page-scroll";
import { xOf } from "./resample";
import { showWindow, zoom } from "./window";

/** A chart's pointer handlers. Coordinates are CSS pixels within the plot. */
export interface PointerView {
  hover(left: number, top: number): void;
  leave(): void;
  /** Highlights the range that releasing the button will show; `null` for none. */
  select(range: [left: number, right: number] | null): void;
  /** The moment that a click pins. */
  momentAt(left: number): number;
}

/** The help line for mouse and keyboard. */
export const HINT =
  "Drag: zoom · Shift+drag or right-drag: pan · wheel: zoom at the cursor · double-click: show all · " +
  "click: pin a moment · keys: ← → move the pin (Shift: 10 steps), + − zoom, 0 show all";

/** Pointer movement, in pixels, that still counts as a click. */
const CLICK_TOLERANCE = 4;
const KEY_ZOOM = 0.7;

/** Connects the plot of a chart with the store. */
export function listenToPointer(area: HTMLElement, store: TimeStore, view: PointerView): void {
  area.classList.add("time-area");
  listenToDrags(area, store, view);
  area.addEventListener("dblclick", () => store.showAll());
  area.addEventListener("wheel", (event) => onWheel(event, area, store), { passive: false });
}

function positionAt(area: HTMLElement, store: TimeStore, left: number): number {
  const { from, to } = store.state;
  return from + (left / Math.max(1, area.clientWidth)) * (to - from);
}

function listenToDrags(area: HTMLElement, store: TimeStore, view: PointerView): void {
  let drag: { left: number; from: number; to: number; pans: boolean; moved: boolean } | null = null;
  let suppressMenu = false;
  const place = (event: PointerEvent): [number, number] => {
    const box = area.getBoundingClientRect();
    const inside = (value: number, max: number) => Math.min(Math.max(0, value), max);
    return [inside(event.clientX - box.left, box.width), inside(event.clientY - box.top, box.height)];
  };
  area.addEventListener("pointerdown", (event) => {
    const [left] = place(event);
    const { from, to } = store.state;
    drag = { left, from, to, pans: event.shiftKey || event.button !== 0, moved: false };
    suppressMenu = false;
    area.setPointerCapture(event.pointerId);
    if (event.button === 1) event.preventDefault();
  });
  area.addEventListener("pointermove", (event) => {
    const [left, top] = place(event);
    if (drag) {
      drag.moved ||= Math.abs(left - drag.left) > CLICK_TOLERANCE;
      if (drag.moved && drag.pans) {
        const shift = ((drag.left - left) / Math.max(1, area.clientWidth)) * (drag.to - drag.from);
        showWindow(store, drag.from + shift, drag.to + shift);
      } else if (drag.moved) {
        view.select([Math.min(left, drag.left), Math.max(left, drag.left)]);
      }
    }
    view.hover(left, top);
  });
  area.addEventListener("pointerup", (event) => {
    const ended = drag;
    drag = null;
    view.select(null);
    if (!ended) return;
    const [left] = place(event);
    suppressMenu = ended.moved && event.button === 2;
    if (ended.moved && !ended.pans) {
      const ends = [left, ended.left].map((place) => positionAt(area, store, place)).sort((a, b) => a - b);
      showWindow(store, Math.floor(ends[0]), Math.ceil(ends[1]));
    } else if (!ended.moved && event.button === 0) {
      store.pinMoment(view.momentAt(left));
    }
  });
  area.addEventListener("pointercancel", () => {
    drag = null;
    view.select(null);
    view.leave();
  });
  area.addEventListener("pointerleave", () => view.leave());
  area.addEventListener("contextmenu", (event) => {
    if (suppressMenu || drag?.moved) event.preventDefault();
  });
}

function onWheel(event: WheelEvent, area: HTMLElement, store: TimeStore): void {
  if (isPageScroll(event)) return;
  const { from, to } = store.state;
  const unit = event.deltaMode === WheelEvent.DOM_DELTA_PIXEL ? 1 : 30;
  const sideways = event.shiftKey && event.deltaX === 0 ? event.deltaY : event.deltaX;
  if (event.shiftKey || Math.abs(event.deltaX) > Math.abs(event.deltaY)) {
    const shift = ((sideways * unit) / Math.max(1, area.clientWidth)) * (to - from);
    showWindow(store, from + shift, to + shift);
  } else {
    const left = event.clientX - area.getBoundingClientRect().left;
    const factor = Math.exp(Math.min(1, Math.max(-1, event.deltaY * unit * 0.002)));
    zoom(store, factor, positionAt(area, store, left));
  }
  // If the range can't change any further, the wheel scrolls the page.
  if (store.state.from !== from || store.state.to !== to) event.preventDefault();
}

/** Connects a focused chart's keyboard input with the store. */
export function listenToKeys(element: HTMLElement, store: TimeStore): void {
  element.addEventListener("keydown", (event) => {
    if (event.ctrlKey || event.metaKey || event.altKey || event.target !== element) return;
    if (pressed(event.key, event.shiftKey, store)) event.preventDefault();
  });
}

/** Handles a key; returns `false` for keys without a function. */
function pressed(key: string, shift: boolean, store: TimeStore): boolean {
  const { moment, from, to, rank } = store.state;
  const pinned = xOf(moment);
  const around = pinned >= from && pinned <= to ? pinned : (from + to) / 2;
  const pin = (position: number) => store.pin(Math.min(Math.max(0, position), rank.end));
  switch (key) {
    case "ArrowRight":
      pin(Math.floor(pinned) + (shift ? 10 : 1));
      return true;
    case "ArrowLeft":
      pin(Math.ceil(pinned) - (shift ? 10 : 1));
      return true;
    case "Home":
      pin(0);
      return true;
    case "End":
      pin(rank.end);
      return true;
    case "PageUp":
    case "PageDown": {
      const shift = (to - from) * (key === "PageUp" ? -0.8 : 0.8);
      showWindow(store, from + shift, to + shift);
      return true;
    }
    case "+":
    case "=":
      zoom(store, KEY_ZOOM, around);
      return true;
    case "-":
    case "_":
      zoom(store, 1 / KEY_ZOOM, around);
      return true;
    case "0":
    case "Escape":
      store.showAll();
      return true;
    default:
      return false;
  }
}
