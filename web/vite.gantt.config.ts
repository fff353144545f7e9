// Builds the gantt page into one file, crates/ttmem-report/assets/gantt.html, which that crate embeds.

import { onePage } from "./vite.config.ts";

export default onePage("gantt.html", "gantt.html", "crates/ttmem-report/assets");
