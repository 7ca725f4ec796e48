import assert from "node:assert/strict";
import { execFile } from "node:child_process";
import { mkdtempSync, readFileSync, rmSync, symlinkSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { after, before, suite, test } from "node:test";
import { loadConfig } from "@turnpike/config";
import { FIXTURE, type PortalRig, startPortalRig } from "./portal-rig.ts";

const ROOT = join(import.meta.dirname, "../..");
const PAGE = readFileSync(join(ROOT, "docs/manage.md"), "utf8");

interface Example {
  readonly command: string;
  /** What the page says that it prints; `…` stands for anything. */
  readonly output: string;
}

/** The commands of the page's `console` blocks, each with what is below it. */
function examples(): readonly Example[] {
  const found: { command: string; output: string }[] = [];
  for (const [, block = ""] of PAGE.matchAll(/```console\n(.*?)```/gs)) {
    let isCommand = false;
    let quotes = 0;
    for (const line of block.trimEnd().split("\n")) {
      const last = found.at(-1);
      if (line.startsWith("$ ")) {
        found.push({ command: line.slice(2), output: "" });
        quotes = 0;
      } else if (last !== undefined && isCommand) last.command += `\n${line}`;
      else if (last !== undefined) last.output += `${line}\n`;
      quotes += line.startsWith("$ ") || isCommand ? line.split("'").length - 1 : 0;
      isCommand = (line.startsWith("$ ") || isCommand) && (line.endsWith("\\") || quotes % 2 === 1);
    }
  }
  return found;
}

const literally = (text: string): string => text.replaceAll(/[.*+?^${}()|[\]\\]/g, "\\$&");

suite("docs/manage.md", () => {
  let rig: PortalRig;
  const folder = mkdtempSync(join(tmpdir(), "turnpike-manage-"));
  before(async () => {
    rig = await startPortalRig();
  });
  after(async () => {
    rmSync(folder, { recursive: true, force: true });
    await rig?.[Symbol.asyncDispose]();
  });

  test("its commands print what it says, in its order, as they are pasted", async () => {
    const all = examples();
    assert.ok(all.length > 25, `${all.length} commands`);
    const [reader, admin, mine] = [
      await rig.token("reader"),
      await rig.token("admin"),
      await rig.token("admin", FIXTURE),
    ];
    // what mints tokens is the command's own; here it gives those of the rig
    const head = `npx() { case "$*" in
      "turnpike db token --role admin --account ${FIXTURE}") echo ${mine} ;;
      "turnpike db token --role admin") echo ${admin} ;;
      "turnpike db token --role reader"*) echo ${reader} ;;
      *) exit 9 ;;
    esac; }
    curl() { command curl -sS --max-time 10 "$@"; }`;
    const steps = all.map(({ command }, at) => {
      const real = command.replace("DB=http://127.0.0.1:3000", `DB=${rig.url}`);
      return `${real}\nprintf '\\n<<%d %d>>\\n' ${at} $?`;
    });
    const out = await new Promise<string>((resolve, reject) => {
      execFile("bash", ["-c", [head, ...steps].join("\n")], (error, stdout, stderr) => {
        if (error !== null || stderr !== "") reject(new assert.AssertionError({ message: `${stderr}${stdout}` }));
        else resolve(stdout);
      });
    });
    const printed = out.split(/\n<<\d+ 0>>\n/);
    assert.equal(printed.length, all.length + 1, out);
    for (const [at, { command, output }] of all.entries()) {
      const said = (printed[at] ?? "").trim();
      const wanted = output.trim().split("…").map(literally).join(".*");
      assert.match(said, new RegExp(`^${wanted}$`, "s"), `${command}\n${said}`);
    }
  });

  test("its manage.mjs runs with the client as it is", async () => {
    const made = { portal_account_id: FIXTURE, portal_application_name: "my application" };
    await rig.call("/portal_applications", { as: "admin", method: "POST", body: made });
    const [, script = ""] = /```js\n(\/\/ manage\.mjs\n.*?)```/s.exec(PAGE) ?? [];
    assert.ok(script !== "", "the page has no manage.mjs");
    writeFileSync(join(folder, "manage.mjs"), script);
    symlinkSync(join(ROOT, "node_modules"), join(folder, "node_modules"));
    const out = await new Promise<string>((resolve, reject) => {
      const args = [join(folder, "manage.mjs"), rig.url, "TOKEN"];
      void rig.token("reader").then((token) => {
        args[2] = token;
        execFile(process.execPath, args, { env: {} }, (error, stdout, stderr) => {
          if (error === null) resolve(stdout);
          else reject(new assert.AssertionError({ message: stderr }));
        });
      });
    });
    assert.match(
      out,
      /^\d+ \[\s*\{\s*portal_application_name: 'my application',\s*portal_accounts: \{ portal_plan_type: 'FREE' \}/,
    );
  });

  test("its configuration is valid, and its defaults are those of the configuration", () => {
    const [, text = ""] = /```yaml\n(.*?)```/s.exec(PAGE) ?? [];
    const file = join(folder, "turnpike.yaml");
    writeFileSync(file, text);
    const env = {
      OWNER_PASSWORD: "o",
      PORTAL_PASSWORD: "p",
      PORTAL_JWT_SECRET: "5f0e9d8c7b6a59483726150493827160514233",
    };
    assert.equal(loadConfig({ file, env }).portalDb.url?.includes("portal_authenticator"), true);
    const { portalDb } = loadConfig({ env: {}, overrides: {} });
    assert.deepEqual(
      [portalDb.port, portalDb.maxRows, portalDb.maxBodyBytes, portalDb.maxHeaderBytes, portalDb.lockTimeoutMs],
      [3_000, 1_000, 1_048_576, 65_536, 2_000],
    );
    assert.deepEqual({ ...portalDb.statementTimeoutMs }, { reader: 5_000, admin: 15_000 });
    assert.deepEqual({ ...portalDb.rate }, { perTokenPerSecond: 500, refusedPerAddressPerSecond: 10 });
    assert.deepEqual([portalDb.maxInFlight, portalDb.jwt.maxLifetimeSeconds], [256, 86_400]);
  });
});
