// Dimensions shared by all charts, in CSS pixels, so that a step has the same x position in each of them.

/** The space left of the plot, for the y axis labels. */
export const GUTTER = 100;
/** The space right of the plot: half of a long step number. */
export const MARGIN_RIGHT = 30;
/** The space above the plot by default: half a label. */
export const MARGIN_TOP = 10;
/** The space above the plot for the names of runs. */
export const RUN_STRIP = 20;
/** The space below the plot, for the x axis labels. */
export const AXIS_HEIGHT = 42;
/** The font size on canvases. */
export const LETTER = 12;
