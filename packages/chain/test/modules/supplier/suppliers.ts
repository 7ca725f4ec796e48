import assert from "node:assert/strict";
import { readFileSync } from "node:fs";
import type { DescMessage, MessageShape } from "@bufbuild/protobuf";
import { moduleAddress, moduleAddressBytes } from "@turnpike/crypto";
import {
  createMessage,
  decodeMessage,
  encodeMessage,
  fromApiJson,
  methodAt,
  shared,
  supplier,
  toApiJson,
} from "@turnpike/proto";
import { StateMachine } from "../../../src/app/state-machine.ts";
import { ensureModuleAccount } from "../../../src/modules/auth/accounts.ts";
import { authModule } from "../../../src/modules/auth/auth-module.ts";
import { getBalance } from "../../../src/modules/bank/balances.ts";
import { bankModule } from "../../../src/modules/bank/bank-module.ts";
import { services } from "../../../src/modules/service/state.ts";
import { sharedParams } from "../../../src/modules/shared/state.ts";
import { SUPPLIER_MODULE, suppliers } from "../../../src/modules/supplier/state.ts";
import { supplierModule } from "../../../src/modules/supplier/supplier-module.ts";
import type { BlockInfo, ChainEvent, Context } from "../../../src/state/context.ts";
import { GasMeter } from "../../../src/state/gas.ts";
import type { Outcome } from "../../../src/state/outcome.ts";
import { Overlay } from "../../../src/state/overlay.ts";
import { planted } from "../../planted.ts";

/** Folder of the recorded answers. */
export const RECORDED = new URL("../../../../../test/spec/recorded-chain/", import.meta.url);
/** Address that may change parameters. */
export const AUTHORITY = moduleAddress("gov");

/** Reads a recorded file. */
export function readRecorded(name: string): unknown {
  return JSON.parse(readFileSync(new URL(name, RECORDED), "utf8"));
}

/** Reads a message of the chain's JSON that is right. */
export function fromJson<Desc extends DescMessage>(schema: Desc, json: unknown): MessageShape<Desc> {
  const read = fromApiJson(schema, json);
  assert.ok(read.ok, read.ok ? "" : read.fault);
  return read.message;
}

const GENESIS = readRecorded("genesis.json") as { readonly app_state: Readonly<Record<string, unknown>> };

/** Accounts, coins and suppliers. */
export const machine: StateMachine = new StateMachine(
  { gasPrices: [{ denom: "upokt", numerator: 1n, denominator: 1_000_000n }] },
  [
    authModule({ moduleAccounts: { fee_collector: [], supplier: [] }, authority: AUTHORITY }),
    bankModule({ blocked: new Set(), authority: AUTHORITY }),
    supplierModule({ authority: AUTHORITY }),
  ],
);

const EMPTY = { get: () => undefined, range: () => [] };

/** A block at a height. */
export function blockAt(heightBlocks: bigint): BlockInfo {
  return {
    chainId: "pocket",
    heightBlocks,
    timeNanos: 1_795_272_000_000_000_000n,
    hash: new Uint8Array(32),
    proposer: new Uint8Array(20),
  };
}

// A genesis whose stakes nobody holds is refused.
function bankOf({ supplier: genesis }: Readonly<Record<string, unknown>>): Record<string, unknown> {
  const { supplierList = [] } = (genesis ?? {}) as { supplierList?: readonly { stake: { amount: string } }[] };
  const amount = supplierList.reduce((sum, { stake }) => sum + BigInt(stake.amount), 0n);
  const coins = [{ denom: "upokt", amount: amount.toString() }];
  return amount === 0n ? {} : { balances: [{ address: moduleAddress(SUPPLIER_MODULE), coins }] };
}

/** A state with the recorded parameters and services, which tests move on block by block. */
export class TestChain {
  readonly state = new Overlay(EMPTY);

