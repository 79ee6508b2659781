// Copies the framework-free core into this package. It lives with the viewer, whose pages serve it as it is;
// npm runs this before the package is packed (`prepack`), so no copy is kept in git.

import { cpSync, existsSync, mkdirSync, readdirSync, renameSync, rmSync } from "node:fs";
import { fileURLToPath } from "node:url";

const source = fileURLToPath(
  new URL("../../../src/longwatch/server/page/viewer/core/", import.meta.url),
);
const target = fileURLToPath(new URL("../core/", import.meta.url));

if (existsSync(source)) {
  const wanted = readdirSync(source).filter((name) => name.endsWith(".js"));
  for (const name of existsSync(target) ? readdirSync(target) : []) {
    if (name.endsWith(".js") && !wanted.includes(name)) rmSync(`${target}${name}`, { force: true });
  }
  mkdirSync(target, { recursive: true });
  for (const name of wanted) {
    const fresh = `${target}.copy-${process.pid}`;
    cpSync(`${source}${name}`, fresh);
    renameSync(fresh, `${target}${name}`); // so that a reader never sees half of a module
  }
} else if (!existsSync(target)) {
  throw new Error(
    `The core modules are in neither ${source} nor ${target}. Install from a whole checkout.`,
  );
}
