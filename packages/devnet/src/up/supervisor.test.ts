import assert from "node:assert/strict";
import { once } from "node:events";
import { existsSync } from "node:fs";
import { mkdtemp, readFile, rm, writeFile } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { after, before, suite, test } from "node:test";
import { isAlive, isAppError, readPidFile, systemClock } from "@turnpike/base";
import { freePort } from "@turnpike/localnet";
import { eventually, virtualClock } from "@turnpike/testkit";
import { childPart } from "./parts.ts";
import { neverExits, type Part, type PartEvent, Supervisor } from "./supervisor.ts";

/** Collects events and lets a test await one. */
class Events {
  readonly seen: PartEvent[] = [];
  #waiting: (() => void)[] = [];
  readonly add = (event: PartEvent): void => {
    this.seen.push(event);
    for (const wake of this.#waiting.splice(0)) wake();
  };
  async until(part: string, kind: PartEvent["kind"], times = 1): Promise<void> {
    while (this.seen.filter((event) => event.part === part && event.kind === kind).length < times) {
      await new Promise<void>((resolve) => this.#waiting.push(resolve));
    }
  }
  get texts(): string[] {
    return this.seen.map((event) => `${event.part} ${event.kind}`);
  }
}

const nothing = (): Promise<void> => Promise.resolve();

/** Resolves when what follows from promises that are settled has happened. */
const settled = (): Promise<void> => new Promise((resolve) => setImmediate(resolve));

const SERVER = `
const { createServer } = require("node:http");
createServer((_, response) => response.end("ok")).listen(Number(process.argv[1]), "127.0.0.1");
process.on("SIGTERM", () => process.exit(0));`;

suite("supervisor", () => {
  let folder = "";
  before(async () => {
    folder = await mkdtemp(join(tmpdir(), "turnpike-test-"));
  });
  after(() => rm(folder, { recursive: true, force: true }));

  const child = (name: string, script: string, args: readonly string[] = [], readyUrl?: string): Part =>
    childPart({
      name,
      command: [process.execPath, "-e", script, "--", ...args],
      logFile: join(folder, `${name}.log`),
      pidFile: join(folder, `${name}.json`),
      ...(readyUrl === undefined ? {} : { readyUrl }),
    });
  const server = async (name: string): Promise<{ part: Part; url: string }> => {
    const port = await freePort();
    const url = `http://127.0.0.1:${port}/`;
    return { part: child(name, SERVER, [String(port)], url), url };
  };
  const pidOf = async (name: string): Promise<number> => {
    const found = await readPidFile(join(folder, `${name}.json`));
    assert.ok(found !== undefined);
    return found.pid;
  };

  test("starts stage by stage, and stops in reverse", async () => {
    const events = new Events();
    const [a, b] = await Promise.all([server("a"), server("b")]);
    const job = child("job", "process.exit(0)");
    const supervisor = new Supervisor(
      { stages: [[a.part], [job], [b.part]] },
      { clock: systemClock, onEvent: events.add },
    );
    await supervisor.start();
    assert.equal((await fetch(b.url)).status, 200);
    const pids = [await pidOf("a"), await pidOf("b")];
    await supervisor.stop();
    assert.deepEqual(events.texts, [
      "a starting",
      "a ready",
      "job starting",
      "job ready",
      "b starting",
      "b ready",
      "b stopped",
      "job stopped",
      "a stopped",
    ]);
    assert.deepEqual(pids.map(isAlive), [false, false]);
    assert.equal(await readPidFile(join(folder, "a.json")), undefined);
  });

  test("a killed child is back, and the others never notice", async () => {
    const events = new Events();
    const [a, b] = await Promise.all([server("c"), server("d")]);
    await using supervisor = new Supervisor(
      { stages: [[a.part, b.part]], firstPauseMs: 10 },
      { clock: systemClock, onEvent: events.add },
    );
    await supervisor.start();
    const [first, other] = [await pidOf("c"), await pidOf("d")];
    process.kill(first, "SIGKILL");
    await events.until("c", "restarted");
    assert.equal((await fetch(a.url)).status, 200);
    const second = await pidOf("c");
    assert.notEqual(second, first);
    process.kill(second, "SIGKILL");
    await events.until("c", "restarted", 2);
    assert.equal(await pidOf("d"), other);
    const died = events.seen.find((event) => event.kind === "died");
    assert.equal(died?.text, "was ended by SIGKILL");
  });

  test("a child that hangs is ended and started again; one that says 503 is left alone", async () => {
    const events = new Events();
    const port = await freePort();
    const url = `http://127.0.0.1:${port}/`;
    const script = `
const { createServer } = require("node:http");
let statusCode = 200;
createServer(({ url }, response) => {
  if (url === "/busy") statusCode = 503;
  while (url === "/hang");
  response.writeHead(statusCode).end();
}).listen(Number(process.argv[1]), "127.0.0.1");`;
    const part = child("hanging", script, [String(port)], url);
    await using supervisor = new Supervisor(
      { stages: [[part]], firstPauseMs: 10, probeMs: 20, probeTimeoutMs: 1_000 },
      { clock: systemClock, onEvent: events.add },
    );
    await supervisor.start();
    const first = await pidOf("hanging");
    await fetch(`${url}busy`);
    for (let asked = 0; asked < 5; asked++) assert.equal((await fetch(url)).status, 503);
    assert.equal(await pidOf("hanging"), first);
    await assert.rejects(fetch(`${url}hang`));
    await events.until("hanging", "restarted");
    const died = events.seen.find((event) => event.kind === "died");
    assert.match(died?.text ?? "", /^did not answer, and was ended/);
    assert.notEqual(await pidOf("hanging"), first);
  });

  test("a child that ends by itself is reported with its last output", async () => {
    const events = new Events();
    const file = join(folder, "brief.js");
    await writeFile(file, SERVER);
    const port = await freePort();
    const brief = child("brief", `require(${JSON.stringify(file)})`, [String(port)], `http://127.0.0.1:${port}/`);
    await using supervisor = new Supervisor(
      { stages: [[brief]], firstPauseMs: 10 },
      { clock: systemClock, onEvent: events.add },
    );
    await supervisor.start();
    const first = await pidOf("brief");
    await writeFile(file, 'console.error("error PORT_IN_USE: somebody has it"); process.exit(1)');
    process.kill(first, "SIGKILL");
    await events.until("brief", "died", 2);
    const [, second] = events.seen.filter(({ kind }) => kind === "died");
    assert.equal(second?.text, "ended with code 1: error PORT_IN_USE: somebody has it");
  });

  test("waits longer each time for a part that keeps dying, up to a limit, and less after it was steady", async (context) => {
    context.mock.timers.enable({ apis: ["setTimeout"] });
    const clock = virtualClock();
    const events = new Events();
    let starts = 0;
    let die = (): void => {};
    const part: Part = {
      name: "mayfly",
      start: () => {
        starts++;
        const exited = new Promise<{ code: number; signal: null }>((resolve) => {
          die = () => resolve({ code: 1, signal: null });
        });
        return Promise.resolve({ exited, ready: nothing, stop: nothing, kill: nothing });
      },
    };
    const supervisor = new Supervisor(
      { stages: [[part]], firstPauseMs: 20, longestPauseMs: 80, steadyMs: 1_000 },
      { clock, onEvent: events.add },
    );
    await supervisor.start();
    let deaths = 0;
    const diesAndIsBackAfter = async (pauseMs: number): Promise<void> => {
      die();
      await events.until("mayfly", "died", ++deaths);
      await settled();
      const before = starts;
      context.mock.timers.tick(pauseMs - 1);
      await settled();
      assert.equal(starts, before, `death ${deaths}: too early`);
      context.mock.timers.tick(1);
      await settled();
      assert.equal(starts, before + 1, `death ${deaths}: too late`);
    };
    for (const pauseMs of [20, 40, ...Array.from({ length: 20 }, () => 80)]) await diesAndIsBackAfter(pauseMs);
    clock.advance(999);
    await diesAndIsBackAfter(80);
    clock.advance(1_000);
    await diesAndIsBackAfter(20);
    await diesAndIsBackAfter(40);
    await supervisor.stop();
  });

  test("a part that fails at the start is named with its log, and the others can be stopped", async () => {
    const events = new Events();
    const good = await server("good");
    const url = `http://127.0.0.1:${await freePort()}/`;
    const bad = child("bad", "process.exit(3)", [], url);
    const supervisor = new Supervisor({ stages: [[good.part], [bad]] }, { clock: systemClock, onEvent: events.add });
    await assert.rejects(supervisor.start(), (error) => {
      assert.ok(isAppError(error, "PART_FAILED"));
      assert.match(error.message, /bad ended with code 3 while starting\. See .*bad\.log/);
      return true;
    });
    const pid = await pidOf("good");
    await supervisor.stop();
    assert.ok(!isAlive(pid));
    const failing = child("failing-job", "process.exit(1)");
    const second = new Supervisor({ stages: [[failing]] }, { clock: systemClock, onEvent: events.add });
    await assert.rejects(second.start(), /failing-job failed\. See/);
    await second.stop();
  });

  test("a part that never answers is given up, and one that never stops is killed", async () => {
    const events = new Events();
    let kills = 0;
    const part: Part = {
      name: "stubborn",
      readyTimeoutMs: 20,
      start: () =>
        Promise.resolve({
          exited: neverExits,
          ready: async (signal) => {
            await once(signal, "abort");
            throw signal.reason;
          },
          stop: () => new Promise<never>(() => {}),
          kill: () => {
            kills++;
            return Promise.resolve();
          },
        }),
    };
    const supervisor = new Supervisor(
      { stages: [[part]], stopTimeoutMs: 20 },
      { clock: systemClock, onEvent: events.add },
    );
    await assert.rejects(supervisor.start(), (error) => isAppError(error, "DEADLINE_EXCEEDED"));
    assert.equal(kills, 0);
    await supervisor.stop();
    assert.equal(kills, 1);
  });

  test("a child that does not end of SIGTERM is ended by force", async () => {
    const events = new Events();
    const port = await freePort();
    const mark = join(folder, "asked");
    const deaf = `
      process.on("SIGTERM", () => require("node:fs").writeFileSync(process.argv[2], ""));
      require("node:http").createServer((_, response) => response.end()).listen(Number(process.argv[1]), "127.0.0.1");`;
    const part = child("deaf", deaf, [String(port), mark], `http://127.0.0.1:${port}/`);
    const supervisor = new Supervisor({ stages: [[part]] }, { clock: systemClock, onEvent: events.add });
    await supervisor.start();
    const pid = await pidOf("deaf");
    const stopped = supervisor.stop();
    await eventually("it was asked to end", () => existsSync(mark));
    assert.ok(isAlive(pid));
    supervisor.force();
    await stopped;
    assert.ok(!isAlive(pid));
  });

  test("stopping while starting ends what was started", async () => {
    const events = new Events();
    const slow = child("slow", "setInterval(() => {}, 1000)", [], "http://127.0.0.1:1/");
    const other = child("other", "setInterval(() => {}, 1000)", [], "http://127.0.0.1:1/");
    const later: Part = { name: "later", start: () => assert.fail("it was started") };
    const supervisor = new Supervisor(
      { stages: [[slow, other], [later]] },
      { clock: systemClock, onEvent: events.add },
    );
    const started = assert.rejects(supervisor.start(), (error) => isAppError(error, "SHUTTING_DOWN"));
    await events.until("slow", "starting");
    const { pid } = await eventually("its pid file", () => readPidFile(join(folder, "slow.json")));
    await supervisor.stop();
    await started;
    assert.ok(!isAlive(pid));
    assert.ok(!events.texts.some((text) => text.endsWith(" failed")), "whoever stops it knows");
  });

  test("a part that was still being started when everything stopped is stopped too", async () => {
    const events = new Events();
    const gate = Promise.withResolvers<undefined>();
    let stops = 0;
    const stop = (): Promise<void> => {
      stops++;
      return Promise.resolve();
    };
    const part: Part = {
      name: "late",
      start: async () => {
        await gate.promise;
        return { exited: neverExits, ready: nothing, stop, kill: nothing };
      },
    };
    const supervisor = new Supervisor({ stages: [[part]] }, { clock: systemClock, onEvent: events.add });
    const started = assert.rejects(supervisor.start(), (error) => isAppError(error, "SHUTTING_DOWN"));
    await supervisor.stop();
    gate.resolve(undefined);
    await started;
    assert.equal(stops, 1);
  });

  test("a part inside this process is never watched", async () => {
    const events = new Events();
    const part: Part = {
      name: "inside",
      start: () => Promise.resolve({ exited: neverExits, ready: nothing, stop: nothing, kill: nothing }),
    };
    const supervisor = new Supervisor({ stages: [[part]] }, { clock: systemClock, onEvent: events.add });
    await supervisor.start();
    await supervisor.stop();
    assert.deepEqual(events.texts, ["inside starting", "inside ready", "inside stopped"]);
  });

  test("a pid file whose process has ended names nobody, whoever has the pid now", async () => {
    const file = join(folder, "stale.json");
    await writeFile(file, JSON.stringify({ pid: process.pid, started: "another time" }));
    assert.equal(await readPidFile(file), undefined);
    assert.match(await readFile(file, "utf8"), /another time/);
  });
});
