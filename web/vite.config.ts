// Builds the page into one file, dist/report.html, that the command embeds.

import { renameSync } from "node:fs";
import { join } from "node:path";
import { defineConfig } from "vite";
import { viteSingleFile } from "vite-plugin-singlefile";

export default defineConfig({
  build: {
    target: "es2022",
    outDir: "dist",
    assetsInlineLimit: Number.MAX_SAFE_INTEGER,
    modulePreload: false,
    reportCompressedSize: false,
  },
  plugins: [
    viteSingleFile({ removeViteModuleLoader: true }),
    {
      name: "report.html",
      writeBundle({ dir = "dist" }) {
        renameSync(join(dir, "index.html"), join(dir, "report.html"));
      },
    },
  ],
});
