import assert from "node:assert/strict";
import {
  accountAddress,
  cosmosPublicKey,
  cosmosSign,
  encodeClosestProof,
  moduleAddress,
  privateKeyFromSecret,
  Rings,
  SumTrie,
  sha256,
} from "@turnpike/crypto";
import {
  type Any,
  application,
  createMessage,
  cryptoMultisig,
  cryptoSecp256k1,
  encodeMessage,
  gateway,
  packAny,
  proof,
  service,
  session,
  shared,
  supplier,
} from "@turnpike/proto";
import {
  proofPath,
  relayBytes,
  relayHash,
  relayRequestSignBytes,
  relayResponseSignBytes,
  sessionAt,
  sessionId,
  sessionPreimage,
  sessionWindows,
} from "@turnpike/protocol";
import { pocketMachine } from "../src/app/pocket-machine.ts";
import { createAccount, getAccount, setAccount } from "../src/modules/auth/accounts.ts";
import { getBalance } from "../src/modules/bank/balances.ts";
import { getClaim } from "../src/modules/proof/state.ts";
import { SessionFacts } from "../src/modules/session/facts.ts";
import { hydrateSession } from "../src/modules/session/hydrate.ts";
import { getBlockHash } from "../src/modules/session/state.ts";
import { getSharedParamsAt, protocolParams } from "../src/modules/shared/state.ts";
import type { BlockInfo, ChainEvent } from "../src/state/context.ts";
import { upokt } from "../src/state/stakes.ts";
import { addValidator } from "./modules/tokenomics/economy.ts";
import { bytesOfAddress, fund } from "./recorded-tx.ts";
import { TestChain } from "./run-message.ts";

/** A party of sessions. */
export interface Party {
  readonly address: string;
  readonly publicKey: Uint8Array;
  readonly privateKey: Uint8Array;
}

const rings = new Rings();
const { machine, modules } = pocketMachine({ gasPrices: [] });
const handlers = new Map(modules.flatMap(({ messages = {} }) => Object.entries(messages)));
const PURSE = 10n ** 15n;

/** Address whose messages change parameters. */
export const GOV: string = moduleAddress("gov");

/** The party of a name: its key is made of it. */
export function party(name: string): Party {
  const privateKey = privateKeyFromSecret(Buffer.from(name));
  const publicKey = cosmosPublicKey(privateKey);
  return { address: accountAddress(publicKey), publicKey, privateKey };
}

/** A multisignature key of two parties, and the address of its account as a test names it. */
export function multisigKey(name: string): Any {
  const publicKeys = [`${name} 1`, `${name} 2`].map((one) =>
    packAny(cryptoSecp256k1.PubKeySchema, createMessage(cryptoSecp256k1.PubKeySchema, { key: party(one).publicKey })),
  );
  const key = createMessage(cryptoMultisig.LegacyAminoPubKeySchema, { threshold: 1, publicKeys });
  return packAny(cryptoMultisig.LegacyAminoPubKeySchema, key);
}

/** Windows of the sessions: four blocks each, claims and proofs in the seven blocks behind. */
export const LIFE_PARAMS: shared.Params = createMessage(shared.ParamsSchema, {
  numBlocksPerSession: 4n,
  gracePeriodEndOffsetBlocks: 1n,
  claimWindowOpenOffsetBlocks: 1n,
  claimWindowCloseOffsetBlocks: 2n,
  proofWindowOpenOffsetBlocks: 1n,
  proofWindowCloseOffsetBlocks: 2n,
  supplierUnbondingPeriodSessions: 2n,
  applicationUnbondingPeriodSessions: 2n,
  gatewayUnbondingPeriodSessions: 2n,
  computeUnitsToTokensMultiplier: 1_000_000n,
  computeUnitCostGranularity: 1_000_000n,
  sessionGridAnchorHeight: 1n,
  sessionNumberAtAnchor: 1n,
});

/** Upokt of one relay: a compute unit costs one. */
export const RELAY_UPOKT = 100_000n;

const some = <T>(value: T | undefined): T => {
  assert.ok(value !== undefined);
  return value;
};

/** A relay that is served. */
export interface ServedRelay {
  readonly payload: Uint8Array;
  /** Signature of a request's digest. */
  readonly sign: (digest: Uint8Array) => Uint8Array;
  readonly unitsPerRelay: bigint;
}

