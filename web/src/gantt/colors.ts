// The color of a call, by kind and name. The same name has the same color everywhere.
//
// The themes differ in lightness only: dark text on light bars, or light text on dark bars.

/** The range of hues of each kind, in degrees. Operations named by the user may have any hue. */
const HUES: Record<string, [first: number, range: number]> = {
  operation: [0, 360],
  forward: [225, 50],
  backward: [35, 45],
  optimizer: [310, 40],
  framework: [130, 60],
};

export interface BarColors {
  fill: string;
  /** For calls that a search did not find. */
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
  // The low bits alone differ too little for similar names.
  hash ^= hash >>> 15;
  hash = Math.imul(hash, 0x2c1b3c6d);
  return (hash ^ (hash >>> 13)) >>> 0;
}

/** The hue of a name, in distinguishable steps. */
export function hueOf(kind: string, name: string): number {
  const [first, range] = HUES[kind] ?? HUES.operation;
  const steps = range === 360 ? 24 : 6;
  return Math.round(first + ((hashOf(name) % steps) / steps) * range) % 360;
}

export function barColors(kind: string, name: string, theme: "light" | "dark"): BarColors {
  const hue = hueOf(kind, name);
  // Names with the same hue differ in chroma.
  const chroma = [0.05, 0.085, 0.12][(hashOf(name) >>> 8) % 3];
  return theme === "dark"
    ? {
        fill: `oklch(50% ${chroma} ${hue})`,
        faded: `oklch(50% ${chroma} ${hue} / 22%)`,
        ink: "#ffffff",
      }
    : {
        fill: `oklch(81% ${chroma} ${hue})`,
        faded: `oklch(81% ${chroma} ${hue} / 28%)`,
        ink: "#10131a",
      };
}
