// Lays out rectangles with areas to scale that are as square as possible.
//
// The algorithm of Bruls, Huizing and van Wijk: rows are filled along the shorter side, and a row is closed when one more
// item would worsen its worst aspect ratio.

export interface Box {
  x: number;
  y: number;
  width: number;
  height: number;
}

/** Returns a rectangle for each weight. Weights are positive and sorted in descending order. */
export function squarify(weights: readonly number[], into: Box): Box[] {
  const total = weights.reduce((sum, weight) => sum + weight, 0);
  const boxes: Box[] = [];
  if (!(total > 0) || into.width <= 0 || into.height <= 0) return boxes;
  const scale = (into.width * into.height) / total;
  let rest = { ...into };
  let first = 0;
  while (first < weights.length) {
    const side = Math.min(rest.width, rest.height);
    let end = first + 1;
    let sum = weights[first] * scale;
    while (end < weights.length) {
      const more = sum + weights[end] * scale;
      if (worst(weights, first, end + 1, more, scale, side) > worst(weights, first, end, sum, scale, side))
        break;
      sum = more;
      end++;
    }
    rest = layRow(weights, first, end, sum, scale, rest, boxes);
    first = end;
  }
  return boxes;
}

/** The worst aspect ratio in a row. */
function worst(
  weights: readonly number[],
  first: number,
  end: number,
  sum: number,
  scale: number,
  side: number,
): number {
  const [largest, smallest] = [weights[first] * scale, weights[end - 1] * scale];
  const square = side * side;
  return Math.max((square * largest) / (sum * sum), (sum * sum) / (square * smallest));
}

/** Places a row along the shorter side; returns the remaining box. */
function layRow(
  weights: readonly number[],
  first: number,
  end: number,
  sum: number,
  scale: number,
  rest: Box,
  boxes: Box[],
): Box {
  const { x, y, width, height } = rest;
  const wide = width >= height;
  const thickness = sum / (wide ? height : width);
  let offset = 0;
  for (let index = first; index < end; index++) {
    const length = (weights[index] * scale) / thickness;
    boxes.push(
      wide
        ? { x, y: y + offset, width: thickness, height: length }
        : { x: x + offset, y, width: length, height: thickness },
    );
    offset += length;
  }
  return wide
    ? { x: x + thickness, y, width: Math.max(0, width - thickness), height }
    : { x, y: y + thickness, width, height: Math.max(0, height - thickness) };
}
