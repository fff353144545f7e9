// Builds the page of a fleet into one file, python/ttmem/fleet/page.html, which the Python package contains.

import { onePage } from "./vite.config.ts";

export default onePage("fleet.html", "page.html", "python/ttmem/fleet");
