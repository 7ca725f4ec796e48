import assert from "node:assert/strict";
import { mkdtempSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { after, suite, test } from "node:test";
import { findCometBft } from "./programs.ts";

const folder = mkdtempSync(join(tmpdir(), "turnpike programs-"));

function script(name: string, body: string, mode = 0o755): string {
  const file = join(folder, name);
  writeFileSync(file, `#!/bin/sh\n${body}\n`, { mode });
  return file;
}

suite("the programs of a testnet", { timeout: 60_000 }, () => {
  after(() => rmSync(folder, { recursive: true, force: true }));

  test("CometBFT 0.38 is found; another program is distinguished from a missing one", async () => {
    for (const version of ["0.38.19", "v0.38.0", "0.38.19+abc"]) {
      const good = script("good", `echo ${version}`);
      assert.equal(await findCometBft({ COMETBFT: good }), good);
    }
    const install = "install CometBFT 0.38 (go install github.com/cometbft/cometbft/cmd/cometbft@v0.38.19)";
    await assert.rejects(findCometBft({ COMETBFT: join(folder, "none") }), {
      code: "DEPENDENCY_MISSING",
      message: `${join(folder, "none")} is missing; ${install}, or name the program with COMETBFT.`,
    });
    for (const [body, said, mode] of [
      ["echo 0.37.2", "0.37.2"],
      ["echo 0.380.1", "0.380.1"],
      ["echo 'no such word' >&2; echo more >&2; exit 3", "no such word"],
      ["true", "nothing"],
      ["echo 0.38.19", "EACCES", 0o644],
    ] as const) {
      const file = script(`bad-${said}`, body, mode);
      await assert.rejects(findCometBft({ COMETBFT: file }), {
        code: "DEPENDENCY_MISSING",
        message: `${file} is not CometBFT 0.38: \`version\` said "${said}"; ${install}.`,
      });
    }
  });
});
