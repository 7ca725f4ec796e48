import { hash } from "node:crypto";
import { AppError } from "@turnpike/base";
import { cosmosSign, cosmosVerify, privateKeyFromSecret, secp256k1Backend } from "@turnpike/crypto";
import { bank, createMessage, packAny } from "@turnpike/proto";
import type { BenchOptions } from "../lib/benchmark.ts";
import type { Report, Row } from "../lib/report.ts";
import { median } from "../lib/stats.ts";
import { beginChain, cpuOf, fullBlock, makeGround, scratchFolder, signed, submitAll } from "./ground.ts";

function row(name: string, title: string, ours: readonly number[], floor: readonly number[]): Row {
  const perSecond = (micros: readonly number[]): number => 1e6 / median(micros);
  return {
    name: `chain.${name}`,
    title,
    ours: { value: perSecond(ours), unit: "/s" },
    reference: { value: perSecond(floor), unit: "/s" },
    ratioOf: "ours / reference",
  };
}

/** Bank sends through mempool and blocks, over the native verification of as many signatures. */
export async function blocksReport({ quick, progress }: BenchOptions): Promise<Report> {
  const [count, rounds] = quick ? [300, 2] : [800, 3];
  const ground = makeGround({ accounts: count, suppliers: 15, applications: 1 });
  await using folder = await scratchFolder();
  await using node = await beginChain(ground, folder.path);
  await node.produceBlock();
  const send = (i: number, sequence: bigint): Uint8Array => {
    const [from, to] = [ground.accounts[i], ground.accounts[(i + 1) % count]];
    if (from === undefined || to === undefined) throw new AppError("INTERNAL", { detail: { account: i } });
    const message = createMessage(bank.MsgSendSchema, {
      fromAddress: from.signer.address,
      toAddress: to.signer.address,
      amount: [{ denom: "upokt", amount: "5" }],
    });
    return signed(packAny(bank.MsgSendSchema, message), from, sequence);
  };
  // Documents as long as those of the sends.
  const key = privateKeyFromSecret(Buffer.from("bench"));
  const alone = Array.from({ length: count }, (_, i) => {
    const message = hash("shake256", `bench ${i}`, { outputEncoding: "buffer", outputLength: 300 });
    const publicKey = ground.accounts[i]?.signer.publicKey ?? key;
    return { message, signature: ground.accounts[i]?.signer.sign(message) ?? cosmosSign(message, key), publicKey };
  });
  const figures = { submit: [] as number[], block: [] as number[], whole: [] as number[], floor: [] as number[] };
  // The first round warms up.
  for (let round = 0; round <= rounds; round++) {
    progress(`blocks: ${round === 0 ? "warming up" : `round ${round} of ${rounds}`}`);
    const txs = Array.from({ length: count }, (_, i) => send(i, BigInt(round)));
    const submit = (await cpuOf(() => submitAll(node, txs))) / count;
    const block = (await cpuOf(() => fullBlock(node, count))) / count;
    const floor =
      (await cpuOf(() => {
        for (const { message, signature, publicKey } of alone) {
          if (cosmosVerify(message, signature, publicKey)) continue;
          throw new AppError("INTERNAL", { message: "A signature does not hold." });
        }
      })) / count;
    if (round === 0) continue;
    figures.submit.push(submit);
    figures.block.push(block);
    figures.whole.push(submit + block);
    figures.floor.push(floor);
  }
  return {
    rows: [
      row("txs-check", "sends checked for the mempool, a second of one core", figures.submit, figures.floor),
      row("txs-block", `sends in a block of ${count.toLocaleString("en-US")}, the same`, figures.block, figures.floor),
      row("txs", "… mempool and block together", figures.whole, figures.floor),
    ],
    notes: [
      `The reference of the rows of sends is the ${secp256k1Backend} verification of as many signatures, and nothing else: no chain can be faster.`,
    ],
  };
}