/** Relays of a session that one supplier answered. */
export class Work {
  readonly header: session.SessionHeader;
  readonly supplier: Party;
  readonly trie = new SumTrie();
  relays = 0n;

  constructor(header: session.SessionHeader, by: Party) {
    this.header = header;
    this.supplier = by;
  }

  /** Adds relays that a party signed in a ring, and the supplier answered. */
  serve(count: number, ring: readonly Uint8Array[], signer: Party, unitsPerRelay = RELAY_UPOKT): this {
    const sign = (digest: Uint8Array): Uint8Array => rings.sign(digest, ring, signer.privateKey);
    for (let i = 0; i < count; i++) this.serveOne({ payload: Buffer.from(`${this.relays}`), sign, unitsPerRelay });
    return this;
  }

  /** Adds a relay that the supplier answered. */
  serveOne({ payload, sign, unitsPerRelay }: ServedRelay): this {
    const bytes = this.#relay(payload, sign);
    this.trie.insert(relayHash(bytes), bytes, unitsPerRelay);
    this.relays++;
    return this;
  }

  /** Adds unsigned relays: they count where no proof is required. */
  invent(count: number, unitsPerRelay: bigint): this {
    for (let i = 0; i < count; i++) {
      const bytes = Buffer.from(`${this.header.sessionId} ${this.supplier.address} ${this.relays}`);
      this.trie.insert(relayHash(bytes), bytes, unitsPerRelay);
      this.relays++;
    }
    return this;
  }

  #relay(payload: Uint8Array, sign: ServedRelay["sign"]): Uint8Array {
    const meta = createMessage(service.RelayRequestMetadataSchema, {
      sessionHeader: this.header,
      supplierOperatorAddress: this.supplier.address,
    });
    const request = createMessage(service.RelayRequestSchema, { meta, payload });
    const encode = (): Uint8Array => encodeMessage(service.RelayRequestSchema, request);
    meta.signature = sign(some(relayRequestSignBytes(encode())));
    const answer = Buffer.concat([Buffer.from("answer to "), payload]);
    const answerMeta = createMessage(service.RelayResponseMetadataSchema, { sessionHeader: this.header });
    const response = createMessage(service.RelayResponseSchema, {
      meta: answerMeta,
      payload: answer,
      payloadHash: relayHash(answer),
    });
    const encodeAnswer = (): Uint8Array => encodeMessage(service.RelayResponseSchema, response);
    const digest = some(relayResponseSignBytes(encodeAnswer()));
    answerMeta.supplierOperatorSignature = cosmosSign(digest, this.supplier.privateKey);
    return some(relayBytes(encode(), encodeAnswer()));
  }
}

/** Result of a claim's settlement. */
export interface Outcome {
  /** `settled`, `expired`, `discarded`, or `none` when no event names it. */
  readonly end: "settled" | "expired" | "discarded" | "none";
  /** Amount that the application paid for the claim, without inflation. */
  readonly settledUpokt: bigint;
}

/** Initial state of a {@link LifeChain}. */
interface LifeOptions {
  readonly params?: shared.Params;
  /** False: no claim needs a proof. */
  readonly proveAll?: boolean;
  /** Suppliers of a session; 15 by default. */
  readonly seats?: number;
  readonly heightBlocks?: bigint;
  /** State of an exported genesis, in place of a new one. */
  readonly appState?: Record<string, unknown>;
  /** 1 by default. */
  readonly secondsPerBlock?: bigint;
  /** False: no validator is bonded until one is created. */
  readonly hasValidator?: boolean;
}

/** A chain of all modules on which sessions are served, claimed, proven and settled, from messages alone. */
export class LifeChain extends TestChain {
  readonly events: ChainEvent[] = [];

  constructor(opts: LifeOptions = {}) {
    const { params = LIFE_PARAMS, proveAll = true, seats = 15, heightBlocks = 1n, appState } = opts;
    super(
      {
        heightBlocks,
        secondsPerBlock: opts.secondsPerBlock ?? 1n,
        appState: appState ?? {
          shared: { params: sharedJson(params) },
          session: { params: { num_suppliers_per_session: `${seats}` } },
          proof: {
            params: {
              proof_request_probability: proveAll ? 1 : 0,
              proof_requirement_threshold: { denom: "upokt", amount: proveAll ? "1" : "1000000000000" },
              proof_missing_penalty: { denom: "upokt", amount: "5000000" },
              proof_submission_fee: { denom: "upokt", amount: "1" },
            },
          },
        },
      },
      { machine, handlers },
    );
    if (appState === undefined && opts.hasValidator !== false) addValidator(this.ctx, 0, 7_000_003n);
  }

