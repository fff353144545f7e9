// Formats numbers for people, in the same way as the command line does.

import { h } from "./dom";

const KIB = 1024;
const MIB = KIB * 1024;
const GIB = MIB * 1024;

/** The text for an unknown value. */
export const UNKNOWN = "unknown";

/** `4.69 GiB`, `393.7 MiB`, `12.0 KiB`, `64 B`. */
export function size(bytes: number | null): string {
  if (bytes === null || Number.isNaN(bytes)) return UNKNOWN;
  if (bytes < 0) return `−${size(-bytes)}`;
  if (bytes < KIB) return `${bytes} B`;
  // A value that rounds to 1024.0 of a unit is shown as 1.0 of the next unit.
  if (bytes < MIB - KIB / 20) return `${(bytes / KIB).toFixed(1)} KiB`;
  if (bytes < GIB - MIB / 20) return `${(bytes / MIB).toFixed(1)} MiB`;
  return `${(bytes / GIB).toFixed(2)} GiB`;
}

/** Like `size`, with a sign. */
export function change(bytes: number | null): string {
  if (bytes === null || Number.isNaN(bytes)) return UNKNOWN;
  return bytes > 0 ? `+${size(bytes)}` : size(bytes);
}

const GROUPED = new Intl.NumberFormat("en-US");

/** `12,345` */
export function count(number: number): string {
  return GROUPED.format(number);
}

/** `1 tensor`, `2 tensors` */
export function counted(number: number, one: string, many = `${one}s`): string {
  return `${count(number)} ${number === 1 ? one : many}`;
}

/** A share as a whole percentage; a nonzero part is never shown as 0%, nor a partial one as 100%. */
export function percent(part: number, whole: number): string {
  if (!(whole > 0)) return "–";
  const share = Math.round((part / whole) * 100);
  if (share === 0 && part > 0) return "<1%";
  if (share === 100 && part < whole) return ">99%";
  return `${share}%`;
}

/** A formatted size, with the exact number of bytes as its value and in its tooltip. */
export function sizeElement(bytes: number | null): HTMLElement {
  if (bytes === null || Number.isNaN(bytes)) return h("span", { class: "unknown" }, UNKNOWN);
  return h("data", { value: bytes, title: `${count(bytes)} bytes` }, size(bytes));
}

/** Like `sizeElement`, with a sign. */
export function changeElement(bytes: number | null): HTMLElement {
  if (bytes === null || Number.isNaN(bytes)) return h("span", { class: "unknown" }, UNKNOWN);
  return h("data", { value: bytes, title: `${count(bytes)} bytes` }, change(bytes));
}

/** Shortens text in the middle: both ends are usually more informative. */
export function shorten(text: string, max: number): string {
  if (text.length <= max) return text;
  const head = Math.ceil((max - 1) * 0.6);
  return `${text.slice(0, head)}…${text.slice(text.length - (max - 1 - head))}`;
}
