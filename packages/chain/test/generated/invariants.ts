import assert from "node:assert/strict";
import { moduleAddressBytes } from "@turnpike/crypto";
import { cometAbci, createMessage, encodeMessage } from "@turnpike/proto";
import type { BlockOutcome } from "../../src/app/state-machine.ts";
import { applications } from "../../src/modules/application/state.ts";
import { balances, getBalance, supplies } from "../../src/modules/bank/balances.ts";
import { gateways } from "../../src/modules/gateway/state.ts";
import { BONDED_POOL, getStakingParams, NOT_BONDED_POOL, validators } from "../../src/modules/staking/state.ts";
import { suppliers } from "../../src/modules/supplier/state.ts";
import { failedParts } from "../../src/state/block-parts.ts";
import type { ChainEvent, Context } from "../../src/state/context.ts";

type Staker = readonly [unknown, { readonly stake?: { readonly denom: string; readonly amount: string } | undefined }];

function stakesOf(stakers: Iterable<Staker>): bigint {
  let sum = 0n;
  for (const [, { stake }] of stakers) {
    assert.equal(stake?.denom, "upokt");
    const amount = BigInt(stake?.amount ?? "");
    assert.ok(amount >= 0n, `a stake of ${amount}`);
    sum += amount;
  }
  return sum;
}

/** Asserts that every denomination's supply is the sum of its balances, and that modules hold what their records say. */
export function assertState(ctx: Context): void {
  const sums = new Map<string, bigint>();
  for (const [[, denom], amount] of balances.entries(ctx)) {
    assert.ok(amount > 0n, `a balance of ${amount}${denom}`);
    sums.set(denom, (sums.get(denom) ?? 0n) + amount);
  }
  const supply = new Map(supplies.entries(ctx));
  for (const denom of new Set([...sums.keys(), ...supply.keys()])) {
    assert.equal(sums.get(denom) ?? 0n, supply.get(denom) ?? 0n, `supply of ${denom}`);
  }
  const assertCovered = (module: string, records: bigint, denom = "upokt"): void => {
    const balance = getBalance(ctx, moduleAddressBytes(module), denom);
    assert.ok(balance >= records, `${module} holds ${balance}${denom}, its records say ${records}`);
  };
  assertCovered("application", stakesOf(applications.entries(ctx)));
  assertCovered("gateway", stakesOf(gateways.entries(ctx)));
  assertCovered("supplier", stakesOf(suppliers.entries(ctx)));
  let [bonded, notBonded] = [0n, 0n];
  for (const [, { tokens, status }] of validators.entries(ctx)) {
    if (status === 3) bonded += BigInt(tokens);
    else notBonded += BigInt(tokens);
  }
  const { bondDenom } = getStakingParams(ctx);
  assertCovered(BONDED_POOL, bonded, bondDenom);
  assertCovered(NOT_BONDED_POOL, notBonded, bondDenom);
}

/** Maximum length of a log in a result; a result is kept by every node. */
const MAX_LOG_BYTES = 2_048;

function assertEvents(events: readonly ChainEvent[]): void {
  for (const { type, attributes } of events) {
    assert.ok(type.isWellFormed(), `type of an event: ${JSON.stringify(type)}`);
    for (const { key, value } of attributes) {
      assert.ok(key.isWellFormed() && value.isWellFormed(), `${type}.${key}: ${JSON.stringify(value)}`);
    }
  }
}

const eventMessages = (events: readonly ChainEvent[]) =>
  events.map(({ type, attributes }) => ({ type, attributes: [...attributes] }));

/**
 * Asserts that no part of a block failed, and what an engine needs of its results: texts that are UTF-8, bounded logs, and
 * numbers that its encoding holds.
 */
export function assertResults({ results, events }: BlockOutcome): void {
  assertEvents(events);
  // A part that fails is left out and told by an event: to a chain it is an incident, to a test a failure.
  assert.deepEqual(failedParts(events), []);
  for (const result of results) {
    assertEvents(result.events);
    assert.ok(result.log.isWellFormed(), `a log that is not UTF-8: ${JSON.stringify(result.log.slice(0, 200))}`);
    const bytes = Buffer.byteLength(result.log);
    assert.ok(bytes <= MAX_LOG_BYTES, `a log of ${bytes} bytes: ${result.log.slice(0, 200)}`);
    // Throws where a number leaves its type: neither engine could answer with such a block.
    const message = createMessage(cometAbci.ExecTxResultSchema, { ...result, events: eventMessages(result.events) });
    encodeMessage(cometAbci.ExecTxResultSchema, message);
  }
}
