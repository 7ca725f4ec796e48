import assert from "node:assert/strict";
import { readFileSync } from "node:fs";
import type { DescMessage, MessageShape } from "@bufbuild/protobuf";
import type { AddressBytes } from "@turnpike/base";
import { decodeBech32, moduleAddress, moduleAddressBytes } from "@turnpike/crypto";
import {
  application,
  createMessage,
  cryptoSecp256k1,
  fromApiJson,
  packAny,
  proof,
  service,
  session,
  shared,
  staking,
  supplier,
  tokenomics,
} from "@turnpike/proto";
import { type BlockOutcome, StateMachine } from "../../../src/app/state-machine.ts";
import { applicationParams, setApplication } from "../../../src/modules/application/state.ts";
import { addAccount, ensureModuleAccount } from "../../../src/modules/auth/accounts.ts";
import { authModule } from "../../../src/modules/auth/auth-module.ts";
import { authzModule, handlersOf } from "../../../src/modules/authz/authz-module.ts";
import { getBalance, setBalance, setSupply } from "../../../src/modules/bank/balances.ts";
import { bankModule } from "../../../src/modules/bank/bank-module.ts";
import { proofModule } from "../../../src/modules/proof/proof-module.ts";
import { proofParams } from "../../../src/modules/proof/state.ts";
import { difficulties, difficultyHistory, serviceParams, services } from "../../../src/modules/service/state.ts";
import { blockHashes, sessionParams } from "../../../src/modules/session/state.ts";
import { sharedParams, sharedParamsHistory } from "../../../src/modules/shared/state.ts";
import { delegations, lastPowers, POWER_REDUCTION, validators } from "../../../src/modules/staking/state.ts";
import {
  configsByOperator,
  serviceConfigs,
  setDehydratedSupplier,
  supplierParams,
} from "../../../src/modules/supplier/state.ts";
import { tokenomicsParams } from "../../../src/modules/tokenomics/state.ts";
import { tokenomicsModule } from "../../../src/modules/tokenomics/tokenomics-module.ts";
import type { BlockInfo, ChainEvent, Context } from "../../../src/state/context.ts";
import { GasMeter } from "../../../src/state/gas.ts";
import type { Module } from "../../../src/state/module.ts";
import { Overlay } from "../../../src/state/overlay.ts";
import { planted } from "../../planted.ts";
import { bytesOfAddress } from "../../recorded-tx.ts";

type Json = Readonly<Record<string, unknown>>;
type Balances = Readonly<Record<string, Readonly<Record<string, number>>>>;

/** What the recording read of the chain at one height. */
export interface RecordedState {
  readonly height: number;
  readonly balances: Balances;
  readonly modules: Balances;
  readonly supply: readonly { readonly denom: string; readonly amount: string }[];
  readonly applications: Readonly<Record<string, { readonly amount: string }>>;
  readonly suppliers: Readonly<Record<string, { readonly amount: string }>>;
  readonly validators: readonly {
    readonly operator_address: string;
    readonly tokens: string;
    readonly delegator_shares: string;
  }[];
}

interface RecordedParams {
  readonly application: Json;
  readonly supplier: Json;
  readonly session: Json;
  readonly service: Json;
  readonly proof: Json & { readonly proof_submission_fee: { readonly amount: string } };
  readonly tokenomics: Json;
  readonly shared: Json;
}

