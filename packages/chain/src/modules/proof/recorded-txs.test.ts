import assert from "node:assert/strict";
import { suite, test } from "node:test";
import { moduleAddress } from "@turnpike/crypto";
import { proof } from "@turnpike/proto";
import { type RecordedTx, readRecordedTx } from "@turnpike/testkit/fixtures";
import { grantsOfType } from "../../../test/modules/authz/grants.ts";
import {
  blockAt,
  contextAt,
  fromJson,
  readChain,
  settlementMachine,
  stateBefore,
} from "../../../test/modules/tokenomics/recorded.ts";
import { planted } from "../../../test/planted.ts";
import { assertAsRecorded, assertRefusedAsRecorded, bytesOfAddress, fund } from "../../../test/recorded-tx.ts";
import type { Context } from "../../state/context.ts";
import type { TxResult } from "../../state/outcome.ts";
import type { Overlay } from "../../state/overlay.ts";
import { getAccount, setAccount } from "../auth/accounts.ts";
import { blockHashes } from "../session/state.ts";
import { getTokenomicsParams } from "../tokenomics/state.ts";
import { createClaim } from "./create-claim.ts";
import { getProofParams } from "./state.ts";
import { submitProof } from "./submit-proof.ts";

const machine = settlementMachine();
const PNF = "pokt1dewupvyw40trspaeqwnc5mc0df7ntdzw0vfxd6";

/** The state of a recorded session, with the signer's sequence as a transaction has it. */
function stateFor(chain: string, tx: RecordedTx, state: Overlay = stateBefore(readChain(chain))): Overlay {
  const ctx = contextAt(state, BigInt(tx.result?.tx_response.height ?? "1656"));
  const signer = bytesOfAddress(tx.signer.address);
  const account = getAccount(ctx, signer);
  assert.ok(account);
  setAccount(ctx, signer, { base: { ...account.base, sequence: BigInt(tx.sequence) } });
  return state;
}

function run(state: Overlay, tx: RecordedTx, mode: "check" | "deliver" = "deliver"): TxResult {
  const response = tx.result?.tx_response;
  const block = blockAt(BigInt(response?.height ?? "1656"), undefined, response?.timestamp ?? "2026-11-21T14:39:23Z");
  return machine.runTx(state, block, mode, Buffer.from(tx.tx_bytes, "base64"));
}

const contextOf = (state: Overlay, tx: RecordedTx): Context =>
  contextAt(state, BigInt(tx.result?.tx_response.height ?? "1656"));

suite("recorded claims and proofs", () => {
  for (const [name, chain] of [
    ["claim-fabricated-over-1", "e2e-4"],
    ["claim-fabricated-no-proof", "e2e-5"],
    ["fail-claim-cu-mismatch", "e2e-4"],
    ["fail-claim-too-late", "e2e-4"],
    ["fail-proof-not-required", "e2e-4"],
  ] as const) {
    test(name, () => {
      const tx = readRecordedTx(name);
      assertAsRecorded(run(stateFor(chain, tx), tx), tx);
    });
  }

  test("claim-fabricated-over-1-update takes the place of the claim before it", () => {
    const first = readRecordedTx("claim-fabricated-over-1");
    const state = stateFor("e2e-4", first);
    assertAsRecorded(run(state, first), first);
    const second = readRecordedTx("claim-fabricated-over-1-update");
    assertAsRecorded(run(stateFor("e2e-4", second, state), second), second);
  });

  for (const name of ["fail-claim-empty-root", "fail-proof-empty"]) {
    test(`${name} is refused before it costs anything`, () => {
      const tx = readRecordedTx(name);
      assertRefusedAsRecorded(run(stateFor("e2e-1", tx), tx, "check"), tx);
    });
  }

  // The recording holds no hashes of these sessions' first blocks, which their ids are made of.
  for (const [name, start] of [
    ["fail-claim-session-id", 1661n],
    ["fail-claim-wrong-heights", 1561n],
  ] as const) {
    test(`${name}, the expected id aside`, () => {
      const tx = readRecordedTx(name);
      const state = stateFor("e2e-1", tx);
      blockHashes.set(contextOf(state, tx), start, new Uint8Array(32).fill(7));
      const result = run(state, tx);
      const response = tx.result?.tx_response;
      const withoutId = (text: string) => text.replace(/expected "[0-9a-f]{64}"/, "");
      assert.deepEqual([result.code, result.codespace], [response?.code, response?.codespace]);
      assert.equal(withoutId(result.log), withoutId(response?.raw_log ?? ""));
      assert.deepEqual(result.events, response?.events);
    });
  }

  test("fail-proof-no-claim: too early, with the id that our own hashes give", () => {
    const tx = readRecordedTx("fail-proof-no-claim");
    const state = stateFor("e2e-1", tx);
    const ctx = contextOf(state, tx);
    blockHashes.set(ctx, 1661n, new Uint8Array(32).fill(7));
    const json = JSON.parse(JSON.stringify(tx.tx_json)) as { body: { messages: Record<string, unknown>[] } };
    const { "@type": _, ...body } = json.body.messages[0] ?? {};
    const message = fromJson(proof.MsgSubmitProofSchema, body);
    const refused = createClaim(ctx, {
      ...message,
      $typeName: "pocket.proof.MsgCreateClaim",
      rootHash: Uint8Array.from({ length: 48 }, () => 1),
    });
    const sessionId = /expected "([0-9a-f]{64})"/.exec(refused.ok ? "" : refused.fault.text)?.[1] ?? "";
    const header = message.sessionHeader;
    assert.ok(header);
    const result = submitProof(ctx, planted({ ...message, sessionHeader: { ...header, sessionId } }));
    const text = result.ok ? "" : `failed to execute message; message index: 0: ${result.fault.text}`;
    assert.equal(text, tx.result?.tx_response.raw_log);
  });
});

suite("recorded changes of parameters", () => {
  const changed = (name: string, granted = true): Context => {
    const tx = readRecordedTx(name);
    const state = stateFor("e2e-1", tx);
    const ctx = contextOf(state, tx);
    fund(ctx, tx.signer.address, 1_000_000n);
    if (granted) grantsOfType(ctx, moduleAddress("gov"), PNF);
    assertAsRecorded(run(state, tx), tx);
    return ctx;
  };

  test("params-proof-probability-0", () => {
    const params = getProofParams(changed("params-proof-probability-0"));
    assert.equal(params.proofRequestProbability, 0);
    assert.equal(params.proofRequirementThreshold?.amount, "1000000000000000");
  });
  test("params-proof-probability-1", () => {
    const params = getProofParams(changed("params-proof-probability-1"));
    assert.equal(params.proofRequestProbability, 1);
    assert.equal(params.proofRequirementThreshold?.amount, "20000000");
  });
  test("params-proof-request-probability", () => {
    assert.equal(getProofParams(changed("params-proof-request-probability")).proofRequestProbability, 1);
  });
  test("params-tokenomics-inflation", () => {
    assert.equal(getTokenomicsParams(changed("params-tokenomics-inflation")).globalInflationPerClaim, 0.05);
  });
  test("params-tokenomics-mint-ratio", () => {
    assert.equal(getTokenomicsParams(changed("params-tokenomics-mint-ratio")).mintRatio, 0.975);
  });
  test("fail-params-unknown-name", () => {
    changed("fail-params-unknown-name");
  });
  test("fail-params-no-grant", () => {
    changed("fail-params-no-grant", false);
  });
});
