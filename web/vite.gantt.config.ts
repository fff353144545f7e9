// Builds the page of what ran when into one file, gantt.html in crates/ttmem-report/assets, which embeds it.

import { onePage } from "./vite.config.ts";

export default onePage("gantt.html", "gantt.html", "ttmem-report");
