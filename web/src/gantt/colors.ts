// The colour of a call: what kind it is and how it is called. The same name has the same colour everywhere.
//
// Light and dark differ in lightness only, so that what is written on a bar can be read in both: dark on light bars,
// light on dark ones.

/** The hues of each kind: where they begin and how far they go, in degrees. What people named may be any. */
const HUES: Record<string, [first: number, range: number]> = {
  operation: [0, 360],
  forward: [225, 50],
  backward: [35, 45],
  optimizer: [310, 40],
  framework: [130, 60],
};

export interface BarColors {
  fill: string;
  /** For what was not found. */
  faded: string;
  ink: string;
}

/** FNV-1a. */
export function hashOf(text: string): number {
  let hash = 0x811c9dc5;
  for (let at = 0; at < text.length; at++) {
    hash ^= text.charCodeAt(at);
    hash = Math.imul(hash, 0x01000193);
  }
  // The low bits alone tell alike names apart badly.
  hash ^= hash >>> 15;
  hash = Math.imul(hash, 0x2c1b3c6d);
  return (hash ^ (hash >>> 13)) >>> 0;
}

/** The hue of a name, in steps that can be told apart. */
export function hueOf(kind: string, name: string): number {
  const [first, range] = HUES[kind] ?? HUES.operation;
  const steps = range === 360 ? 24 : 6;
  return Math.round(first + ((hashOf(name) % steps) / steps) * range) % 360;
}

export function barColors(kind: string, name: string, theme: "light" | "dark"): BarColors {
  const hue = hueOf(kind, name);
  // Names with the same hue differ in strength.
  const strength = [0.05, 0.085, 0.12][(hashOf(name) >>> 8) % 3];
  return theme === "dark"
    ? {
        fill: `oklch(50% ${strength} ${hue})`,
        faded: `oklch(50% ${strength} ${hue} / 22%)`,
        ink: "#ffffff",
      }
    : {
        fill: `oklch(81% ${strength} ${hue})`,
        faded: `oklch(81% ${strength} ${hue} / 28%)`,
        ink: "#10131a",
      };
}
