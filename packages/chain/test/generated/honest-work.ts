import { sha256 } from "@turnpike/crypto";
import { type Any, createMessage, packAny, proof, type session } from "@turnpike/proto";
import { isSessionEnd, sessionWindows } from "@turnpike/protocol";
import { makeRelay, RelayLedger } from "@turnpike/testkit/chain-relays";
import { applications } from "../../src/modules/application/state.ts";
import { claims } from "../../src/modules/proof/state.ts";
import { getComputeUnitsPerRelayAt, getDifficultyAt } from "../../src/modules/service/state.ts";
import { outlineSession } from "../../src/modules/session/hydrate.ts";
import { getBlockHash } from "../../src/modules/session/state.ts";
import { getSharedParamsAt, protocolParams } from "../../src/modules/shared/state.ts";
import type { Context } from "../../src/state/context.ts";
import { type Actor, actorOf, PRIVATE_KEYS, SIGNERS } from "./actors.ts";

/** A message of a supplier that works. */
export interface WorkMessage {
  readonly signer: Actor;
  readonly message: Any;
}

const MAX_LEDGERS = 2_000;
const BASE_TARGET = new Uint8Array(32).fill(255);
// Sessions depend on heights and names alone, so that branches share the relays that are signed for them.
const ledgers = new Map<string, RelayLedger>();

/** The trie of two real relays of a session, signed by the application and answered by the supplier. */
function ledgerOf(header: session.SessionHeader, operator: string, units: bigint): RelayLedger | undefined {
  const name = `${header.sessionId}/${operator}/${units}`;
  const cached = ledgers.get(name);
  if (cached !== undefined) return cached;
  const askerKey = PRIVATE_KEYS.get(header.applicationAddress);
  const supplierKey = PRIVATE_KEYS.get(operator);
  const publicKey = askerKey === undefined ? undefined : publicKeyOf(header.applicationAddress);
  if (askerKey === undefined || supplierKey === undefined || publicKey === undefined) return undefined;
  const ledger = new RelayLedger(header);
  for (const payload of ["one", "two"]) {
    const ring = [publicKey, publicKey];
    const relay = makeRelay({ header, ring, askerKey, supplierOperatorAddress: operator, supplierKey }, payload);
    ledger.add(relay, BASE_TARGET, units);
  }
  if (ledgers.size >= MAX_LEDGERS) ledgers.clear();
  ledgers.set(name, ledger);
  return ledger;
}

function publicKeyOf(address: string): Uint8Array | undefined {
  const actor = actorOf(address);
  return actor === undefined ? undefined : SIGNERS[actor].publicKey;
}

/** Made-up root of a trie, with this many relays. */
function madeUpRoot(relays: bigint, units: bigint): Uint8Array {
  const root = Buffer.alloc(48, 9);
  root.writeBigUInt64BE(BigInt.asUintN(64, relays * units), 32);
  root.writeBigUInt64BE(relays, 40);
  return Uint8Array.from(root);
}

const isMadeUp = (root: Uint8Array): boolean => root.subarray(0, 32).every((byte) => byte === root[0]);
const isBase = (target: Uint8Array): boolean => target.every((byte) => byte === 255);

function claimOf(ctx: Context, header: session.SessionHeader, operator: string): Any | undefined {
  const { serviceId, sessionStartBlockHeight: start } = header;
  const units = getComputeUnitsPerRelayAt(ctx, serviceId, start) ?? 1n;
  const kind = (sha256(Buffer.from(header.sessionId + operator))[0] ?? 0) % 5;
  if (kind === 0) return undefined;
  const isReal = kind < 3 && isBase(getDifficultyAt(ctx, serviceId, start).targetHash);
  const ledger = isReal ? ledgerOf(header, operator, units) : undefined;
  const rootHash = ledger?.root() ?? madeUpRoot(kind === 3 ? 50n : 40_000n, units);
  const claim = { supplierOperatorAddress: operator, sessionHeader: header, rootHash };
  return packAny(proof.MsgCreateClaimSchema, createMessage(proof.MsgCreateClaimSchema, claim));
}

