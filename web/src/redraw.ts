// Draws everything that is drawn on canvases at once: for printing, which waits for no frame.

const painters = new Set<() => void>();

/** Says how something is drawn at its present size and in the present colours. */
export function onRedraw(paint: () => void): void {
  painters.add(paint);
}

/** Draws all of it, now. */
export function redrawAll(): void {
  for (const paint of painters) paint();
}
