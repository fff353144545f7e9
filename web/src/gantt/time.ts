// Formats durations and points in time.

const UNITS = [
  { name: "s", ns: 1e9 },
  { name: "ms", ns: 1e6 },
  { name: "µs", ns: 1e3 },
  { name: "ns", ns: 1 },
];

/** `1.234 s`, `56.7 ms`, `2 min 3.4 s`: at most four digits. */
export function duration(ns: number): string {
  if (Number.isNaN(ns)) return "unknown";
  // A value that rounds to 60.00 s is shown as a minute.
  if (ns >= 59.995e9) {
    const tenths = Math.round(ns / 1e8);
    const minutes = Math.floor(tenths / 600);
    if (minutes < 60) return `${minutes} min ${((tenths % 600) / 10).toFixed(1)} s`;
    const hours = Math.floor(minutes / 60);
    return hours < 48 ? `${hours} h ${minutes % 60} min` : `${Math.floor(hours / 24)} d ${hours % 24} h`;
  }
  // A value that rounds to 1000 of a unit is shown as 1 of the next unit.
  const unit = UNITS.find(({ ns: size }) => ns >= size * 0.99995) ?? UNITS[3];
  const value = ns / unit.ns;
  if (unit.ns === 1) return `${Math.round(value)} ns`;
  const digits = value >= 99.995 ? 1 : value >= 9.9995 ? 2 : 3;
  return `${value.toFixed(digits)} ${unit.name}`;
}

/** The time since the start, with the precision of a pixel: `1.234567 s`. */
export function since(ns: number, perPixel = 1): string {
  const digits = Math.min(9, Math.max(3, Math.ceil(9 - Math.log10(Math.max(1, perPixel)))));
  return `${(ns / 1e9).toFixed(digits)} s`;
}

/** The local date and time of a moment; `null` if the recording has none. */
export function clock(beganUnixNs: number | null, ns: number): string | null {
  if (beganUnixNs === null) return null;
  const date = new Date((beganUnixNs + ns) / 1e6);
  if (Number.isNaN(date.getTime())) return null;
  const two = (number: number) => String(number).padStart(2, "0");
  const day = `${date.getFullYear()}-${two(date.getMonth() + 1)}-${two(date.getDate())}`;
  const time = `${two(date.getHours())}:${two(date.getMinutes())}:${two(date.getSeconds())}`;
  return `${day} ${time}.${String(date.getMilliseconds()).padStart(3, "0")}`;
}

/** About `target` ticks between two times: round numbers of one unit. */
export function timeTicks(from: number, to: number, target: number): { at: number; label: string }[] {
  const step = roundStep((to - from) / Math.max(1, target));
  const ticks: { at: number; label: string }[] = [];
  for (let number = Math.ceil(from / step - 1e-9); number * step <= to && ticks.length < 100; number++) {
    ticks.push({ at: number * step, label: tickLabel(number * step, step) });
  }
  return ticks;
}

/** Rounds up to a round number of hours, minutes, seconds or fractions of a second. */
function roundStep(raw: number): number {
  const long = [1, 2, 5, 10, 15, 30, 60, 120, 300, 600, 900, 1800, 3600, 7200, 14400, 21600, 43200, 86400];
  if (raw > 5e8) {
    const found = long.find((seconds) => seconds * 1e9 >= raw);
    return (found ?? Math.ceil(raw / 86400e9) * 86400) * 1e9;
  }
  const power = 10 ** Math.floor(Math.log10(Math.max(1, raw)));
  const factor = [1, 2, 5, 10].find((factor) => factor * power >= raw * (1 - 1e-9)) ?? 10;
  return Math.max(1, factor * power);
}

function tickLabel(ns: number, step: number): string {
  if (ns === 0) return "0";
  if (step >= 60e9) {
    const minutes = Math.round(ns / 60e9);
    return minutes >= 60 && minutes % 60 === 0 ? `${minutes / 60} h` : minutesText(minutes);
  }
  const unit = UNITS.find(({ ns: size }) => step >= size) ?? UNITS[3];
  // Far from the start, the unit of the step would make the numbers too long.
  const shown = UNITS.findLast(({ ns: size }) => size >= unit.ns && ns < size * 1e5) ?? UNITS[0];
  const digits = Math.max(0, Math.ceil(Math.log10(shown.ns / step) - 1e-9));
  return `${(ns / shown.ns).toFixed(Math.min(9, digits))} ${shown.name}`;
}

const minutesText = (minutes: number): string =>
  minutes >= 60 ? `${Math.floor(minutes / 60)} h ${minutes % 60} min` : `${minutes} min`;
