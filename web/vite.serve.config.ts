// Builds the page of the server into one file, serve.html in crates/ttmem-serve/assets, which embeds it.

import { onePage } from "./vite.config.ts";

// The server replaces this with a nonce of its own in each response: only scripts and styles with that nonce are used.
export default onePage("serve.html", "serve.html", "ttmem-serve", { html: { cspNonce: "ttmem-nonce" } });
