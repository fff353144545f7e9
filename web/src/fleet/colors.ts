// The colors of shares of the capacity: one scale without thresholds, from the page's background to the strongest color.

type Rgb = readonly [red: number, green: number, blue: number];

/** The colors at equal distances. Their lightness changes in one direction, so that the order is visible without hues. */
const STOPS: Record<"light" | "dark", readonly Rgb[]> = {
  light: [
    [255, 250, 235],
    [254, 217, 142],
    [245, 145, 60],
    [204, 55, 40],
    [103, 8, 28],
  ],
  dark: [
    [38, 40, 58],
    [96, 46, 122],
    [170, 52, 94],
    [238, 112, 60],
    [253, 226, 110],
  ],
};
const UNKNOWN: Record<"light" | "dark", Rgb> = { light: [176, 181, 192], dark: [88, 94, 108] };

/** The number of colors of a scale. */
const STEPS = 256;

export interface HeatColors {
  /** The color of a share as 0xAABBGGRR, the order of bytes in image data. A share of NaN has no color. */
  of(share: number): number;
  /** The color of memory whose capacity is unknown. */
  readonly unknown: number;
}

export function heatColors(theme: "light" | "dark"): HeatColors {
  const scale = Uint32Array.from({ length: STEPS }, (_, step) => packed(colorAt(theme, step / (STEPS - 1))));
  return {
    of: (share) =>
      Number.isNaN(share) ? 0 : scale[Math.round(Math.min(1, Math.max(0, share)) * (STEPS - 1))],
    unknown: packed(UNKNOWN[theme]),
  };
}

/** The color of a share from 0 to 1. */
export function colorAt(theme: "light" | "dark", share: number): Rgb {
  const stops = STOPS[theme];
  const place = Math.min(1, Math.max(0, share)) * (stops.length - 1);
  const low = Math.min(stops.length - 2, Math.floor(place));
  const mix = (at: 0 | 1 | 2) =>
    Math.round(stops[low][at] + (stops[low + 1][at] - stops[low][at]) * (place - low));
  return [mix(0), mix(1), mix(2)];
}

/** The scale as a CSS gradient. */
export function gradient(theme: "light" | "dark"): string {
  return `linear-gradient(to right, ${STOPS[theme].map((color) => `rgb(${color.join(" ")})`).join(", ")})`;
}

/** A color in CSS. */
export function cssColor(color: number): string {
  return `rgb(${color & 255} ${(color >>> 8) & 255} ${(color >>> 16) & 255})`;
}

function packed([red, green, blue]: Rgb): number {
  return (0xff000000 | (blue << 16) | (green << 8) | red) >>> 0;
}
