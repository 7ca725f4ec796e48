import assert from "node:assert/strict";
import { moduleAddress } from "@turnpike/crypto";
import { application, bank, gateway, staking, supplier } from "@turnpike/proto";
import type { Strangers } from "./strangers.ts";

/** All the money of a chain at a height. */
export interface Money {
  readonly supply: bigint;
  /** By address. */
  readonly balances: ReadonlyMap<string, bigint>;
}

/** What lies in modules beside stakes, at a height. */
export interface ModuleFees {
  readonly supplier: bigint;
  readonly service: bigint;
  readonly proof: bigint;
}

const EVERYTHING = { limit: 1_000n };

const sum = (amounts: Iterable<bigint>): bigint => {
  let total = 0n;
  for (const amount of amounts) total += amount;
  return total;
};

const staked = (all: readonly { readonly stake?: { readonly amount: string } | undefined }[]): bigint =>
  sum(all.map(({ stake }) => BigInt(stake?.amount ?? "0")));

/** Reads every balance at a height. */
export async function readMoney(strangers: Strangers, heightBlocks: bigint): Promise<Money> {
  const [supply, owners] = await Promise.all([
    strangers.ask(bank.Query.method.supplyOf, { denom: "upokt" }, heightBlocks),
    strangers.ask(bank.Query.method.denomOwners, { denom: "upokt", pagination: EVERYTHING }, heightBlocks),
  ]);
  return {
    supply: BigInt(supply.amount?.amount ?? "0"),
    balances: new Map(owners.denomOwners.map(({ address, balance }) => [address, BigInt(balance?.amount ?? "0")])),
  };
}

/** Asserts that the supply is all balances, and that modules hold the stakes and fees that they should. */
export async function assertMoney(strangers: Strangers, heightBlocks: bigint, fees: ModuleFees): Promise<void> {
  const [money, applications, gateways, suppliers, validators] = await Promise.all([
    readMoney(strangers, heightBlocks),
    strangers.ask(application.Query.method.allApplications, { pagination: EVERYTHING }, heightBlocks),
    strangers.ask(gateway.Query.method.allGateways, { pagination: EVERYTHING }, heightBlocks),
    strangers.ask(supplier.Query.method.allSuppliers, { pagination: EVERYTHING, dehydrated: true }, heightBlocks),
    strangers.ask(staking.Query.method.validators, {}, heightBlocks),
  ]);
  const of = (module: string): bigint => money.balances.get(moduleAddress(module)) ?? 0n;
  assert.equal(money.supply, sum(money.balances.values()), `supply at ${heightBlocks}`);
  const held = {
    application: of("application"),
    gateway: of("gateway"),
    supplier: of("supplier"),
    bonded: of("bonded_tokens_pool"),
    service: of("service"),
    proof: of("proof"),
    tokenomics: of("tokenomics"),
  };
  const expected = {
    application: staked(applications.applications),
    gateway: staked(gateways.gateways),
    supplier: staked(suppliers.supplier) + fees.supplier,
    bonded: sum(validators.validators.map(({ tokens }) => BigInt(tokens))),
    service: fees.service,
    proof: fees.proof,
    tokenomics: 0n,
  };
  assert.deepEqual(held, expected, `modules at ${heightBlocks}`);
}
