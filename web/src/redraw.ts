// Redraws all canvases immediately: printing does not wait for the next frame.

const painters = new Set<() => void>();

/** Registers a function that draws at the current size and in the current colors. */
export function onRedraw(paint: () => void): void {
  painters.add(paint);
}

/** Calls all registered functions. */
export function redrawAll(): void {
  for (const paint of painters) paint();
}
