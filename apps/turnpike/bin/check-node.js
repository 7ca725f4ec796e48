// Plain JavaScript: the Node.js that installs runs it, at the end of `npm ci`. npm leaves out an optional package that it cannot
// fetch, or whose hash is another, and says nothing; then every later command would fail in words of its own.
import { spawnSync } from "node:child_process";
import { NODE_PACKAGES, pinnedNode } from "./pinned-node.js";

const NEEDED = 26;

function versionOf(program) {
  return String(spawnSync(program, ["--version"], { encoding: "utf8" }).stdout).trim();
}

const platform = `${process.platform}-${process.arch}`;
const program = pinnedNode();
const version = program === undefined ? process.version : versionOf(program);
if (Number(/^v(\d+)\./.exec(version)?.[1]) < NEEDED || !/^v\d+\./.test(version)) {
  const name = NODE_PACKAGES[platform];
  process.stderr.write(
    name === undefined
      ? `error DEPENDENCY_MISSING: turnpike needs Node ${NEEDED}, npm brings none for ${platform}, and this is ${process.version}.\n` +
          `Install Node ${NEEDED} yourself, and run npm ci with it.\n`
      : `error DEPENDENCY_MISSING: turnpike needs Node ${NEEDED}, and npm did not install ${name}, which has it.\n` +
          "It could not be fetched, its hash is not that of package-lock.json, --omit=optional left it out, or it does not run here. Run npm ci again.\n",
  );
  process.exit(1);
}