/** One recorded session, from claims to settlement. */
export interface RecordedChain {
  readonly session_start: number;
  readonly session_end: number;
  readonly settlement_height: number;
  readonly sessions: readonly {
    readonly header: Json & { readonly service_id: string };
    readonly application: Json & { readonly address: string };
    readonly suppliers: readonly (Json & { readonly operator_address: string; readonly services: readonly Json[] })[];
  }[];
  readonly claims_before_settlement: readonly Json[];
  readonly block_hashes: Readonly<Record<string, string>>;
  readonly services: readonly Json[];
  readonly relay_mining_difficulty: Readonly<
    Record<
      string,
      {
        readonly before_settlement: { readonly relayMiningDifficulty: Json };
        readonly after_settlement: { readonly relayMiningDifficulty: Json };
        readonly history: {
          readonly relayMiningDifficultyHistory: readonly {
            readonly effective_height: string;
            readonly difficulty: Json;
          }[];
        };
      }
    >
  >;
  readonly params_at_session_start: RecordedParams;
  readonly params_at_settlement: RecordedParams;
  readonly state_before_settlement: RecordedState;
  readonly state_after_settlement: RecordedState;
  readonly settlement_block_results: { readonly finalize_block_events: readonly ChainEvent[] };
  readonly end_block_events_of_claim_and_proof_blocks: Readonly<Record<string, readonly ChainEvent[]>>;
  readonly txs: readonly {
    readonly height: string;
    readonly tx_bytes: string;
    readonly tx: {
      readonly code: number;
      readonly gas_used: string;
      readonly timestamp: string;
      readonly events: readonly ChainEvent[];
      readonly tx: {
        readonly body: {
          readonly messages: readonly { readonly "@type": string; readonly supplier_operator_address: string }[];
        };
        readonly auth_info: {
          readonly signer_infos: readonly { readonly sequence: string }[];
          readonly fee: { readonly amount: readonly { readonly amount: string }[] };
        };
      };
    };
  }[];
}

/** The recorded sessions. */
export const RECORDED_CHAINS = ["e2e-4", "e2e-5", "e2e-1", "e2e-7"] as const;

const FOLDER = new URL("../../../../../test/spec/protocol/", import.meta.url);
const EMPTY = { get: () => undefined, range: () => [] };
const AUTHORITY = moduleAddress("gov");
const VALIDATOR = "pokt1lvrxptamh6ws83x64x4m3stx0p5m94d72nfxh8";
// The one delegation that the records do not hold: the chain's answer for its only validator.
const DELEGATOR = { address: "pokt12uez8ka8eqtag2chksq9yl45heuym5yu343ffz", tokens: 123_456_789n };
const OWN_TOKENS = 900_000_000n;
const DECIMAL_ONE = 10n ** 18n;

function readFile<T>(name: string): T {
  return JSON.parse(readFileSync(new URL(name, FOLDER), "utf8")) as T;
}

/** Reads a recorded session. */
export function readChain(name: string): RecordedChain {
  return readFile<RecordedChain>(`${name}.json`);
}

/** Addresses of the recorded accounts by name. */
export const ADDRESSES: Readonly<Record<string, string>> = readFile("addresses.json");

const KEYS: Readonly<Record<string, string>> = readFile("public-keys.json");

/** A message from the chain's JSON. */
export function fromJson<Desc extends DescMessage>(schema: Desc, json: unknown): MessageShape<Desc> {
  const read = fromApiJson(schema, json);
  assert.ok(read.ok, read.ok ? "" : read.fault);
  return read.message;
}

/** The modules that a recorded session goes through, in the chain's order, and the one by which parameters change. */
export function settlementMachine(): StateMachine {
  const modules: readonly Module[] = [
    authModule({ moduleAccounts: { fee_collector: [] }, authority: AUTHORITY }),
    bankModule({ blocked: new Set(), authority: AUTHORITY }),
    authzModule({ handlers: handlersOf(() => modules) }),
    proofModule({ authority: AUTHORITY }),
    tokenomicsModule({ authority: AUTHORITY }),
  ];
  return new StateMachine({ gasPrices: [] }, modules);
}

/** A context that writes to a state, at a height. */
export function contextAt(state: Overlay, heightBlocks: bigint): Context {
  return { block: blockAt(heightBlocks), mode: "block", state, gas: new GasMeter(), events: [] };
}

/** A block of the recorded chain's name. */
export function blockAt(heightBlocks: bigint, hash = new Uint8Array(0), time = "2026-11-21T14:00:00Z"): BlockInfo {
  const timeNanos = BigInt(Date.parse(time)) * 1_000_000n;
  return { chainId: "pocket", heightBlocks, timeNanos, hash, proposer: new Uint8Array(0) };
}

