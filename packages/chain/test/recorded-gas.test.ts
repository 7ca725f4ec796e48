import assert from "node:assert/strict";
import { suite, test } from "node:test";
import { createMessage, session, shared } from "@turnpike/proto";
import { readRecordedTx } from "@turnpike/testkit/fixtures";
import { authParams, DEFAULT_AUTH_PARAMS } from "../src/modules/auth/accounts.ts";
import { computeUnitsHistory } from "../src/modules/service/state.ts";
import { sessionParamsHistory } from "../src/modules/session/state.ts";
import { serviceConfigs } from "../src/modules/supplier/state.ts";
import type { Overlay } from "../src/state/overlay.ts";
import { createParsed } from "../src/state/parsed.ts";
import { blockAt, contextAt, RECORDED_CHAINS, readChain, stateBefore } from "./modules/tokenomics/recorded.ts";
import { IN_SESSIONS, machine, runInSession, stateFor } from "./recorded-runs.ts";
import { IN_BLOCKS } from "./recorded-states.ts";
import { runRecorded } from "./recorded-tx.ts";

interface Row {
  readonly name: string;
  readonly ours: bigint;
  readonly recorded: bigint;
}

/** Supplier configurations for a service that had ended before the recorded sessions; the recording does not hold them. */
const ENDED_CONFIGS: Readonly<Record<string, number>> = { "e2e-1": 6 };

/** The state before a recorded session's claims, with what only gas shows of it. */
function sessionState(name: string): Overlay {
  const record = readChain(name);
  const state = stateBefore(record);
  const ctx = contextAt(state, BigInt(record.session_end));
  authParams.set(ctx, undefined, DEFAULT_AUTH_PARAMS);
  const limit = record.params_at_settlement.session.num_suppliers_per_session;
  if (limit !== "3") {
    // Changed since the genesis, so that there is a history; so have compute units of a service that came later.
    const params = createMessage(session.ParamsSchema, { numSuppliersPerSession: BigInt(String(limit)) });
    sessionParamsHistory.set(ctx, 1711n, params);
    computeUnitsHistory.set(ctx, ["heavy", 1611n], 200_000n);
  }
  const [first] = [...serviceConfigs.entries(ctx)];
  for (let i = 0; i < (ENDED_CONFIGS[name] ?? 0); i++) {
    assert.ok(first);
    const [[serviceId], update] = first;
    const operatorAddress = `${update.operatorAddress.slice(0, -1)}${i}`;
    const ended = { ...update, operatorAddress, activationHeight: 271n, deactivationHeight: 1101n };
    const config = createParsed(shared.ServiceConfigUpdateSchema, ended);
    serviceConfigs.set(ctx, [serviceId, [271n, operatorAddress]], config);
  }
  return state;
}

function sessionRows(name: string): Row[] {
  const state = sessionState(name);
  return readChain(name).txs.map(({ height, tx_bytes: text, tx }) => {
    const block = blockAt(BigInt(height), undefined, tx.timestamp);
    const { code, gasUsed } = machine.runTx(state, block, "deliver", Buffer.from(text, "base64"));
    assert.equal(code, 0);
    const kinds = tx.tx.body.messages.map((message) => message["@type"].split(".").at(-1));
    return { name: `${name} at ${height}: ${kinds.join(", ")}`, ours: gasUsed, recorded: BigInt(tx.gas_used) };
  });
}

const recordedGas = (name: string): bigint => BigInt(readRecordedTx(name).result?.tx_response.gas_used ?? "0");

const blockRows = (): Row[] =>
  Object.entries(IN_BLOCKS).map(([name, given]) => {
    const tx = readRecordedTx(name);
    const { gasUsed } = runRecorded(machine, stateFor(tx, given), tx, "deliver");
    return { name, ours: gasUsed, recorded: recordedGas(name) };
  });

const claimRows = (): Row[] =>
  Object.entries(IN_SESSIONS).map(([name, chain]) => {
    const { gasUsed } = runInSession(sessionState(chain), readRecordedTx(name), "deliver");
    return { name, ours: gasUsed, recorded: recordedGas(name) };
  });

const percentOff = ({ ours, recorded }: Row): number => (100 * (Number(ours) - Number(recorded))) / Number(recorded);

suite("gas of every recorded transaction", () => {
  const rows = [...blockRows(), ...claimRows(), ...RECORDED_CHAINS.flatMap(sessionRows)];
  for (const row of rows.toSorted((a, b) => percentOff(b) - percentOff(a))) {
    test(`${row.name}: ${row.ours} of ${row.recorded}`, (t) => {
      t.diagnostic(`${percentOff(row).toFixed(2)} %`);
      assert.ok(
        Math.abs(percentOff(row)) < 2,
        `${row.ours} instead of ${row.recorded}: ${percentOff(row).toFixed(2)} %`,
      );
    });
  }

  test("claims of a block cost the same, whichever comes first", () => {
    const claims = sessionRows("e2e-1").filter(({ name }) => name.endsWith(": MsgCreateClaim"));
    assert.ok(claims.length >= 2);
    // Recorded: 101,690 and 101,693. What differs is the length of a balance.
    for (const { ours, recorded } of claims)
      assert.equal(ours - (claims[0]?.ours ?? 0n), recorded - (claims[0]?.recorded ?? 0n));
  });
});
