import assert from "node:assert/strict";
import { spawn } from "node:child_process";
import { once } from "node:events";
import { mkdtempSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { after, before, suite, test } from "node:test";
import { isAppError } from "@turnpike/base";
import { type Client, createClient, openSpendJournal, type SpendJournal, signerFromKey } from "@turnpike/client";
import { setTokenBalance } from "@turnpike/localnet";
import { eventually } from "@turnpike/testkit";
import { generatePrivateKey, privateKeyToAddress } from "viem/accounts";
import { ledgerSums } from "../../apps/turnpike/src/wiring/ledger.ts";
import { PATIENT } from "../../apps/turnpike/test/patient.ts";
import { type Ground, startGround } from "../support/network.ts";
import { ethAt, openGateway, PRICE, STAND_IN_RESULT, type StandIn, startStandIn } from "./support.ts";

const CHILD = join(import.meta.dirname, "../../packages/client/test/journal-child.ts");
const REQUEST = { method: "eth_gasPrice" };

suite("the buyer's library, its budget and its journal, on a whole gateway", () => {
  let ground: Ground;
  const folder = mkdtempSync(join(tmpdir(), "turnpike-budget-"));
  let files = 0;
  before(async () => {
    ground = await startGround();
  });
  after(async () => {
    rmSync(folder, { recursive: true, force: true });
    await ground?.[Symbol.asyncDispose]();
  });

  /** A gateway, a buyer with money for four calls, and a journal. */
  async function setUp(upstream: string) {
    const gateway = await openGateway(ground, { sections: { suppliers: ethAt(upstream) } });
    const key = generatePrivateKey();
    await setTokenBalance(ground.anvil.url, { address: privateKeyToAddress(key), units: 4n * PRICE });
    const file = join(folder, `${files++}.jsonl`);
    const clientOf = (journal: SpendJournal, totalUsd: string): Client =>
      createClient({
        gateway: gateway.url,
        signer: signerFromKey(key),
        budget: { perCallUsd: "0.005", totalUsd },
        journal,
      });
    const balance = (): Promise<bigint> => ground.balance(privateKeyToAddress(key));
    return { gateway, key, file, clientOf, balance };
  }

  /** A buyer in a process of its own, which is killed at `point`, or while the gateway works on what it sent. */
  async function killedBuyer(made: Awaited<ReturnType<typeof setUp>>, point: string, standIn: StandIn): Promise<void> {
    const args = [CHILD, point, made.file, made.gateway.url, made.key, JSON.stringify(REQUEST)];
    const child = spawn(process.execPath, args, { stdio: "ignore" });
    const exit = once(child, "exit");
    if (point === "") void standIn.held.then(() => child.kill("SIGKILL"));
    assert.deepEqual(await exit, [null, "SIGKILL"]);
  }

  /** Resumes on the journal: the same payment, one transfer, one place in the budget. */
  async function assertBoughtOnce(made: Awaited<ReturnType<typeof setUp>>, release: () => void): Promise<void> {
    await using journal = await openSpendJournal({ file: made.file });
    const [open] = journal.open();
    assert.ok(open !== undefined, "the signed payment was forgotten");
    const client = made.clientOf(journal, "0.005");
    assert.equal(client.spending().openUsd, "0.005000");
    const calling = client.call("eth", REQUEST);
    release();
    const result = await calling;
    assert.ok(
      result.kind === "bought",
      JSON.stringify(result, (_, value: unknown) => String(value)),
    );
    assert.equal(result.payment, open.payment);
    assert.match(JSON.stringify(result.envelope), new RegExp(`"result":"${STAND_IN_RESULT}"`));
    assert.deepEqual(client.spending(), {
      chargedUsd: "0.005000",
      openUsd: "0.000000",
      remainingUsd: "0.000000",
      calls: 1,
    });
    await assert.rejects(client.call("eth", REQUEST), (error) => isAppError(error, "BUDGET_SPENT"));
    assert.equal(await made.balance(), 3n * PRICE, "it was moved once");
    await made.gateway.assertSettled(1);
  }

  test("calls at once: the chain moves what the budget has, and no unit more", async () => {
    const made = await setUp(ground.anvil.url);
    await using gateway = made.gateway;
    await using journal = await openSpendJournal({ file: made.file });
    const client = made.clientOf(journal, "0.0149");
    const quote = await client.quote("eth", REQUEST);
    assert.deepEqual([quote.price.amount, quote.withinCap], [PRICE, true]);
    const calls = Array.from({ length: 8 }, () => client.call("eth", REQUEST, { maxPriceUsd: quote.price.usd }));
    const ends = await Promise.allSettled(calls);
    assert.equal(ends.filter((end) => end.status === "fulfilled" && end.value.kind === "bought").length, 2);
    assert.equal(ends.filter((end) => end.status === "rejected" && isAppError(end.reason, "BUDGET_SPENT")).length, 6);
    assert.equal(await made.balance(), 2n * PRICE);
    await gateway.assertSettled(2);
    assert.equal(client.spending().chargedUsd, "0.010000");
    assert.ok((await client.services())?.some(({ id, serves }) => id === "eth" && serves));
  });

  test("killed after signing and before sending: the next process sends the same payment", async () => {
    await using standIn = await startStandIn();
    const made = await setUp(standIn.url);
    await using _ = made.gateway;
    await killedBuyer(made, "journal.signed", standIn);
    assert.equal(standIn.runs(), 0);
    await assertBoughtOnce(made, () => {});
    assert.equal(standIn.runs(), 1);
  });

  test("killed between sending and the answer, resumed while the gateway still works on it", async () => {
    await using standIn = await startStandIn(true);
    const made = await setUp(standIn.url);
    await using _ = made.gateway;
    await killedBuyer(made, "", standIn);
    await assertBoughtOnce(made, () => standIn.release());
  });

  test("killed between sending and the answer, resumed after it was settled for nobody", async () => {
    await using standIn = await startStandIn(true);
    const made = await setUp(standIn.url);
    await using gateway = made.gateway;
    await killedBuyer(made, "", standIn);
    standIn.release();
    const ended = async (): Promise<boolean> => {
      const [sums] = await ledgerSums(gateway.config, "gateway", PATIENT);
      return (sums?.states.settled.count ?? 0) + (sums?.states.released.count ?? 0) === 1;
    };
    await eventually("the gateway is done with the lost call", ended);
    await assertBoughtOnce(made, () => {});
  });
});
