import assert from "node:assert/strict";
import { mkdtemp, open, readdir, rm } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { bytesToHex } from "@turnpike/base";
import { relayHash } from "@turnpike/protocol";
import { readSupplyReport } from "@turnpike/supplier";
import { chainParty, startTestChain, type TestChain } from "@turnpike/testkit/chain";
import { RECORD } from "../../../packages/supplier/src/evidence/records.ts";
import { scanLog } from "../../../packages/supplier/src/evidence/scan-log.ts";
import { SUPPLIER_FAULT_POINTS } from "../../../packages/supplier/src/fault-points.ts";
import type { ChaosPart } from "../chaos.ts";
import { type KillPlan, SupplierProcess } from "./supplier-process.ts";

/** Rounds a point, and rounds with a kill at any moment. */
const SIZES = { short: { rounds: 1, random: 2 }, full: { rounds: 10, random: 30 } } as const;
const SESSION_BLOCKS = 6n;
const SETTLED_AFTER_BLOCKS = 16n;
const RELAYS = 8;
const UPOKT_PER_RELAY = 4_200n;

interface Round {
  readonly plan: KillPlan | undefined;
  /** Blocks that are made while the supplier is dead. */
  readonly deadBlocks: number;
  /** The supplier is killed from outside while it works after this block of the round. */
  readonly killedAtBlock: bigint | undefined;
}

interface RoundResult {
  readonly kills: number;
  readonly acknowledged: number;
  readonly settled: number;
}

/** Hashes of the relays in a session's log. */
async function loggedRelays(folder: string, sessionId: string): Promise<Set<string>> {
  const operator = join(folder, chainParty("supplier").address);
  const name = (await readdir(operator)).find((one) => one.endsWith(sessionId)) ?? assert.fail("the session is gone");
  const file = await open(join(operator, name, "relays.log"), "r");
  const hashes = new Set<string>();
  try {
    await scanLog(file, ({ kind, payload }) => {
      if (kind === RECORD.relay) hashes.add(bytesToHex(relayHash(payload)));
    });
  } finally {
    await file.close();
  }
  return hashes;
}

/** One session from its first relay to its settlement, with a kill on the way. */
async function runRound(chain: TestChain, { plan, deadBlocks, killedAtBlock }: Round): Promise<RoundResult> {
  const folder = await mkdtemp(join(tmpdir(), "turnpike-supply-"));
  const started: SupplierProcess[] = [];
  const start = async (killed?: KillPlan): Promise<SupplierProcess> => {
    const supplier = new SupplierProcess(chain.rpcUrl, folder, killed);
    started.push(supplier);
    await supplier.said((line) => line === "ready");
    return supplier;
  };
  try {
    await chain.reach(((chain.heightBlocks - 1n) / SESSION_BLOCKS + 1n) * SESSION_BLOCKS + 1n);
    const firstHeight = chain.heightBlocks;
    const endHeight = firstHeight + SESSION_BLOCKS - 1n;
    let supplier = await start(plan);
    let kills = 0;
    let served = 0;
    const serve = async (): Promise<void> => {
      served += RELAYS;
      const isDone = await supplier.serve(served, RELAYS);
      if (isDone || chain.heightBlocks > endHeight) return;
      kills++;
      supplier = await start();
      await serve();
    };
    await serve();
    while (chain.heightBlocks < endHeight + SETTLED_AFTER_BLOCKS) {
      await chain.produce();
      if (chain.heightBlocks - firstHeight === killedAtBlock) await supplier.kill();
      if (await supplier.processed(chain.heightBlocks)) continue;
      kills++;
      // While it is dead the chain goes on, but not past the end of a window.
      for (let i = 0; i < deadBlocks; i++) await chain.produce();
      supplier = await start();
      await supplier.processed(chain.heightBlocks);
    }
    await supplier.end();
    const said = started.flatMap(({ lines }) => lines);
    const [, sessionId] = said.find((line) => line.startsWith("session "))?.split(" ") ?? [];
    assert.ok(sessionId !== undefined);
    const acknowledged = said.flatMap((line) => (line.startsWith("mined ") ? [line.slice("mined ".length)] : []));
    const attempted = served;
    const [operator] = (await readSupplyReport(folder)).operators;
    const relays = Number(operator?.all.relays.settled ?? 0n);
    if (plan?.point !== "supplier.sums.added") {
      const logged = await loggedRelays(folder, sessionId);
      for (const hash of acknowledged) assert.ok(logged.has(hash), "a relay whose answer left is not in the evidence");
      assert.equal(relays, logged.size, "relays that were settled");
      const session = operator?.sessions.find((one) => one.sessionId === sessionId);
      assert.deepEqual([session?.phase, session?.isProofRequired], ["settled", true]);
    }
    assert.deepEqual(operator?.all.lost, {});
    assert.ok(
      relays >= acknowledged.length && relays <= attempted,
      `${acknowledged.length} answered, ${relays} settled`,
    );
    assert.equal(operator?.all.upokt.settled, BigInt(relays) * UPOKT_PER_RELAY);
    return { kills, acknowledged: acknowledged.length, settled: relays };
  } finally {
    for (const one of started) if (!one.isGone) await one.kill();
    await rm(folder, { recursive: true, force: true });
  }
}

/**
 * A supplier is killed at every point between two things that it writes down or sends, and at any moment: every relay whose
 * signed answer could leave is claimed, proven and settled, and nothing else is.
 */
export const kills: ChaosPart = async ({ size, progress }) => {
  await using chain = await startTestChain({ params: { proof: { proof_request_probability: 1 } } });
  const { rounds, random } = SIZES[size];
  const sums = { kills: 0, acknowledged: 0, settled: 0 };
  const run = async (round: Round): Promise<RoundResult> => {
    const result = await runRound(chain, round);
    sums.kills += result.kills;
    sums.acknowledged += result.acknowledged;
    sums.settled += result.settled;
    return result;
  };
  for (const point of SUPPLIER_FAULT_POINTS) {
    for (let i = 0; i < rounds; i++) {
      const times = point === "supplier.relay.written" ? 1 + ((i * 3) % RELAYS) : 1;
      const { kills: found } = await run({ plan: { point, times }, deadBlocks: i % 4, killedAtBlock: undefined });
      assert.equal(found, 1, `${point} was not reached`);
    }
    progress(`${point}: ${rounds} rounds`);
  }
  for (let i = 0; i < random; i++) {
    const killedAtBlock = BigInt(1 + ((i * 7) % Number(SESSION_BLOCKS + SETTLED_AFTER_BLOCKS - 2n)));
    await run({ plan: undefined, deadBlocks: i % 3, killedAtBlock });
  }
  return {
    figures: [
      { what: "kills", value: sums.kills, unit: "" },
      { what: "relays whose answers left", value: sums.acknowledged, unit: "" },
      { what: "relays that were claimed, proven and settled", value: sums.settled, unit: "" },
    ],
  };
};