  constructor(appState: Readonly<Record<string, unknown>> = {}) {
    const { changes } = machine.initGenesis(EMPTY, blockAt(0n), { bank: bankOf(appState), ...appState });
    for (const [key, value] of changes) if (value !== undefined) this.state.set(key, value);
    const ctx = this.at(0n);
    ensureModuleAccount(ctx, SUPPLIER_MODULE, []);
    const { params } = GENESIS.app_state["shared"] as { params: unknown };
    sharedParams.set(ctx, undefined, fromJson(shared.ParamsSchema, params));
    for (const id of ["anvil", "anvilws", "rest", "ollama", "heavy"]) {
      services.set(ctx, id, planted(createMessage(shared.ServiceSchema, { id, computeUnitsPerRelay: 1n })));
    }
  }

  /** A context that writes to the state at a height. */
  at(heightBlocks: bigint): Context {
    return { block: blockAt(heightBlocks), mode: "block", state: this.state, gas: new GasMeter(), events: [] };
  }

  /** Runs an empty block, and gives its events. */
  block(heightBlocks: bigint): readonly ChainEvent[] {
    const { changes, events } = machine.runBlock(this.state, blockAt(heightBlocks), []);
    for (const [key, value] of changes) {
      if (value === undefined) this.state.delete(key);
      else this.state.set(key, value);
    }
    return events;
  }

  /** Runs a message as a transaction does: checked first, and undone when it fails. */
  run<Desc extends DescMessage>(
    heightBlocks: bigint,
    schema: Desc,
    message: MessageShape<Desc>,
  ): Outcome<unknown> & { readonly events: readonly ChainEvent[] } {
    const handler = supplierModule({ authority: AUTHORITY }).messages?.[`/${schema.typeName}`];
    assert.ok(handler);
    const fault = handler.validate(message);
    if (fault !== undefined) return { ok: false, fault, events: [] };
    const scratch = new Overlay(this.state);
    const ctx = { ...this.at(heightBlocks), state: scratch, mode: "deliver" as const };
    const ran = handler.run(ctx, message);
    if (ran.ok) scratch.commitTo(this.state);
    return { ...ran, events: ran.ok ? ctx.events : [] };
  }

  /** Answers a query of suppliers with the chain's JSON. */
  ask(heightBlocks: bigint, method: string, json: unknown): unknown {
    const path = `/pocket.supplier.Query/${method}`;
    const found = methodAt(path);
    assert.ok(found);
    const request = encodeMessage(found.input, fromJson(found.input, json));
    const answer = machine.query(this.state, blockAt(heightBlocks), path, request);
    if (!answer.ok) return { code: answer.status, message: answer.text, details: [] };
    const decoded = decodeMessage(found.output, answer.value);
    assert.ok(decoded.ok);
    return toApiJson(found.output, decoded.message);
  }

  /** Asserts that the suppliers' account holds all stakes, and the fees that were paid. */
  assertStakes(fees: bigint): void {
    const ctx = this.at(0n);
    const staked = [...suppliers.entries(ctx)].reduce((sum, [, { stake }]) => sum + BigInt(stake?.amount ?? "0"), 0n);
    assert.equal(getBalance(ctx, moduleAddressBytes(SUPPLIER_MODULE), "upokt"), staked + fees);
  }
}

/** A right staking message of an operator for itself. */
export function stakeOf(
  operator: string,
  over: Partial<supplier.MsgStakeSupplier> = {},
  serviceIds: readonly string[] = ["anvil"],
): supplier.MsgStakeSupplier {
  const message = createMessage(supplier.MsgStakeSupplierSchema, {
    signer: operator,
    ownerAddress: operator,
    operatorAddress: operator,
    stake: { denom: "upokt", amount: "2000000" },
    services: serviceIds.map((serviceId) => ({
      serviceId,
      endpoints: [{ url: "http://127.0.0.1:8545", rpcType: shared.RPCType.JSON_RPC }],
      revShare: [{ address: operator, revSharePercentage: 100n }],
    })),
  });
  return { ...message, ...over };
}
