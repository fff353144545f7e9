// Builds the page of what ran when into one file, dist/gantt.html, that the command embeds.

import { onePage } from "./vite.config.ts";

export default onePage("gantt.html", "gantt.html");
