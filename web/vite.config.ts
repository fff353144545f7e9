// Builds the page of a report into one file, dist/report.html, that the command embeds.

import { renameSync } from "node:fs";
import { join } from "node:path";
import { defineConfig, type UserConfig } from "vite";
import { viteSingleFile } from "vite-plugin-singlefile";

/** How a page becomes one file. */
export function onePage(page: string, file: string, more: UserConfig = {}): UserConfig {
  return defineConfig({
    ...more,
    build: {
      target: "es2022",
      outDir: "dist",
      // There is another page beside it.
      emptyOutDir: false,
      assetsInlineLimit: Number.MAX_SAFE_INTEGER,
      modulePreload: false,
      reportCompressedSize: false,
      rolldownOptions: { input: page },
    },
    plugins: [
      viteSingleFile({ removeViteModuleLoader: true }),
      {
        name: file,
        writeBundle({ dir = "dist" }) {
          renameSync(join(dir, page), join(dir, file));
        },
      },
    ],
  });
}

export default onePage("index.html", "report.html");
