// Named cases of one client against a running server: each is run, printed and counted.
import { createRequire } from "node:module";
import { readFileSync } from "node:fs";
import path from "node:path";

export const base = process.argv[2] + "/v1";
export const key = "unused";
export const ask = [{ role: "user", content: "Hello" }];
export const long = [{ role: "user", content: "many words and no end ".repeat(20000) }];
export const model = (await (await fetch(base + "/models")).json()).data[0].id;

// run runs the cases (name to function), prints a line for each and a count, and ends the process.
export async function run(name, cases) {
  let passed = 0, failed = 0;
  for (const [what, check] of Object.entries(cases)) {
    try {
      console.log(`ok    ${what}: ${String(await check()).slice(0, 150)}`);
      passed++;
    } catch (e) { // a failing case must not hide the others
      console.log(`FAIL  ${what}: ${String(e).slice(0, 600)}`);
      failed++;
    }
  }
  console.log(`${name} ${version(name)}: ${passed} passed, ${failed} failed`);
  process.exit(failed > 0 ? 1 : 0);
}

// version of an installed package: its package.json lies above the file that an import of it loads.
function version(name) {
  let folder = path.dirname(createRequire(import.meta.url).resolve(name));
  for (; ; folder = path.dirname(folder)) {
    try {
      const found = JSON.parse(readFileSync(path.join(folder, "package.json")));
      if (found.name === name) return found.version;
    } catch { /* not in this folder */ }
  }
}