function claimsOfSession(ctx: Context, end: bigint): WorkMessage[] {
  const work: WorkMessage[] = [];
  for (const [address, { serviceConfigs }] of applications.entries(ctx)) {
    for (const { serviceId } of serviceConfigs) {
      const outline = outlineSession(ctx, address, serviceId, end);
      if (!outline.ok) continue;
      const { header, suppliers } = outline.value;
      for (const { operatorAddress } of suppliers) {
        const signer = actorOf(operatorAddress);
        const message = signer === undefined ? undefined : claimOf(ctx, header, operatorAddress);
        if (signer !== undefined && message !== undefined) work.push({ signer, message });
      }
    }
  }
  return work;
}

/** The proof of a real claim, when its supplier has the relays of the session. */
export function honestProof(ctx: Context, header: session.SessionHeader, operator: string): Uint8Array | undefined {
  const { serviceId, sessionStartBlockHeight, sessionEndBlockHeight } = header;
  const units = getComputeUnitsPerRelayAt(ctx, serviceId, sessionStartBlockHeight) ?? 1n;
  const ledger = ledgers.get(`${header.sessionId}/${operator}/${units}`);
  const windows = sessionWindows(protocolParams(getSharedParamsAt(ctx, sessionEndBlockHeight)), sessionEndBlockHeight);
  return ledger?.proof(getBlockHash(ctx, windows.proofOpenHeight - 1n));
}

function proofsOfSession(ctx: Context, end: bigint): WorkMessage[] {
  const work: WorkMessage[] = [];
  for (const [, { sessionHeader: header, supplierOperatorAddress: operator, rootHash }] of claims.entries(ctx)) {
    if (header === undefined || header.sessionEndBlockHeight !== end || isMadeUp(rootHash)) continue;
    const bytes = honestProof(ctx, header, operator);
    const signer = actorOf(operator);
    if (bytes === undefined || signer === undefined) continue;
    const submission = { supplierOperatorAddress: operator, sessionHeader: header, proof: bytes };
    const message = packAny(proof.MsgSubmitProofSchema, createMessage(proof.MsgSubmitProofSchema, submission));
    work.push({ signer, message });
  }
  return work;
}

/** Heights at which suppliers must do something: those of the windows of sessions that ended. */
export class WorkPlan {
  readonly #claimEnds: Map<bigint, bigint[]>;
  readonly #proofEnds: Map<bigint, bigint[]>;

  constructor(other?: WorkPlan) {
    this.#claimEnds = new Map(other === undefined ? [] : other.#claimEnds);
    this.#proofEnds = new Map(other === undefined ? [] : other.#proofEnds);
  }

  /** Notes the windows of the session that a block ends, when it ends one. */
  note(ctx: Context, heightBlocks: bigint): void {
    const params = protocolParams(getSharedParamsAt(ctx, heightBlocks));
    if (!isSessionEnd(params, heightBlocks)) return;
    const { claimOpenHeight, proofOpenHeight } = sessionWindows(params, heightBlocks);
    this.#claimEnds.set(claimOpenHeight, [...(this.#claimEnds.get(claimOpenHeight) ?? []), heightBlocks]);
    this.#proofEnds.set(proofOpenHeight, [...(this.#proofEnds.get(proofOpenHeight) ?? []), heightBlocks]);
  }

  /** Claims and proofs that suppliers send in the next block: each when its window opens. */
  work(ctx: Context): WorkMessage[] {
    const now = ctx.block.heightBlocks;
    const claimsNow = (this.#claimEnds.get(now) ?? []).flatMap((end) => claimsOfSession(ctx, end));
    const proofsNow = (this.#proofEnds.get(now) ?? []).flatMap((end) => proofsOfSession(ctx, end));
    return [...claimsNow, ...proofsNow];
  }
}
