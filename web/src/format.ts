// Numbers as people read them: the same words and digits as on the terminal.

import { h } from "./dom";

const KIB = 1024;
const MIB = KIB * 1024;
const GIB = MIB * 1024;

/** What stands where something is not known. */
export const UNKNOWN = "unknown";

/** `4.69 GiB`, `393.7 MiB`, `12.0 KiB`, `64 B`. */
export function size(bytes: number | null): string {
  if (bytes === null || Number.isNaN(bytes)) return UNKNOWN;
  if (bytes < 0) return `−${size(-bytes)}`;
  if (bytes < KIB) return `${bytes} B`;
  // What rounds to 1024.0 of a unit is 1.0 of the next.
  if (bytes < MIB - KIB / 20) return `${(bytes / KIB).toFixed(1)} KiB`;
  if (bytes < GIB - MIB / 20) return `${(bytes / MIB).toFixed(1)} MiB`;
  return `${(bytes / GIB).toFixed(2)} GiB`;
}

/** As `size`, with a sign. */
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

/** A share in percent: whole, but never 0 for what is there nor 100 for what is not all. */
export function percent(part: number, whole: number): string {
  if (!(whole > 0)) return "–";
  const share = Math.round((part / whole) * 100);
  if (share === 0 && part > 0) return "<1 %";
  if (share === 100 && part < whole) return ">99 %";
  return `${share} %`;
}

/** A size for people, with the whole number of bytes for programs and in the tooltip. */
export function sizeElement(bytes: number | null): HTMLElement {
  if (bytes === null || Number.isNaN(bytes)) return h("span", { class: "unknown" }, UNKNOWN);
  return h("data", { value: bytes, title: `${count(bytes)} bytes` }, size(bytes));
}

/** As `sizeElement`, with a sign. */
export function changeElement(bytes: number | null): HTMLElement {
  if (bytes === null || Number.isNaN(bytes)) return h("span", { class: "unknown" }, UNKNOWN);
  return h("data", { value: bytes, title: `${count(bytes)} bytes` }, change(bytes));
}

/** A text cut in the middle, where the ends tell more than what is between. */
export function shorten(text: string, most: number): string {
  if (text.length <= most) return text;
  const head = Math.ceil((most - 1) * 0.6);
  return `${text.slice(0, head)}…${text.slice(text.length - (most - 1 - head))}`;
}
