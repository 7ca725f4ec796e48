import assert from "node:assert/strict";
import { createHash } from "node:crypto";
import { after, before, suite, test } from "node:test";
import { createDocumentDigest, type DocumentDigestServer, devRpc, USDC_ADDRESS } from "@turnpike/localnet";
import type { TransactionReceipt } from "@turnpike/testkit/servers";
import { wrapAxiosWithPayment } from "@x402/axios";
import { ExactEvmScheme } from "@x402/evm/exact/client";
import { wrapFetchWithPayment, x402Client } from "@x402/fetch";
import axios from "axios";
import { parseEventLogs } from "viem";
import { type Ground, startGround } from "../support/network.ts";
import { decodeHeader, type Payer } from "../support/payer.ts";
import { ethAt, type OpenGateway, openGateway, PRICE } from "./support.ts";

const TRANSFER = [
  {
    type: "event",
    name: "Transfer",
    inputs: [
      { name: "from", type: "address", indexed: true },
      { name: "to", type: "address", indexed: true },
      { name: "value", type: "uint256", indexed: false },
    ],
  },
] as const;

interface SettleResponse {
  readonly success: boolean;
  readonly transaction: string;
  readonly network: string;
  readonly payer: string;
}

suite("unmodified clients of x402 buy", () => {
  let ground: Ground;
  let digest: DocumentDigestServer;
  let gateway: OpenGateway;

  before(async () => {
    [ground, digest] = await Promise.all([startGround(), createDocumentDigest()]);
    gateway = await openGateway(ground, {
      sections: {
        suppliers: {
          ...ethAt(ground.anvil.url),
          "document-digest": { endpoints: [{ operator: "local", urls: { rest: digest.url } }] },
        },
      },
    });
  });
  after(async () => {
    await gateway?.[Symbol.asyncDispose]();
    await digest?.[Symbol.asyncDispose]();
    await ground?.[Symbol.asyncDispose]();
  });

  // Their own spend controls stay on: a token that they do not know, or a dear price, would be refused by them.
  const clientOf = ({ account }: Payer): x402Client =>
    new x402Client().register("eip155:*", new ExactEvmScheme(account));

  const blockNumber = async (): Promise<number> => Number(await devRpc(ground.anvil.url, "eth_blockNumber", []));

  /** The transaction that a receipt names moved exactly the price, from the payer to the receiver, and nothing else. */
  const assertMoved = async (receipt: SettleResponse, payer: Payer): Promise<void> => {
    assert.equal(receipt.success, true);
    assert.equal(receipt.network, "eip155:84532");
    assert.equal(receipt.payer.toLowerCase(), payer.address.toLowerCase());
    const found = (await devRpc(ground.anvil.url, "eth_getTransactionReceipt", [
      receipt.transaction,
    ])) as TransactionReceipt;
    assert.equal(found.status, "0x1");
    const moved = parseEventLogs({ abi: TRANSFER, logs: found.logs as never });
    assert.deepEqual(
      moved.map(({ address, args }) => [address, args.from, args.to, args.value].join(" ").toLowerCase()),
      [[USDC_ADDRESS, payer.address, gateway.payTo, PRICE].join(" ").toLowerCase()],
    );
  };

  test("@x402/fetch, default spend controls: a live block number, 5,000 units", async () => {
    const payer = await ground.fundedPayer(20_000n);
    const before = await ground.balance(gateway.payTo);
    const least = await blockNumber();
    const pay = wrapFetchWithPayment(fetch, clientOf(payer));
    const answer = await pay(gateway.route("eth"), {
      method: "POST",
      headers: { "content-type": "application/json" },
      body: JSON.stringify({ method: "eth_blockNumber" }),
    });
    const envelope = (await answer.json()) as { portal: unknown; data: { result: string } };
    assert.equal(answer.status, 200, JSON.stringify(envelope));
    assert.deepEqual(envelope.portal, {
      provenance: "third-party-supplier",
      serviceId: "eth",
      schemaCheck: "passed",
    });
    const number = Number(envelope.data.result);
    assert.ok(number >= least && number <= (await blockNumber()), `${number} is no block of now`);
    await assertMoved(decodeHeader(answer.headers.get("payment-response") ?? ""), payer);
    assert.equal(await ground.balance(payer.address), 15_000n);
    assert.equal((await ground.balance(gateway.payTo)) - before, PRICE);
  });

  test("@x402/axios, default spend controls: the same", async () => {
    const payer = await ground.fundedPayer(20_000n);
    const least = await blockNumber();
    // The types are those of another copy of @x402/core, which this package brings with it.
    const client = clientOf(payer) as unknown as Parameters<typeof wrapAxiosWithPayment>[1];
    const pay = wrapAxiosWithPayment(axios.create(), client);
    const answer = await pay.post(gateway.route("eth"), { method: "eth_blockNumber" });
    assert.equal(answer.status, 200);
    const number = Number(answer.data.data.result);
    assert.ok(number >= least && number <= (await blockNumber()), `${number} is no block of now`);
    await assertMoved(decodeHeader(String(answer.headers["payment-response"])), payer);
    assert.equal(await ground.balance(payer.address), 15_000n);
  });

  test("a document's digest is bought: checked against its schema, and right", async () => {
    const payer = await ground.fundedPayer(20_000n);
    const pay = wrapFetchWithPayment(fetch, clientOf(payer));
    const text = "Zoll für die Brücke\nzweite Zeile 🌉\n";
    const answer = await pay(gateway.route("document-digest"), {
      method: "POST",
      headers: { "content-type": "application/json" },
      body: JSON.stringify({ text, algorithms: ["sha256", "blake2b512"] }),
    });
    const { portal, data } = (await answer.json()) as { portal: Record<string, unknown>; data: unknown };
    assert.equal(answer.status, 200);
    assert.equal(portal.schemaCheck, "passed");
    assert.equal(portal.serviceId, "document-digest");
    const hash = (name: string): string => createHash(name).update(text).digest("hex");
    assert.deepEqual(data, {
      bytes: Buffer.byteLength(text),
      characters: Array.from(text).length,
      words: 7,
      lines: 2,
      digests: { sha256: hash("sha256"), blake2b512: hash("blake2b512") },
    });
    await assertMoved(decodeHeader(answer.headers.get("payment-response") ?? ""), payer);
  });

  test("the ledger holds the three purchases, and nothing else", () => gateway.assertSettled(3));
});
