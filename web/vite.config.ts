// Builds the page of a report into one file, report.html in crates/ttmem-report/assets, which embeds it.

import { renameSync } from "node:fs";
import { join } from "node:path";
import { defineConfig, type UserConfig } from "vite";
import { viteSingleFile } from "vite-plugin-singlefile";

/** The configuration that builds the page `page` into `file` in the assets of the crate that embeds it. */
export function onePage(page: string, file: string, crate: string, more: UserConfig = {}): UserConfig {
  const assets = `../crates/${crate}/assets`;
  return defineConfig({
    ...more,
    build: {
      target: "es2022",
      outDir: assets,
      // The folder has other files.
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
        writeBundle({ dir = assets }) {
          renameSync(join(dir, page), join(dir, file));
        },
      },
    ],
  });
}

export default onePage("index.html", "report.html", "ttmem-report");
