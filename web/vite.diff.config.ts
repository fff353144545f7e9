// Builds the page of a comparison into one file, crates/ttmem-report/assets/diff.html, which that crate embeds.

import { onePage } from "./vite.config.ts";

export default onePage("diff.html", "diff.html", "crates/ttmem-report/assets");
