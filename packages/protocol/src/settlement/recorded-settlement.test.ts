import assert from "node:assert/strict";
import { suite, test } from "node:test";
import { moduleAddress } from "@turnpike/crypto";
import {
  base64,
  RECORDED,
  type RecordedEvent,
  readRecorded,
  readSpec,
  settlementInput,
  sharedParams,
} from "../../test/records.ts";
import { updateDifficulty } from "../difficulty.ts";
import { nextSessionStartHeight } from "../sessions/grid.ts";
import { OP_REASON } from "./reasons.ts";
import { settle } from "./settle.ts";
import type { SettlementStep } from "./settlement.ts";
import type { Operation } from "./types.ts";

const REASON_NAMES = new Map<number, string>(Object.entries(OP_REASON).map(([name, number]) => [number, name]));
const EXPIRATION = ["EXPIRATION_REASON_UNSPECIFIED", "PROOF_MISSING", "PROOF_INVALID"];

const reasonName = (reason: unknown): string => JSON.stringify(REASON_NAMES.get(Number(reason)));

/** A field as the chain prints it into an event's attribute: JSON, 64-bit numbers in quotes, enums by name. */
function attribute(key: string, value: unknown): string {
  if (key === "opReason") return reasonName(value);
  if (key === "expirationReason") return JSON.stringify(EXPIRATION[Number(value)]);
  if (typeof value === "bigint") return `"${value}"`;
  if (key !== "rewardDistributionDetailed") return JSON.stringify(value);
  const details = value as readonly { recipientAddress: string; opReason: number; amount: string }[];
  const texts = details.map(
    (detail) =>
      `{"recipient_address":"${detail.recipientAddress}","op_reason":${reasonName(detail.opReason)},"amount":"${detail.amount}"}`,
  );
  return `[${texts.join(",")}]`;
}

const snake = (name: string) => name.replaceAll(/[A-Z]/g, (letter) => `_${letter.toLowerCase()}`);

function eventLine(event: { readonly type: string; readonly value: object }): string {
  const pairs = Object.entries(event.value).map(([key, value]) => [snake(key), attribute(key, value)] as const);
  return `${event.type} ${JSON.stringify(pairs.sort(([a], [b]) => (a < b ? -1 : 1)))}`;
}

function recordedLine(event: RecordedEvent): string | undefined {
  const values = new Map(event.attributes.map(({ key, value }) => [key, value]));
  if (values.get("mode") !== "EndBlock") return undefined;
  const amount = values.get("amount");
  if (event.type === "coinbase") return `mint ${values.get("minter")} ${amount}`;
  if (event.type === "burn") return `burn ${values.get("burner")} ${amount}`;
  if (event.type === "transfer") return `send ${values.get("sender")} ${values.get("recipient")} ${amount}`;
  if (!event.type.startsWith("pocket.")) return undefined;
  values.delete("mode");
  return `${event.type} ${JSON.stringify([...values])}`;
}

function operationLine(operation: Operation): string {
  const amount = `${operation.amountUpokt}upokt`;
  if (operation.kind === "mint" || operation.kind === "burn") {
    return `${operation.kind} ${moduleAddress(operation.module)} ${amount}`;
  }
  const recipient = operation.kind === "mod_to_mod" ? moduleAddress(operation.recipient) : operation.recipient;
  return `send ${moduleAddress(operation.sender)} ${recipient} ${amount}`;
}

const stepLine = (step: SettlementStep) =>
  step.kind === "event" ? eventLine(step.event) : operationLine(step.operation);

