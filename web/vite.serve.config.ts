// Builds the page of the server into one file, dist/serve.html, that the command embeds.

import { onePage } from "./vite.config.ts";

// The server puts a number that is new in each answer in place of this one: only what has it runs.
export default onePage("serve.html", "serve.html", { html: { cspNonce: "ttmem-nonce" } });
