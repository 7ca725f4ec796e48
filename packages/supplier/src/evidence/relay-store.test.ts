import assert from "node:assert/strict";
import { spawn } from "node:child_process";
import { createHash } from "node:crypto";
import { once } from "node:events";
import { appendFile, cp, mkdir, open, readdir, readFile, rm, writeFile } from "node:fs/promises";
import { join } from "node:path";
import { createInterface } from "node:readline";
import { suite, test } from "node:test";
import { type Log, silentLog } from "@turnpike/base";
import { decodeClosestProof, SumTrie, verifyClosestProof } from "@turnpike/crypto";
import { isRelayApplicable, relayHash } from "@turnpike/protocol";
import { virtualClock } from "@turnpike/testkit";
import { OPERATOR, openTestStore, scratchFolder, testHeader, testTerms } from "../../test/sessions.ts";
import { supplyReport } from "../money/supply-report.ts";
import { writeAll } from "./relay-log.ts";
import type { RelayStore } from "./relay-store.ts";

const relayOf = (text: string): Uint8Array => Buffer.from(`relay ${text}`.padEnd(200));
const append = (store: RelayStore, text: string, sessionId = "a1") =>
  store.append({ operatorAddress: OPERATOR, header: testHeader(sessionId), relay: relayOf(text) });
const sessionOf = (store: RelayStore, sessionId = "a1") =>
  store.session(OPERATOR, sessionId) ?? assert.fail(`session ${sessionId} is not there`);
const logFile = (folder: string, sessionId = "a1") => join(folder, OPERATOR, `000000000006-${sessionId}`, "relays.log");

function rootOf(texts: readonly string[]): Uint8Array {
  const trie = new SumTrie();
  for (const text of texts) trie.insert(relayHash(relayOf(text)), relayOf(text), 100n);
  return trie.root();
}

/** A log that keeps its warnings and errors. */
function listeningLog(): { readonly log: Log; readonly said: string[] } {
  const said: string[] = [];
  const log: Log = {
    ...silentLog,
    warn: (_, message) => void said.push(message),
    error: (_, message) => void said.push(message),
    child: () => log,
  };
  return { log, said };
}