  override get block(): BlockInfo {
    const plain = super.block;
    return { ...plain, hash: sha256(Buffer.from(`block ${plain.heightBlocks}`)) };
  }

  /** An account with coins and, unless another is given, the key of its name. */
  addParty(name: string, key?: Any | "none"): Party {
    const account = party(name);
    const single = (): Any =>
      packAny(cryptoSecp256k1.PubKeySchema, createMessage(cryptoSecp256k1.PubKeySchema, { key: account.publicKey }));
    const pubKey = key === "none" ? undefined : (key ?? single());
    const address = bytesOfAddress(account.address);
    const { base } = createAccount(this.ctx, address);
    if (pubKey !== undefined) setAccount(this.ctx, address, { base: { ...base, pubKey } });
    fund(this.ctx, account.address, PURSE);
    return account;
  }

  /** As {@link addParty}, unless it is there. */
  addPartyOnce(name: string): Party {
    const account = party(name);
    return getAccount(this.ctx, bytesOfAddress(account.address)) === undefined ? this.addParty(name) : account;
  }

  addService(owner: Party, id: string, computeUnitsPerRelay = RELAY_UPOKT): void {
    const sent = this.send(service.MsgAddServiceSchema, {
      ownerAddress: owner.address,
      service: { id, name: id, computeUnitsPerRelay, ownerAddress: owner.address },
    });
    assert.ok(sent.ok, JSON.stringify(sent));
  }

  stakeApplication(who: Party, serviceId: string, amount: bigint, limit?: bigint) {
    return this.send(application.MsgStakeApplicationSchema, {
      address: who.address,
      stake: upokt(amount),
      services: [{ serviceId }],
      ...(limit === undefined ? {} : { perSessionSpendLimit: upokt(limit) }),
    });
  }

  stakeGateway(who: Party, amount = 1_000_000n) {
    return this.send(gateway.MsgStakeGatewaySchema, { address: who.address, stake: upokt(amount) });
  }

  stakeSupplier(who: Party, serviceId: string, shares: readonly (readonly [Party, bigint])[] = [[who, 100n]]) {
    return this.send(supplier.MsgStakeSupplierSchema, {
      signer: who.address,
      ownerAddress: who.address,
      operatorAddress: who.address,
      stake: upokt(100_000_000n),
      services: [
        {
          serviceId,
          endpoints: [{ url: "https://a.example", rpcType: shared.RPCType.JSON_RPC }],
          revShare: shares.map(([{ address }, revSharePercentage]) => ({ address, revSharePercentage })),
        },
      ],
    });
  }

  delegate(app: Party, to: Party) {
    return this.send(application.MsgDelegateToGatewaySchema, { appAddress: app.address, gatewayAddress: to.address });
  }

  undelegate(app: Party, from: Party) {
    return this.send(application.MsgUndelegateFromGatewaySchema, {
      appAddress: app.address,
      gatewayAddress: from.address,
    });
  }

  /** Ends blocks until messages run in the one of a height. */
  runTo(heightBlocks: bigint): void {
    while (this.block.heightBlocks < heightBlocks) this.events.push(...this.endBlock());
  }

  /** Ends blocks until a session's claims are settled. */
  settle({ sessionEndBlockHeight: end }: session.SessionHeader): void {
    this.runTo(sessionWindows(protocolParams(getSharedParamsAt(this.ctx, end)), end).settlementHeight + 1n);
  }

  /** The session of an application at the block's height. */
  session(app: Party, serviceId: string, heightBlocks = this.block.heightBlocks): session.Session {
    const read = hydrateSession(this.ctx, app.address, serviceId, heightBlocks);
    assert.ok(read.ok, read.ok ? "" : read.fault.text);
    return read.value;
  }

