import { isRecord } from "@turnpike/base";
import { devRpc } from "@turnpike/localnet";
import type { Report } from "../lib/report.ts";
import { openOurs, openReference } from "./settle.ts";

/** Where {@link benchGas} runs. */
export interface GasPlace {
  readonly rpcUrl: string;
  readonly databaseUrl: string;
  /** Numbers of relayer keys that nothing else uses: one of ours, one of the reference. */
  readonly relayers: readonly [number, number];
}

const BATCH = 50;
/** Long enough for all of them, however busy the machine is. */
const WINDOW_MS = 2_000;

/** Gas of all these transactions together. */
async function gasUsed(rpcUrl: string, transactions: readonly string[]): Promise<number> {
  let sum = 0;
  for (const hash of transactions) {
    const receipt = await devRpc(rpcUrl, "eth_getTransactionReceipt", [hash]);
    if (isRecord(receipt)) sum += Number(receipt.gasUsed);
  }
  return sum;
}

/** Gas of one payment: fifty in one transaction, and one by itself. Fresh nonces; all accounts keep a balance. */
export async function benchGas({ rpcUrl, databaseUrl, relayers }: GasPlace): Promise<Report> {
  await using ours = await openOurs({
    rpcUrl,
    databaseUrl,
    relayers: [relayers[0]],
    relayer: { batchWindowMs: WINDOW_MS, maxBatch: BATCH },
  });
  await using reference = await openReference(rpcUrl, relayers[1], "tuned");
  const one = { count: 1, concurrency: 1, payers: 1 };
  // a key's first transaction costs no more than its others, but the receiver's first payment would
  const single = await ours.ask("run", one);
  const theirs = await reference.ask("run", one);
  const batch = await ours.ask("run", { count: BATCH, concurrency: BATCH, payers: BATCH });
  const lone = await gasUsed(rpcUrl, single.transactions);
  const batched = (await gasUsed(rpcUrl, batch.transactions)) / batch.settled;
  return {
    rows: [
      {
        name: "payment.gas",
        title: "gas of one settled payment, batched / single",
        ours: { value: batched, unit: "gas" },
        reference: { value: await gasUsed(rpcUrl, theirs.transactions), unit: "gas" },
        ratioOf: "ours / reference",
        aim: { op: "<=", value: 0.7 },
      },
    ],
    notes: [
      `gas: ${batch.settled} payments of as many payers in ${batch.transactions.length} transaction(s), beside the ` +
        `reference's transaction for one; a single payment of ours goes through the settlement contract, too, and used ${lone} gas`,
    ],
  };
}