suite("RelayStore", () => {
  test("relays are claimed with the root of the trie that the chain computes, equal ones once", async () => {
    await using scratch = await scratchFolder();
    await using store = await openTestStore(scratch.folder);
    assert.deepEqual(
      await Promise.all(["1", "2", "2", "3"].map((text) => append(store, text))),
      Array(4).fill("mined"),
    );
    assert.equal(await append(store, "1"), "mined");
    const session = sessionOf(store);
    assert.deepEqual(session.counts, { served: 5, mined: 3, belowDifficulty: 0, repeated: 2 });
    const claim = await session.seal();
    assert.deepEqual(claim, {
      rootHash: rootOf(["1", "2", "3"]),
      relays: 3n,
      computeUnits: 300n,
      expectedUpokt: 300n * 42n,
    });
    assert.equal(await append(store, "4"), "sealed");
    const proof = decodeClosestProof((await session.proof(relayHash(relayOf("path")))) ?? assert.fail("no proof"));
    assert.ok(proof !== undefined && verifyClosestProof(proof, claim.rootHash).ok);
  });

  test("work of an application has relays under way, those of a claim that is being computed, and after kill -9 all of the log", async () => {
    await using scratch = await scratchFolder();
    await using store = await openTestStore(scratch.folder);
    const header = testHeader();
    const workOf = (from: RelayStore) => from.workOf(OPERATOR, header.applicationAddress);
    await Promise.all(["1", "2", "3"].map((text) => append(store, text)));
    await using other = await scratchFolder();
    await cp(scratch.folder, other.folder, { recursive: true, filter: (path) => !path.endsWith("operator.lock") });
    {
      const begun = await store.begin(OPERATOR, header);
      assert.ok(begun.ok);
      using _ = begun.relay;
      assert.deepEqual(await workOf(store), [{ header, relays: 4n, claimedUpokt: undefined }]);
    }
    const sealing = sessionOf(store).seal();
    assert.deepEqual(await workOf(store), [{ header, relays: 3n, claimedUpokt: undefined }]);
    const { expectedUpokt } = await sealing;
    assert.deepEqual(await workOf(store), [{ header, relays: 3n, claimedUpokt: expectedUpokt }]);
    assert.deepEqual(await store.workOf(OPERATOR, OPERATOR), []);
    await using again = await openTestStore(other.folder);
    assert.deepEqual(await workOf(again), [{ header, relays: 3n, claimedUpokt: undefined }]);
  });

  test("relays of one turn are one write", async () => {
    await using scratch = await scratchFolder();
    let writes = 0;
    const counted: typeof writeAll = (...given) => {
      writes++;
      return writeAll(...given);
    };
    await using store = await openTestStore(scratch.folder, {}, { writeAll: counted });
    await append(store, "first");
    writes = 0;
    await Promise.all(Array.from({ length: 100 }, (_, i) => append(store, `${i}`)));
    assert.equal(writes, 1);
  });

  test("a relay below the difficulty is counted, and is in no claim", async () => {
    await using scratch = await scratchFolder();
    const half = new Uint8Array(32).fill(255);
    half[0] = 127;
    const terms = testTerms({ targetHash: half });
    const modules = { termsOf: async () => ({ ok: true as const, value: terms }) };
    const texts = Array.from({ length: 64 }, (_, i) => `${i}`);
    const mined = texts.filter((text) => isRelayApplicable(relayHash(relayOf(text)), half));
    let counts: unknown;
    {
      await using store = await openTestStore(scratch.folder, {}, modules);
      const results = await Promise.all(texts.map((text) => append(store, text)));
      assert.equal(results.filter((result) => result === "mined").length, mined.length);
      counts = sessionOf(store).counts;
      assert.deepEqual(counts, {
        served: 64,
        mined: mined.length,
        belowDifficulty: 64 - mined.length,
        repeated: 0,
      });
    }
    await using again = await openTestStore(scratch.folder, {}, modules);
    await again.loaded();
    assert.deepEqual(sessionOf(again).counts, counts);
    assert.deepEqual((await sessionOf(again).seal()).rootHash, rootOf(mined));
  });

  test("the request of a relay below the difficulty is known after kill -9, and its relay is counted", async () => {
    await using scratch = await scratchFolder();
    const none = new Uint8Array(32);
    const modules = { termsOf: async () => ({ ok: true as const, value: testTerms({ targetHash: none }) }) };
    const names = Array.from({ length: 20 }, (_, at) => `request ${at}`.padEnd(16, "\xff"));
    await using store = await openTestStore(scratch.folder, {}, modules);
    await Promise.all(
      names.map(async (name) => {
        const begun = await store.begin(OPERATOR, testHeader());
        assert.ok(begun.ok);
        using one = begun.relay;
        assert.equal(await one.append(relayOf(name), name), "below-difficulty");
      }),
    );
    // As a killed process leaves it: nothing was closed.
    await using other = await scratchFolder();
    await cp(scratch.folder, other.folder, { recursive: true, filter: (path) => !path.endsWith("operator.lock") });
    await using again = await openTestStore(other.folder, { isMachineWideLock: false }, modules);
    const { relays, requests } = await again.servedBefore(OPERATOR, testHeader().sessionId);
    assert.equal(relays, 20n);
    assert.deepEqual([...requests].sort(), [...names].sort());
  });

  test("a relay below the difficulty is not answered when that cannot be written down", async () => {
    await using scratch = await scratchFolder();
    let isBroken = false;
    const modules = {
      termsOf: async () => ({ ok: true as const, value: testTerms({ targetHash: new Uint8Array(32) }) }),
      writeAll: (...args: Parameters<typeof writeAll>) =>
        isBroken ? Promise.reject(new TypeError("no room")) : writeAll(...args),
    };
    await using store = await openTestStore(scratch.folder, {}, modules);
    assert.equal(await append(store, "first"), "below-difficulty");
    isBroken = true;
    assert.equal(await append(store, "second"), "full");
    assert.equal(sessionOf(store).counts.served, 1);
  });

  test("after kill -9 every relay whose answer could leave is there, round after round", async () => {
    await using scratch = await scratchFolder();
    const child = join(import.meta.dirname, "../../test/append-child.ts");
    let next = 0;
    const acknowledged: number[] = [];
    for (let round = 0; round < 2; round++) {
      const running = spawn(process.execPath, [child, scratch.folder, String(next)], {
        stdio: ["ignore", "pipe", "inherit"],
      });
      const ended = once(running, "exit");
      const wanted = acknowledged.length + 200 + round * 37;
      for await (const line of createInterface({ input: running.stdout })) {
        const [number, result] = line.split(" ");
        assert.equal(result, "mined");
        acknowledged.push(Number(number));
        if (acknowledged.length === wanted) running.kill("SIGKILL");
      }
      await ended;
      next = Math.max(...acknowledged) + 100;
    }
    await using store = await openTestStore(scratch.folder);
    const session = sessionOf(store);
    const { trie } = await session.load();
    for (const number of acknowledged) {
      const relay = Buffer.alloc(700, createHash("sha256").update(String(number)).digest());
      assert.ok(trie.has(relayHash(relay)), `relay ${number} was lost`);
    }
    assert.ok(session.counts.mined >= acknowledged.length);
    assert.equal((await session.seal()).relays, BigInt(session.counts.mined));
  });

  test("a torn end is cut with a count, and relays go on behind it", async () => {
    await using scratch = await scratchFolder();
    {
      await using store = await openTestStore(scratch.folder);
      await append(store, "1");
    }
    const whole = await readFile(logFile(scratch.folder));
    await appendFile(logFile(scratch.folder), whole.subarray(-150));
    await appendFile(logFile(scratch.folder), Buffer.alloc(4096));
    const { log, said } = listeningLog();
    {
      await using store = await openTestStore(scratch.folder, {}, { log });
      await store.loaded();
      assert.deepEqual(said, ["a relay log ended in a record that was never finished"]);
      assert.equal((await readFile(logFile(scratch.folder))).length, whole.length);
      await append(store, "2");
    }
    await using store = await openTestStore(scratch.folder);
    assert.deepEqual((await sessionOf(store).seal()).rootHash, rootOf(["1", "2"]));
  });

  test("damage in the middle is an error, loses its own relays alone, and no other session", async () => {
    await using scratch = await scratchFolder();
    {
      await using store = await openTestStore(scratch.folder);
      for (const text of ["1", "2", "3"]) await append(store, text);
      await append(store, "other", "b2");
    }
    const bytes = await readFile(logFile(scratch.folder));
    bytes[bytes.indexOf("relay 2")] = 0;
    await writeFile(logFile(scratch.folder), bytes);
    const { log, said } = listeningLog();
    await using store = await openTestStore(scratch.folder, {}, { log });
    await store.loaded();
    assert.deepEqual(said, ["a relay log is damaged; the relays in the damaged part are lost"]);
    assert.deepEqual((await sessionOf(store).seal()).rootHash, rootOf(["1", "3"]));
    assert.deepEqual((await sessionOf(store, "b2").seal()).rootHash, rootOf(["other"]));
  });

  test("a log that is none is an error, is kept, and refuses its session alone", async () => {
    await using scratch = await scratchFolder();
    {
      await using store = await openTestStore(scratch.folder);
      await append(store, "1");
      await append(store, "other", "b2");
    }
    await writeFile(logFile(scratch.folder), Buffer.alloc(10_000, 7));
    const { log, said } = listeningLog();
    await using store = await openTestStore(scratch.folder, {}, { log });
    await store.loaded();
    assert.deepEqual(said, ["the evidence of a session cannot be read: it cannot be claimed"]);
    const { outcome } = sessionOf(store).state;
    assert.ok(outcome?.kind === "lost" && outcome.why === "evidence-damaged");
    assert.equal(await append(store, "2"), "sealed");
    assert.equal((await readFile(logFile(scratch.folder))).length, 10_000);
    assert.equal(await append(store, "more", "b2"), "mined");
  });

  test("a state file that is damaged or gone is made again of the log", async () => {
    await using scratch = await scratchFolder();
    const stateFile = logFile(scratch.folder).replace("relays.log", "session.json");
    for (const spoil of [() => writeFile(stateFile, "{"), () => rm(stateFile)]) {
      {
        await using store = await openTestStore(scratch.folder);
        await append(store, "1");
        await append(store, "2");
      }
      await spoil();
      await using store = await openTestStore(scratch.folder);
      await store.loaded();
      assert.equal(sessionOf(store).state.phase, "open");
      assert.deepEqual(sessionOf(store).counts.mined, 2);
      assert.deepEqual(sessionOf(store).head, { operatorAddress: OPERATOR, header: testHeader(), terms: testTerms() });
    }
  });

  test("what was sealed is claimed with the same root after a crash, and proven from the log", async () => {
    await using scratch = await scratchFolder();
    let rootHash: Uint8Array;
    {
      await using store = await openTestStore(scratch.folder);
      for (let i = 0; i < 300; i++) await append(store, `${i}`);
      rootHash = (await sessionOf(store).seal()).rootHash;
      await sessionOf(store).update({ phase: "claimed", claimedHeightBlocks: 9n, feesUpokt: 12n });
    }
    await using store = await openTestStore(scratch.folder);
    const session = sessionOf(store);
    assert.equal(session.state.phase, "claimed");
    assert.deepEqual([session.state.claimedHeightBlocks, session.state.feesUpokt], [9n, 12n]);
    assert.deepEqual((await session.seal()).rootHash, rootHash);
    assert.equal(await append(store, "late"), "sealed");
    const proof = decodeClosestProof((await session.proof(relayHash(relayOf("x")))) ?? assert.fail("no proof"));
    assert.ok(proof !== undefined && verifyClosestProof(proof, rootHash).ok);
  });

  test("a full disk refuses relays, spoils nothing that was written, and relays go on when there is room", async () => {
    await using scratch = await scratchFolder();
    let isFull = false;
    const failing: typeof writeAll = async (file, parts, at) => {
      if (!isFull) return writeAll(file, parts, at);
      // Some of the bytes had room.
      await writeAll(file, [Buffer.concat(parts).subarray(0, 301)], at);
      throw Object.assign(new TypeError("no space"), { code: "ENOSPC" });
    };
    {
      await using store = await openTestStore(scratch.folder, {}, { writeAll: failing });
      await append(store, "1");
      const before = await readFile(logFile(scratch.folder));
      isFull = true;
      assert.deepEqual(await Promise.all([append(store, "2"), append(store, "3")]), ["full", "full"]);
      // One of them was written whole: it must not be claimed.
      assert.deepEqual(await readFile(logFile(scratch.folder)), before);
      assert.equal(await append(store, "new", "b2"), "full");
      isFull = false;
      assert.equal(await append(store, "4"), "mined");
      assert.equal(await append(store, "2"), "mined");
      assert.equal(await append(store, "new", "b2"), "mined");
    }
    const { log, said } = listeningLog();
    await using store = await openTestStore(scratch.folder, {}, { log });
    await store.loaded();
    assert.deepEqual(said, []);
    assert.deepEqual((await sessionOf(store).seal()).rootHash, rootOf(["1", "2", "4"]));
  });

  test("no answer leaves after an fsync that failed, also when a later fsync succeeds", async ({ mock }) => {
    await using scratch = await scratchFolder();
    const { log, said } = listeningLog();
    await using store = await openTestStore(scratch.folder, { fsyncMs: 0 }, { log });
    assert.equal(await append(store, "1"), "mined");
    const file = await open(logFile(scratch.folder));
    const failing = mock.method(Object.getPrototypeOf(file), "datasync", async () => {
      throw Object.assign(new TypeError("fsync failed"), { code: "EIO" });
    });
    await file.close();
    assert.equal(await append(store, "2"), "full");
    failing.mock.restore();
    assert.equal(await append(store, "3"), "full");
    // The claim is made, and the log says that it may not be provable.
    await sessionOf(store).seal();
    assert.ok(said.includes("a session is claimed although its relay log may not survive a loss of power"));
  });

  test("with too little room no relay begins, before a write fails", async () => {
    await using scratch = await scratchFolder();
    const clock = virtualClock();
    let free = 2_000_000;
    const freeBytes = async () => free;
    const options = { leastFreeBytes: 1_000_000, maxApplicationShare: 1 };
    await using store = await openTestStore(scratch.folder, options, { clock, freeBytes });
    assert.equal(await append(store, "1"), "mined");
    free = 999_999;
    clock.advance(1_000);
    assert.equal(await append(store, "2"), "full");
    free = 1_000_300;
    clock.advance(1_000);
    assert.equal(await append(store, "2"), "mined");
  });

  test("attack: when room is short settled logs leave before their time, the oldest first, and no relay is refused for them", async () => {
    await using scratch = await scratchFolder();
    const clock = virtualClock();
    let capacityBytes = Number.POSITIVE_INFINITY;
    const options = { leastFreeBytes: 1_000_000, maxApplicationShare: 1 };
    const usedBytes = (): number => store.sessions(OPERATOR).reduce((sum, { logBytes }) => sum + logBytes, 0);
    const freeBytes = async (): Promise<number> => capacityBytes - usedBytes();
    await using store = await openTestStore(scratch.folder, options, { clock, freeBytes });
    for (const id of ["a1", "b2", "c3"]) assert.equal(await append(store, "1", id), "mined");
    const lost = { kind: "lost", heightBlocks: 22n, why: "proof-missing", text: "", penaltyUpokt: 0n } as const;
    for (const id of ["b2", "a1"]) {
      clock.advance(1_000);
      const session = sessionOf(store, id);
      await session.update({ phase: "lost", outcome: lost, finishedAtMs: clock.nowMs() });
      // As the claim runner does.
      await session.unload();
    }
    const logs = async (): Promise<string[]> => {
      const names = await readdir(join(scratch.folder, OPERATOR), { recursive: true });
      return names
        .filter((name) => name.endsWith("relays.log"))
        .map((name) => name.slice(13, 15))
        .sort();
    };
    const appendWithoutRoom = async (text: string) => {
      clock.advance(1_000);
      capacityBytes = usedBytes() + options.leastFreeBytes - 1;
      return append(store, text, "c3");
    };
    assert.equal(await appendWithoutRoom("2"), "mined");
    assert.deepEqual(await logs(), ["a1", "c3"]);
    assert.equal(await appendWithoutRoom("3"), "mined");
    assert.deepEqual(await logs(), ["c3"]);
    assert.equal(await appendWithoutRoom("4"), "full", "nothing that is to be claimed leaves");
    assert.deepEqual(await logs(), ["c3"]);
    assert.deepEqual(sessionOf(store, "b2").counts.mined, 1, "what is known of them stays");
  });

  test("attack: one application fills its part of the disk, and no more, also after a restart; others are served", async () => {
    await using scratch = await scratchFolder();
    const clock = virtualClock();
    const options = { maxApplicationShare: 0.25 };
    let store: RelayStore | undefined;
    const usedBytes = (): number => (store?.sessions(OPERATOR) ?? []).reduce((sum, { logBytes }) => sum + logBytes, 0);
    const freeBytes = async (): Promise<number> => 40_000 - usedBytes();
    const open = async (): Promise<RelayStore> => {
      await store?.[Symbol.asyncDispose]();
      store = await openTestStore(scratch.folder, options, { clock, freeBytes });
      await store.loaded();
      return store;
    };
    const fill = async (to: RelayStore, name: string, sessionId: string): Promise<string> => {
      for (let relay = 0; relay < 200; relay++) {
        clock.advance(1_000);
        const result = await append(to, `${name} ${relay}`, sessionId);
        if (result !== "mined") return result;
      }
      return "never full";
    };
    const ofOther = { operatorAddress: OPERATOR, header: { ...testHeader("d4"), applicationAddress: OPERATOR } };
    const first = await open();
    assert.equal(await fill(first, "1", "a1"), "full");
    const { logBytes } = sessionOf(first);
    assert.ok(logBytes > 9_700 && logBytes <= 10_000, String(logBytes));
    assert.equal(await append(first, "other", "b2"), "full", "nor by another session");
    const begun = await first.begin(OPERATOR, testHeader());
    assert.match(begun.ok ? "" : begun.text, /^Relays of this application fill its part of the disk/);
    assert.equal(await first.append({ ...ofOther, relay: relayOf("1") }), "mined");
    const second = await open();
    clock.advance(1_000);
    assert.equal(await append(second, "other", "b2"), "full");
    assert.equal(await second.append({ ...ofOther, relay: relayOf("2") }), "mined");
    const lost = { kind: "lost", heightBlocks: 22n, why: "proof-missing", text: "", penaltyUpokt: 0n } as const;
    await sessionOf(second).update({ phase: "lost", outcome: lost, finishedAtMs: clock.nowMs() });
    clock.advance(1_000);
    assert.equal(await append(second, "other", "b2"), "mined", "its settled log has left");
    assert.equal(await fill(second, "2", "b2"), "full");
    await second[Symbol.asyncDispose]();
  });

  test("a new session whose parameters are not known begins no relay, and one that is known goes on", async () => {
    await using scratch = await scratchFolder();
    let isDead = false;
    const termsOf = async () =>
      isDead
        ? { ok: false as const, fault: "unreachable" as const, text: "no answer" }
        : { ok: true as const, value: testTerms() };
    await using store = await openTestStore(scratch.folder, {}, { termsOf });
    await append(store, "1");
    isDead = true;
    const begun = await store.begin(OPERATOR, testHeader("b2"));
    assert.deepEqual(begun, { ok: false, fault: "unavailable", text: "no answer" });
    assert.equal(await append(store, "2"), "mined");
  });

  test("relays in flight are counted until they end, and a stream has several answers", async () => {
    await using scratch = await scratchFolder();
    await using store = await openTestStore(scratch.folder);
    const begun = await store.begin(OPERATOR, testHeader());
    assert.ok(begun.ok);
    assert.equal(sessionOf(store).inFlight, 1);
    assert.equal(await begun.relay.append(relayOf("1")), "mined");
    assert.equal(await begun.relay.append(relayOf("2")), "mined");
    begun.relay[Symbol.dispose]();
    begun.relay[Symbol.dispose]();
    assert.equal(sessionOf(store).inFlight, 0);
  });

  test("sessions are bounded, and what settled ones leave goes after its time", async () => {
    await using scratch = await scratchFolder();
    const clock = virtualClock();
    const options = { maxSessions: 2, keepLogsMs: 1_000, keepSessionsMs: 5_000 };
    await using store = await openTestStore(scratch.folder, options, { clock });
    assert.equal(await append(store, "1", "a1"), "mined");
    assert.equal(await append(store, "1", "b2"), "mined");
    assert.equal(await append(store, "1", "c3"), "full");
    const lost = { kind: "lost", heightBlocks: 22n, why: "proof-missing", text: "", penaltyUpokt: 0n } as const;
    await sessionOf(store).update({ phase: "lost", outcome: lost, finishedAtMs: clock.nowMs() });
    assert.equal(await append(store, "1", "c3"), "mined");
    clock.advance(1_000);
    await store.prune(OPERATOR);
    assert.deepEqual(await readdir(join(scratch.folder, OPERATOR, "000000000006-a1")), ["session.json"]);
    assert.equal(sessionOf(store).counts.mined, 1);
    clock.advance(5_000);
    await store.prune(OPERATOR);
    assert.equal(store.session(OPERATOR, "a1"), undefined);
    assert.deepEqual((await readdir(join(scratch.folder, OPERATOR))).filter((name) => /^\d/.test(name)).sort(), [
      "000000000006-b2",
      "000000000006-c3",
    ]);
  });

  const spoiled: Readonly<Record<string, (stateFile: string) => Promise<void>>> = {
    state_damaged: (stateFile) => writeFile(stateFile, '{"format":1,'),
    "state_damaged of no bytes": (stateFile) => writeFile(stateFile, ""),
    // A folder in its place cannot be read as a file, also by root.
    state_unreadable: async (stateFile) => {
      await rm(stateFile);
      await mkdir(stateFile);
    },
  };
  for (const [what, spoil] of Object.entries(spoiled))
    test(`a settled session whose state file cannot be read keeps its folder: ${what}`, async () => {
      await using scratch = await scratchFolder();
      const folder = join(scratch.folder, OPERATOR, "000000000006-a1");
      const clock = virtualClock();
      const options = { keepLogsMs: 1_000, keepSessionsMs: 5_000 };
      {
        await using store = await openTestStore(scratch.folder, options, { clock });
        await append(store, "1");
        const lost = { kind: "lost", heightBlocks: 22n, why: "proof-missing", text: "", penaltyUpokt: 0n } as const;
        await sessionOf(store).update({ phase: "lost", outcome: lost, finishedAtMs: clock.nowMs() });
        clock.advance(1_000);
        await store.prune(OPERATOR);
      }
      await spoil(join(folder, "session.json"));
      const reasons: unknown[] = [];
      const log: Log = { ...silentLog, error: ({ reason }) => void reasons.push(reason), child: () => log };
      await using store = await openTestStore(scratch.folder, options, { clock, log });
      clock.advance(10_000);
      await store.prune(OPERATOR);
      assert.deepEqual(await readdir(folder), ["session.json"]);
      assert.deepEqual(reasons, [what.split(" ")[0]]);
    });

  test("of many settled sessions the newest are kept, those that are not settled always", async () => {
    await using scratch = await scratchFolder();
    const clock = virtualClock();
    await using store = await openTestStore(scratch.folder, { keepSessions: 2 }, { clock });
    const ids = ["a1", "b2", "c3", "d4", "e5"];
    for (const [at, sessionId] of ids.entries()) {
      const header = { ...testHeader(sessionId), sessionEndBlockHeight: BigInt(6 * (at + 1)) };
      assert.equal(await store.append({ operatorAddress: OPERATOR, header, relay: relayOf("1") }), "mined");
    }
    const lost = { kind: "lost", heightBlocks: 22n, why: "proof-missing", text: "", penaltyUpokt: 0n } as const;
    for (const id of ["b2", "c3", "d4"]) {
      const session = store.session(OPERATOR, id) ?? assert.fail();
      await session.update({ phase: "lost", outcome: lost, finishedAtMs: clock.nowMs() });
    }
    await store.prune(OPERATOR);
    const left = store.sessions(OPERATOR).map(({ head }) => head.header.sessionId);
    assert.deepEqual(left, ["a1", "c3", "d4", "e5"]);
    assert.equal(supplyReport(store, [OPERATOR]).operators[0]?.all.sessions, 5);
  });

  test("several operators of one store have sessions and keys of their own", async () => {
    await using scratch = await scratchFolder();
    const other = OPERATOR.replace(/.$/, "q");
    const operators = [OPERATOR, other];
    {
      await using store = await openTestStore(scratch.folder, { operators });
      await Promise.all(
        operators.map((operatorAddress, i) =>
          store.append({ operatorAddress, header: testHeader(), relay: relayOf(`${i}`) }),
        ),
      );
      await append(store, "more");
    }
    await using store = await openTestStore(scratch.folder, { operators });
    await store.loaded();
    const mined = operators.map((operator) => store.sessions(operator).map(({ counts }) => counts.mined));
    assert.deepEqual(mined, [[2], [1]]);
    await assert.rejects(openTestStore(scratch.folder, { operators: [other] }), { code: "OPERATOR_KEY_HELD" });
  });
});