function fillParams(ctx: Context, record: RecordedChain): void {
  const now = record.params_at_settlement;
  applicationParams.set(ctx, undefined, fromJson(application.ParamsSchema, now.application));
  supplierParams.set(ctx, undefined, fromJson(supplier.ParamsSchema, now.supplier));
  sessionParams.set(ctx, undefined, fromJson(session.ParamsSchema, now.session));
  serviceParams.set(ctx, undefined, fromJson(service.ParamsSchema, now.service));
  proofParams.set(ctx, undefined, fromJson(proof.ParamsSchema, now.proof));
  tokenomicsParams.set(ctx, undefined, planted(fromJson(tokenomics.ParamsSchema, now.tokenomics)));
  sharedParams.set(ctx, undefined, fromJson(shared.ParamsSchema, now.shared));
  const atStart = fromJson(shared.ParamsSchema, record.params_at_session_start.shared);
  sharedParamsHistory.set(ctx, 1n, atStart);
  sharedParamsHistory.set(ctx, BigInt(record.session_end) + 1n, fromJson(shared.ParamsSchema, now.shared));
}

function fillAccounts(ctx: Context, record: RecordedChain): void {
  const before = record.state_before_settlement;
  const sequences = new Map<string, bigint>();
  for (const { tx } of record.txs) {
    const signer = tx.tx.body.messages[0]?.supplier_operator_address ?? "";
    if (!sequences.has(signer)) sequences.set(signer, BigInt(tx.tx.auth_info.signer_infos[0]?.sequence ?? "0"));
  }
  for (const [index, [name, address]] of Object.entries(ADDRESSES).entries()) {
    const bytes = bytesOfAddress(address);
    const key = createMessage(cryptoSecp256k1.PubKeySchema, { key: Buffer.from(KEYS[address] ?? "", "base64") });
    const sequence = sequences.get(address) ?? 1n;
    const base = {
      address,
      accountNumber: BigInt(index),
      sequence,
      pubKey: packAny(cryptoSecp256k1.PubKeySchema, key),
    };
    addAccount(ctx, bytes, { base: { $typeName: "cosmos.auth.v1beta1.BaseAccount", ...base } });
    for (const [denom, amount] of Object.entries(before.balances[name] ?? {})) {
      setBalance(ctx, bytes, { denom, amount: BigInt(amount) });
    }
  }
  for (const [name, coins] of Object.entries(before.modules)) {
    ensureModuleAccount(ctx, name, []);
    for (const [denom, amount] of Object.entries(coins)) {
      setBalance(ctx, moduleAddressBytes(name), { denom, amount: BigInt(amount) });
    }
  }
  for (const { denom, amount } of before.supply) setSupply(ctx, { denom, amount: BigInt(amount) });
  // What the recorded transactions take is still there before them.
  for (const { tx } of record.txs) {
    const { messages } = tx.tx.body;
    const signer = bytesOfAddress(messages[0]?.supplier_operator_address ?? "");
    const proofs = BigInt(messages.filter((message) => message["@type"].endsWith("MsgSubmitProof")).length);
    const proofFees = proofs * BigInt(record.params_at_settlement.proof.proof_submission_fee.amount);
    const fee = BigInt(tx.tx.auth_info.fee.amount[0]?.amount ?? "0");
    addBalance(ctx, signer, fee + proofFees);
    addBalance(ctx, moduleAddressBytes("proof"), -proofFees);
  }
}

function addBalance(ctx: Context, address: AddressBytes, amount: bigint): void {
  setBalance(ctx, address, { denom: "upokt", amount: getBalance(ctx, address, "upokt") + amount });
}

