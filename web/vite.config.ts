// Builds the report page into one file, crates/ttmem-report/assets/report.html, which that crate embeds.

import { renameSync } from "node:fs";
import { join } from "node:path";
import { defineConfig, type UserConfig } from "vite";
import { viteSingleFile } from "vite-plugin-singlefile";

/** Returns the configuration that builds `page` into `file` in a folder, given from the root of the repository. */
export function onePage(page: string, file: string, folder: string, more: UserConfig = {}): UserConfig {
  const assets = `../${folder}`;
  return defineConfig({
    ...more,
    build: {
      target: "es2022",
      outDir: assets,
      // The folder contains other files.
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

export default onePage("index.html", "report.html", "crates/ttmem-report/assets");
