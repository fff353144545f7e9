// Builds the server's page into one file, crates/ttmem-serve/assets/serve.html, which that crate embeds.

import { onePage } from "./vite.config.ts";

// The server replaces this with a new nonce in each response; browsers only run scripts and styles with that nonce.
export default onePage("serve.html", "serve.html", "crates/ttmem-serve/assets", {
  html: { cspNonce: "ttmem-nonce" },
});
