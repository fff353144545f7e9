// Copies the data of an existing report page into a newly built page, to try out changes to the page:
// node with-data.mjs existing-report.html ../crates/ttmem-report/assets/report.html > try.html
import { readFileSync } from "node:fs";

const [existing, built] = process.argv.slice(2).map((file) => readFileSync(file, "utf8"));
const data = existing.match(/<script type="application\/x-ttmem"[^>]*>[^<]*<\/script>/g).join("\n");
process.stdout.write(built.replace("<!--ttmem:data-->", () => data));
