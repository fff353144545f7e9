// Puts the data of one report page into a newly built page, for work on the page:
// node with-data.mjs made-by-ttmem.html ../crates/ttmem-report/assets/report.html > try.html
import { readFileSync } from "node:fs";

const [made, built] = process.argv.slice(2).map((file) => readFileSync(file, "utf8"));
const data = made.match(/<script type="application\/x-ttmem"[^>]*>[^<]*<\/script>/g).join("\n");
process.stdout.write(built.replace("<!--ttmem:data-->", () => data));
