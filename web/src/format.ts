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

/** A column or line with sizes up to this one is in KiB, and up to the next one in MiB, as on the command line. */
const [MAX_KIB, MAX_MIB] = [16 * MIB, 10 * GIB];

/** The unit for sizes that are compared with each other; `null` if they differ too much for one unit. */
export function unitOf(largest: number): { name: string; bytes: number } | null {
  if (largest < MAX_KIB) return { name: "KiB", bytes: KIB };
  return largest < MAX_MIB ? { name: "MiB", bytes: MIB } : null;
}

/** A size in the unit of a larger one. A nonzero size is never shown as 0. */
export function sizeIn(bytes: number, largest: number): string {
  if (bytes < 0) return `−${sizeIn(-bytes, largest)}`;
  const unit = unitOf(largest);
  return unit && bytes >= unit.bytes / 20 ? `${(bytes / unit.bytes).toFixed(1)} ${unit.name}` : size(bytes);
}

/** `686.4 of 4080.0 MiB`: the unit is written once if both have the same. */
export function partOf(part: number, whole: number): string {
  const [text, all] = [sizeIn(part, whole), sizeIn(whole, whole)];
  const [number, unit] = text.split(" ");
  return `${all.endsWith(` ${unit}`) ? number : text} of ${all}`;
}

/** MiB with two decimals, as in the logs of tt-train. */
export function mib(bytes: number): string {
  return `${bytes < 0 ? "−" : ""}${(Math.abs(bytes) / MIB).toFixed(2)}`;
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

function dataElement(bytes: number | null, text: (bytes: number) => string): HTMLElement {
  if (bytes === null || Number.isNaN(bytes)) return h("span", { class: "unknown" }, UNKNOWN);
  return h("data", { value: bytes, title: `${count(bytes)} bytes` }, text(bytes));
}

/** A formatted size, with the exact number of bytes as its value and in its tooltip. */
export function sizeElement(bytes: number | null): HTMLElement {
  return dataElement(bytes, size);
}

/** Like `sizeElement`, with a sign. */
export function changeElement(bytes: number | null): HTMLElement {
  return dataElement(bytes, change);
}

/** Like `mib`. */
export function mibElement(bytes: number | null): HTMLElement {
  return dataElement(bytes, mib);
}

/** Like `mib`, with a sign. */
export function mibChangeElement(bytes: number | null): HTMLElement {
  return dataElement(bytes, (bytes) => (bytes < 0 ? mib(bytes) : `+${mib(bytes)}`));
}

/** Like `sizeIn`; like `size` if the larger one is unknown. */
export function sizeElementIn(bytes: number | null, largest: number | null): HTMLElement {
  return dataElement(bytes, (bytes) => (largest === null ? size(bytes) : sizeIn(bytes, largest)));
}

/** Like `partOf`: an element for each of both sizes. */
export function partElements(part: number, whole: number): (Node | string)[] {
  const [shown, shownWhole] = partOf(part, whole).split(" of ");
  return [dataElement(part, () => shown), " of ", dataElement(whole, () => shownWhole)];
}

/** Shortens text in the middle: both ends are usually more informative. */
export function shorten(text: string, max: number): string {
  if (text.length <= max) return text;
  const head = Math.ceil((max - 1) * 0.6);
  return `${text.slice(0, head)}…${text.slice(text.length - (max - 1 - head))}`;
}