  header(app: Party, serviceId: string, heightBlocks?: bigint): session.SessionHeader {
    return some(this.session(app, serviceId, heightBlocks).header);
  }

  /** The header of a session as its id is made, in which the application may not be. */
  sessionHeader(
    { address: applicationAddress }: Party,
    serviceId: string,
    heightBlocks: bigint,
  ): session.SessionHeader {
    const { startHeight, endHeight } = sessionAt(getSharedParamsAt(this.ctx, heightBlocks), heightBlocks);
    const blockHash = getBlockHash(this.ctx, startHeight);
    return createMessage(session.SessionHeaderSchema, {
      applicationAddress,
      serviceId,
      sessionId: sessionId(sessionPreimage({ blockHash, serviceId, applicationAddress, startHeight })),
      sessionStartBlockHeight: startHeight,
      sessionEndBlockHeight: endHeight,
    });
  }

  claim({ header, supplier: by, trie }: Work) {
    return this.send(proof.MsgCreateClaimSchema, {
      supplierOperatorAddress: by.address,
      sessionHeader: header,
      rootHash: trie.root(),
    });
  }

  prove({ header, supplier: by, trie }: Work) {
    const path = proofPath(new SessionFacts(this.ctx, header).proofSeedBlockHash(), header.sessionId);
    return this.send(proof.MsgSubmitProofSchema, {
      supplierOperatorAddress: by.address,
      sessionHeader: header,
      proof: encodeClosestProof(trie.proveClosest(path)),
    });
  }

  windowsOf({ sessionEndBlockHeight: end }: session.SessionHeader) {
    return sessionWindows(protocolParams(getSharedParamsAt(this.ctx, end)), end);
  }

  /** Status of a claim; undefined when it is gone. */
  statusOf({ header, supplier: by }: Work): number | undefined {
    return getClaim(this.ctx, header.sessionId, by.address)?.proofValidationStatus;
  }

  /** Claims and proves at the first block of each window, and settles: what it came to. */
  finish(work: Work): Outcome {
    const { claimOpenHeight, proofOpenHeight } = this.windowsOf(work.header);
    this.runTo(claimOpenHeight);
    const claimed = this.claim(work);
    assert.ok(claimed.ok, claimed.ok ? "" : claimed.fault.text);
    this.runTo(proofOpenHeight);
    const proven = this.prove(work);
    assert.ok(proven.ok || proven.fault.text.includes("not required"), proven.ok ? "" : proven.fault.text);
    this.settle(work.header);
    return this.outcomeOf(work);
  }

  outcomeOf({ header, supplier: by }: Work): Outcome {
    for (const { type, attributes } of this.events) {
      const value = (key: string): unknown => {
        const text = attributes.find((one) => one.key === key)?.value;
        return text === undefined ? undefined : JSON.parse(text);
      };
      const end = ENDS[type.slice("pocket.tokenomics.".length)];
      if (end === undefined || value("supplier_operator_address") !== by.address) continue;
      if (value("session_end_block_height") !== `${header.sessionEndBlockHeight}`) continue;
      if (value("application_address") !== header.applicationAddress) continue;
      if (value("service_id") !== header.serviceId) continue;
      const amount = end === "settled" ? /^(\d+)upokt$/.exec(String(value("settled_upokt"))) : undefined;
      return { end, settledUpokt: BigInt(amount?.[1] ?? "0") };
    }
    return { end: "none", settledUpokt: 0n };
  }

  balanceOf({ address }: Party): bigint {
    return getBalance(this.ctx, bytesOfAddress(address), "upokt");
  }

  transfer(from: Party, to: Party) {
    return this.send(application.MsgTransferApplicationSchema, {
      sourceAddress: from.address,
      destinationAddress: to.address,
    });
  }
}

const ENDS: Readonly<Record<string, "settled" | "expired" | "discarded">> = {
  EventClaimSettled: "settled",
  EventClaimExpired: "expired",
  EventClaimDiscarded: "discarded",
};

function sharedJson(params: shared.Params): Record<string, unknown> {
  const snake = (name: string): string => name.replace(/[A-Z]/g, (letter) => `_${letter.toLowerCase()}`);
  return Object.fromEntries(
    Object.entries(params).flatMap(([name, value]) => (typeof value === "bigint" ? [[snake(name), `${value}`]] : [])),
  );
}
