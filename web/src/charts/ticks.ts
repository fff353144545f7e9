// Ticks of a byte axis: round numbers in one binary unit.

import { unitOf } from "../format";

const GIB = { name: "GiB", bytes: 1024 ** 3 };
const BYTE = { name: "B", bytes: 1 };

export interface Ticks {
  at: number[];
  labels: string[];
}

/** About `target` ticks between two sizes. */
export function byteTicks(low: number, high: number, target: number): Ticks {
  const largest = Math.max(high, -low);
  const unit = largest < 1024 ? BYTE : (unitOf(largest) ?? GIB);
  const step = roundStep((high - low) / unit.bytes / Math.max(1, target), unit.bytes === 1 ? 1 : 0.001);
  const digits = Math.max(0, -Math.floor(Math.log10(step) + 1e-9));
  const ticks: Ticks = { at: [], labels: [] };
  for (let number = Math.ceil(low / unit.bytes / step - 1e-9); ; number++) {
    const value = number * step;
    if (value * unit.bytes > high) return ticks;
    ticks.at.push(value * unit.bytes);
    const sign = value < 0 ? "−" : "";
    ticks.labels.push(value === 0 ? "0" : `${sign}${Math.abs(value).toFixed(digits)} ${unit.name}`);
  }
}

/** Rounds up to 1, 2 or 5 times a power of ten. */
function roundStep(raw: number, min: number): number {
  if (!(raw > min)) return min;
  const power = 10 ** Math.floor(Math.log10(raw));
  const factor = [1, 2, 5, 10].find((factor) => factor * power >= raw * (1 - 1e-9)) ?? 10;
  return factor * power;
}

/** Possible distances between ticks on the step axis. */
export const STEP_INCREMENTS: number[] = Array.from({ length: 8 }, (_, power) =>
  [1, 2, 5].map((factor) => factor * 10 ** power),
).flat();
