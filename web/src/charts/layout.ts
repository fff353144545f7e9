// Measures that all charts share, in CSS pixels, so that the same step is at the same place in each of them.

/** From the left edge of a chart to its plot: the labels of the y axis. */
export const GUTTER = 100;
/** From the plot to the right edge: half of a long step number. */
export const MARGIN_RIGHT = 30;
/** Above the plot where nothing else is there: half a label. */
export const MARGIN_TOP = 10;
/** Above the plot where the runs are named. */
export const RUN_STRIP = 20;
/** Beneath the plot: the labels of the x axis. */
export const AXIS_HEIGHT = 42;
/** The size of letters on canvases. */
export const LETTER = 12;
