// The page's colors for canvases, which can't use CSS variables.

export interface Colors {
  /** The color of a role in style.css: `allocated`, `class-weight` … */
  get(role: string): string;
  font: string;
}

/** The colors of the current theme. */
export function colorsNow(): Colors {
  const style = getComputedStyle(document.documentElement);
  const seen = new Map<string, string>();
  return {
    get(role) {
      let color = seen.get(role);
      if (color === undefined) {
        color =
          style.getPropertyValue(`--${role}`).trim() || style.getPropertyValue("--class-unknown").trim();
        seen.set(role, color);
      }
      return color;
    },
    font: style.getPropertyValue("--sans").trim() || "sans-serif",
  };
}

/** A color with an opacity of `share`. */
export function translucent(color: string, share: number): string {
  if (/^#[0-9a-f]{6}$/i.test(color)) {
    return (
      color +
      Math.round(share * 255)
        .toString(16)
        .padStart(2, "0")
    );
  }
  return `color-mix(in srgb, ${color} ${share * 100}%, transparent)`;
}

/** A pattern of diagonal lines, for bytes or changes that are not explained. */
export function hatching(
  context: CanvasRenderingContext2D,
  color: string,
  ratio: number,
): CanvasPattern | string {
  const size = Math.round(7 * ratio);
  const tile = document.createElement("canvas");
  tile.width = size;
  tile.height = size;
  const pen = tile.getContext("2d");
  if (!pen) return color;
  pen.strokeStyle = color;
  pen.lineWidth = Math.max(1, 1.2 * ratio);
  pen.beginPath();
  // Three lines, so that the tile's corners are covered too.
  for (const offset of [-size, 0, size]) {
    pen.moveTo(offset - 1, size + 1);
    pen.lineTo(offset + size + 1, -1);
  }
  pen.stroke();
  return context.createPattern(tile, "repeat") ?? color;
}