function fillActors(ctx: Context, record: RecordedChain): void {
  const before = record.state_before_settlement;
  for (const { application: json, suppliers, header } of record.sessions) {
    const found = fromJson(application.ApplicationSchema, json);
    const stake = {
      $typeName: "cosmos.base.v1beta1.Coin" as const,
      denom: "upokt",
      amount: before.applications[json.address]?.amount ?? "0",
    };
    setApplication(ctx, planted({ ...found, stake }));
    for (const supplierJson of suppliers) {
      const operator = supplierJson.operator_address;
      const staked = fromJson(shared.SupplierSchema, supplierJson);
      const amount = before.suppliers[operator]?.amount ?? "0";
      setDehydratedSupplier(ctx, planted({ ...staked, stake: { ...stake, amount } }));
      const { service_id: serviceId } = header;
      const [config] = staked.services;
      assert.equal(config?.serviceId, serviceId);
      const update = createMessage(shared.ServiceConfigUpdateSchema, {
        operatorAddress: operator,
        ...(config === undefined ? {} : { service: config }),
        activationHeight: 1n,
      });
      serviceConfigs.set(ctx, [serviceId, [1n, operator]], planted(update));
      configsByOperator.set(ctx, [operator, [serviceId, 1n]], undefined);
    }
  }
  for (const { operator_address: operatorAddress, tokens, delegator_shares: shares } of before.validators) {
    const operator = decodeBech32(operatorAddress)?.bytes ?? new Uint8Array(0);
    validators.set(
      ctx,
      operator,
      createMessage(staking.ValidatorSchema, {
        operatorAddress,
        tokens,
        delegatorShares: shares.replace(".", ""),
        status: staking.BondStatus.BONDED,
        commission: { commissionRates: { rate: "100000000000000000" } },
      }),
    );
    lastPowers.set(ctx, operator, BigInt(tokens) / POWER_REDUCTION);
    const delegate = (delegatorAddress: string, amount: bigint): void =>
      delegations.set(
        ctx,
        [operator, bytesOfAddress(delegatorAddress)],
        planted(
          createMessage(staking.DelegationSchema, { delegatorAddress, shares: (amount * DECIMAL_ONE).toString() }),
        ),
      );
    delegate(VALIDATOR, OWN_TOKENS);
    if (BigInt(tokens) > OWN_TOKENS) delegate(DELEGATOR.address, DELEGATOR.tokens);
  }
}

function fillServices(ctx: Context, record: RecordedChain): void {
  for (const json of record.services) {
    const found = fromJson(shared.ServiceSchema, json);
    services.set(ctx, found.id, planted(found));
    const recorded = record.relay_mining_difficulty[found.id];
    const earlier = (recorded?.history.relayMiningDifficultyHistory ?? []).filter(
      ({ effective_height }) => BigInt(effective_height) < BigInt(record.settlement_height),
    );
    // A service that was never used has none; the chain answers with one that it makes up.
    if (recorded === undefined || earlier.length === 0) continue;
    const now = recorded.before_settlement.relayMiningDifficulty;
    difficulties.set(ctx, found.id, fromJson(service.RelayMiningDifficultySchema, now));
    for (const { effective_height, difficulty } of earlier) {
      const value = fromJson(service.RelayMiningDifficultySchema, difficulty);
      difficultyHistory.set(ctx, [found.id, BigInt(effective_height)], value);
    }
  }
}

/** A recorded chain as it was before the session's claims. */
export function stateBefore(record: RecordedChain): Overlay {
  const state = new Overlay(EMPTY);
  const ctx = contextAt(state, BigInt(record.session_end));
  fillParams(ctx, record);
  fillAccounts(ctx, record);
  fillActors(ctx, record);
  fillServices(ctx, record);
  for (const [height, hash] of Object.entries(record.block_hashes)) {
    blockHashes.set(ctx, BigInt(height), Buffer.from(hash, "hex"));
  }
  return state;
}

/** Runs one block of a recorded chain on its state. */
export function runRecordedBlock(
  machine: StateMachine,
  record: RecordedChain,
  state: Overlay,
  height: bigint,
  transactions: readonly Uint8Array[],
  time?: string,
): BlockOutcome {
  const hash = Buffer.from(record.block_hashes[height.toString()] ?? "", "hex");
  const outcome = machine.runBlock(state, blockAt(height, hash, time), transactions);
  for (const [key, value] of outcome.changes) {
    if (value === undefined) state.delete(key);
    else state.set(key, value);
  }
  return outcome;
}

/** Runs the blocks that hold the recorded transactions of the session, in order. */
export function runRecordedTxs(
  machine: StateMachine,
  record: RecordedChain,
  state: Overlay,
): { readonly height: string; readonly outcome: BlockOutcome; readonly txs: RecordedChain["txs"] }[] {
  const heights = [...new Set(record.txs.map(({ height }) => height))];
  return heights.map((height) => {
    const txs = record.txs.filter((tx) => tx.height === height);
    const bytes = txs.map((tx) => Buffer.from(tx.tx_bytes, "base64"));
    const outcome = runRecordedBlock(machine, record, state, BigInt(height), bytes, txs[0]?.tx.timestamp);
    return { height, outcome, txs };
  });
}