/** Differences of accounts, stakes and supply, under the names that the records give them. Zero ones are left out. */
function differences(input: ReturnType<typeof settlementInput>, settlement: ReturnType<typeof settle>) {
  const sums = new Map<string, bigint>();
  const add = (key: string, amount: bigint) => sums.set(key, (sums.get(key) ?? 0n) + amount);
  const names = new Map(Object.entries(readSpec<Record<string, string>>("addresses.json")).map(([n, a]) => [a, n]));
  for (const operation of settlement.operations) {
    const { kind, amountUpokt } = operation;
    if (kind === "mint" || kind === "burn") {
      const signed = kind === "mint" ? amountUpokt : -amountUpokt;
      add(`modules/${operation.module}/upokt`, signed);
      add("supply/upokt", signed);
      continue;
    }
    add(`modules/${operation.sender}/upokt`, -amountUpokt);
    if (kind === "mod_to_mod") add(`modules/${operation.recipient}/upokt`, amountUpokt);
    else add(`balances/${names.get(operation.recipient)}/upokt`, amountUpokt);
  }
  for (const { address, stakeUpokt } of settlement.changes.applications) {
    add(`applications/${address}/stake`, stakeUpokt - (input.applications.get(address)?.stakeUpokt ?? 0n));
  }
  for (const { operatorAddress, stakeUpokt } of settlement.changes.suppliers) {
    add(`suppliers/${operatorAddress}/stake`, stakeUpokt - (input.suppliers.get(operatorAddress)?.stakeUpokt ?? 0n));
  }
  return Object.fromEntries(
    [...sums].filter(([, amount]) => amount !== 0n).map(([key, amount]) => [key, Number(amount)]),
  );
}

suite("recorded settlements", () => {
  for (const name of RECORDED) {
    test(`${name}: every event, every movement of money and their order`, () => {
      const record = readRecorded(name);
      const input = settlementInput(record);
      const settlement = settle(input);
      const difficulty = settlement.settledRelays.map(({ serviceId, numRelays }) => {
        const recorded = record.relay_mining_difficulty[serviceId];
        const before = recorded?.before_settlement.relayMiningDifficulty;
        const earlier = recorded?.history.relayMiningDifficultyHistory.filter(
          ({ effective_height }) => BigInt(effective_height) < input.height,
        );
        const shared = sharedParams(record.params_at_settlement);
        const known = before !== undefined && earlier !== undefined && earlier.length > 0;
        const change = updateDifficulty({
          serviceId,
          numRelays,
          previous: known
            ? {
                serviceId,
                blockHeight: BigInt(before.block_height),
                numRelaysEma: BigInt(before.num_relays_ema),
                targetHash: base64(before.target_hash),
              }
            : undefined,
          hasHistory: known,
          targetNumRelays: BigInt(record.params_at_settlement.service.target_num_relays),
          currentHeight: input.height,
          nextSessionStartHeight: nextSessionStartHeight(shared, input.height),
        });
        const after = recorded?.after_settlement.relayMiningDifficulty;
        assert.deepEqual(
          [change.current.blockHeight, change.current.numRelaysEma, Buffer.from(change.current.targetHash)],
          [
            BigInt(after?.block_height ?? 0),
            BigInt(after?.num_relays_ema ?? 0),
            Buffer.from(after?.target_hash ?? "", "base64"),
          ],
        );
        for (const entry of change.history) {
          const twin = recorded?.history.relayMiningDifficultyHistory.find(
            ({ effective_height }) => BigInt(effective_height) === entry.effectiveHeight,
          );
          assert.equal(BigInt(twin?.difficulty.num_relays_ema ?? 0), entry.difficulty.numRelaysEma);
          assert.equal(BigInt(twin?.difficulty.block_height ?? 0), entry.difficulty.blockHeight);
        }
        return eventLine(change.event);
      });
      const recorded = record.settlement_block_results.finalize_block_events.flatMap(
        (event) => recordedLine(event) ?? [],
      );
      assert.ok(recorded.length > 5);
      assert.deepEqual([...settlement.steps.map(stepLine), ...difficulty], recorded);
    });

    test(`${name}: balances, stakes and supply to the last unit`, () => {
      const record = readRecorded(name);
      const input = settlementInput(record);
      const watched = Object.keys(record.state_before_settlement.balances);
      const seen = Object.entries(differences(input, settle(input))).filter(([key]) => {
        const [group, owner = ""] = key.split("/");
        return group !== "balances" || watched.includes(owner);
      });
      assert.deepEqual(Object.fromEntries(seen), record.difference_made_by_settlement);
    });

    test(`${name}: the input is left as it was, and every claim is gone`, () => {
      const input = settlementInput(readRecorded(name));
      const before = structuredClone(input);
      const settlement = settle(input);
      assert.deepEqual(input, before);
      assert.equal(settlement.changes.removedClaims.length, input.claims.length);
      assert.deepEqual(
        [settlement.numSettled, settlement.numExpired, settlement.numDiscarded],
        name === "e2e-5" ? [0, 2, 0] : [input.claims.length, 0, 0],
      );
    });
  }
});
