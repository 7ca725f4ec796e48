import assert from "node:assert/strict";
import { execFile, spawn } from "node:child_process";
import { mkdir, mkdtemp, readFile, rm, stat, writeFile } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { after, before, suite, test } from "node:test";
import { promisify } from "node:util";
import { commandLineOf, isAlive, isAppError } from "@turnpike/base";
import pg from "pg";
import { freePort, isPortFree } from "./ports.ts";
import { endLeftoverPostgres, startPostgres } from "./postgres.ts";

async function query(url: string, text: string): Promise<readonly Record<string, unknown>[]> {
  const client = new pg.Client({ connectionString: url });
  await client.connect();
  try {
    return (await client.query<Record<string, unknown>>(text)).rows;
  } finally {
    await client.end();
  }
}

suite("postgres", () => {
  let folder = "";
  /** A data folder that tests use one after another: to make one takes longer than anything else here. */
  let dataDir = "";
  before(async () => {
    folder = await mkdtemp(join(tmpdir(), "turnpike-test-"));
    dataDir = join(folder, "whole");
    await (await startPostgres({ dataDir, durable: false }))[Symbol.asyncDispose]();
  });
  after(() => rm(folder, { recursive: true, force: true }));

  test("keeps its data, survives kill -9, and wants its password", async () => {
    const first = await startPostgres({ dataDir });
    const url = await first.createDatabase("books");
    assert.equal(await first.createDatabase("books"), url);
    await query(url, "create table t as select 41 + 1 as n");
    await assert.rejects(query(url.replace(/:[^:@]+@/, ":wrong@"), "select 1"), /password authentication failed/);
    await assert.rejects(first.createDatabase('x"; drop'), (error) => isAppError(error, "USAGE"));
    assert.equal((await stat(join(dataDir, "turnpike-password"))).mode & 0o777, 0o600);
    await first.kill();
    assert.equal((await first.exited).signal, "SIGKILL");

    await using again = await startPostgres({ dataDir, port: first.port });
    assert.equal(again.port, first.port);
    assert.deepEqual(await query(url, "select n from t"), [{ n: 42 }]);
  });

  test("a server that an ended parent left behind is ended, and its folder used again", async () => {
    // the parent starts a server, says so, and is killed without a chance to stop it
    const script = `
      import { startPostgres } from ${JSON.stringify(new URL("./postgres.ts", import.meta.url).href)};
      const server = await startPostgres({ dataDir: ${JSON.stringify(dataDir)} });
      process.stdout.write(String(server.pid));
      setInterval(() => {}, 1000);`;
    const parent = spawn(process.execPath, ["--input-type=module-typescript", "-e", script], {
      stdio: ["ignore", "pipe", "inherit"],
    });
    const chunk = await new Promise<Buffer>((resolve) => parent.stdout.once("data", resolve));
    const pid = Number(chunk.toString());
    parent.kill("SIGKILL");
    await new Promise((resolve) => parent.once("exit", resolve));
    assert.ok((await commandLineOf(pid)) !== undefined);
    await using server = await startPostgres({ dataDir });
    // gone, or waiting for an init process that does not collect its dead
    assert.equal(await commandLineOf(pid), undefined);
    assert.notEqual(server.pid, pid);
    assert.deepEqual(await query(server.url, "select 1 as n"), [{ n: 1 }]);
  });

  test("a pid that is another program's by now is left alone, and does not stop the server", async () => {
    const other = spawn("sleep", ["600"], { stdio: "ignore" });
    const file = join(dataDir, "postmaster.pid");
    await writeFile(file, `${other.pid}\n${dataDir}\n1700000000\n5432\n\n127.0.0.1\n        1         2\nready   \n`);
    assert.equal(await endLeftoverPostgres(dataDir), "none");
    assert.ok(other.pid !== undefined && isAlive(other.pid));
    assert.doesNotMatch(await readFile(file, "utf8"), new RegExp(`^${other.pid}\n`));
    {
      await using server = await startPostgres({ dataDir });
      assert.deepEqual(await query(server.url, "select 1 as n"), [{ n: 1 }]);
    }
    other.kill();
  });

  test("a folder whose initialisation was cut off is made anew", async () => {
    const halfMade = join(folder, "half");
    await mkdir(halfMade);
    await writeFile(join(halfMade, "PG_VERSION"), "18\n");
    await using server = await startPostgres({ dataDir: halfMade, durable: false });
    assert.deepEqual(await query(server.url, "select 1 as n"), [{ n: 1 }]);
  });

  test("says that its port is in use", async () => {
    // A copied folder has the same password, so that the other server lets this one's client in.
    const copy = join(folder, "copy");
    await promisify(execFile)("cp", ["-a", dataDir, copy]);
    await using server = await startPostgres({ dataDir });
    await assert.rejects(startPostgres({ dataDir: copy, port: server.port }), (error) =>
      isAppError(error, "PORT_IN_USE"),
    );
    assert.equal(await isPortFree(server.port), false);
    assert.equal(await isPortFree(await freePort()), true);
  });
});
