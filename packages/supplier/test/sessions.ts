import { mkdtemp, rm } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { systemClock } from "@turnpike/base";
import { accountAddress, cosmosPublicKey, privateKeyFromSecret } from "@turnpike/crypto";
import type { SessionHeader } from "@turnpike/protocol";
import { RelayStore, type RelayStoreModules, type RelayStoreOptions } from "../src/evidence/relay-store.ts";
import type { SessionTerms } from "../src/evidence/types.ts";

// Not of the testkit, which a child process needs a second to load.
const address = (name: string): string => accountAddress(cosmosPublicKey(privateKeyFromSecret(Buffer.from(name))));

/** Operator of tests that need no chain. */
export const OPERATOR = address("supplier");

/** Terms under which every relay is mined; what is not given. */
export function testTerms(change: Partial<SessionTerms> = {}): SessionTerms {
  return {
    computeUnitsPerRelay: 100n,
    targetHash: new Uint8Array(32).fill(255),
    windows: {
      graceEndHeight: 7n,
      claimOpenHeight: 8n,
      claimCloseHeight: 14n,
      proofOpenHeight: 15n,
      proofCloseHeight: 22n,
      settlementHeight: 22n,
    },
    pricing: { computeUnitsToTokensMultiplier: 42_000_000n, computeUnitCostGranularity: 1_000_000n },
    ...change,
  };
}

/** A session's header; the id is any text. */
export function testHeader(sessionId = "a1"): SessionHeader {
  return {
    applicationAddress: address("app"),
    serviceId: "eth",
    sessionId,
    sessionStartBlockHeight: 1n,
    sessionEndBlockHeight: 6n,
  };
}

/** A folder that goes with the test. */
export async function scratchFolder(): Promise<{ readonly folder: string } & AsyncDisposable> {
  const folder = await mkdtemp(join(tmpdir(), "turnpike-supplier-"));
  return { folder, [Symbol.asyncDispose]: () => rm(folder, { recursive: true, force: true }) };
}

/** A store of one operator with {@link testTerms}. */
export function openTestStore(
  folder: string,
  options: Partial<RelayStoreOptions> = {},
  modules: Partial<RelayStoreModules> = {},
): Promise<RelayStore> {
  return RelayStore.open(
    { folder, operators: [OPERATOR], fsyncMs: 200, leastFreeBytes: 0, isMachineWideLock: false, ...options },
    { clock: systemClock, termsOf: async () => ({ ok: true, value: testTerms() }), ...modules },
  );
}
