import assert from "node:assert/strict";
import { after, before, suite, test } from "node:test";
import { deployTestToken, devRpc, fundGas, lyingToken, testUsd, USDC_ADDRESS } from "@turnpike/localnet";
import { createPublicClient, createWalletClient, encodeFunctionData, http } from "viem";
import { baseSepolia } from "viem/chains";
import { ledgerBooks } from "../../apps/turnpike/src/wiring/ledger.ts";
import { type Ground, startGround } from "../support/network.ts";
import {
  type Answer,
  call,
  decodeHeader,
  newPayer,
  type Payer,
  signPayment,
  type Terms,
  termsOf,
} from "../support/payer.ts";
import {
  ethAt,
  type OpenGateway,
  openGateway,
  PRICE,
  STAND_IN_RESULT,
  type StandIn,
  sendMined,
  startStandIn,
} from "./support.ts";

const BODY = { method: "eth_gasPrice", params: [] };
const LYING_TOKEN = "0x3333333333333333333333333333333333333333";

interface Payload {
  readonly payload: {
    readonly signature: `0x${string}`;
    readonly authorization: {
      readonly from: `0x${string}`;
      readonly to: `0x${string}`;
      readonly value: string;
      readonly validAfter: string;
      readonly validBefore: string;
      readonly nonce: `0x${string}`;
    };
  };
}

suite("payers that cheat between verification and settlement", { timeout: 90_000 }, () => {
  let ground: Ground;

  before(async () => {
    ground = await startGround();
  });
  after(() => ground?.[Symbol.asyncDispose]());

  /** A sale whose answer the node holds back until `between` has been done on the chain. */
  const sellAround = async (
    payer: Payer,
    between: (header: string) => Promise<void>,
    check: (sale: { gateway: OpenGateway; node: StandIn; header: string; answer: Answer }) => Promise<void>,
  ): Promise<void> => {
    await using node = await startStandIn(true);
    await using gateway = await openGateway(ground, { sections: { suppliers: ethAt(node.url) } });
    const url = gateway.route("eth");
    const header = await signPayment(payer, await termsOf(url));
    const sale = call(url, BODY, header);
    await node.held;
    await between(header);
    node.release();
    await check({ gateway, node, header, answer: await sale });
  };

  const nothingSold = (answer: Answer, code: string): void => {
    assert.equal(answer.status, 402, answer.text);
    assert.equal(answer.receipt?.success, false);
    assert.equal(answer.json.data, undefined);
    assert.ok(!answer.text.includes(STAND_IN_RESULT));
    assert.equal(String(answer.json.error).split(":")[0], code);
    assert.equal(answer.headers.get("cache-control"), "no-store");
  };

  /** The answer of a sale that is not paid: it waits while somebody could still put the authorization through. */
  const untilWindowCloses = async (
    own: Ground,
    gateway: OpenGateway,
    terms: Terms,
    sale: Promise<Answer>,
  ): Promise<Answer> => {
    const signed = async (): Promise<number> =>
      (await ledgerBooks(gateway.config, "gateway")).reduce((sum, { states }) => sum + states.signed.count, 0);
    for (const end = Date.now() + 30_000; (await signed()) === 0; ) assert.ok(Date.now() < end);
    const first = await Promise.race([sale, new Promise((resolve) => setTimeout(resolve, 1_000, "waits"))]);
    assert.equal(first, "waits");
    assert.equal(await signed(), 1);
    const seconds = terms.accepts[0]?.maxTimeoutSeconds ?? 0;
    await devRpc(own.anvil.url, "anvil_mine", ["0x2", `0x${seconds.toString(16)}`]);
    return sale;
  };

  test("a payer that cancels the authorization gets 402 and no answer, and is not charged", async () => {
    const payer = await ground.fundedPayer(PRICE * 3n);
    const cancel = async (header: string): Promise<void> => {
      const { nonce } = decodeHeader<Payload>(header).payload.authorization;
      const signature = await payer.account.signTypedData({
        domain: { name: "USDC", version: "2", chainId: 84532, verifyingContract: USDC_ADDRESS },
        types: {
          CancelAuthorization: [
            { name: "authorizer", type: "address" },
            { name: "nonce", type: "bytes32" },
          ],
        },
        primaryType: "CancelAuthorization",
        message: { authorizer: payer.address, nonce },
      });
      const data = encodeFunctionData({
        abi: testUsd.abi,
        functionName: "cancelAuthorization",
        args: [payer.address, nonce, signature],
      });
      assert.equal((await sendMined(ground.anvil.url, { to: USDC_ADDRESS, data })).status, "0x1");
    };
    await sellAround(payer, cancel, async ({ gateway, node, header, answer }) => {
      nothingSold(answer, "PAYMENT_NONCE_USED");
      nothingSold(await call(gateway.route("eth"), BODY, header), "PAYMENT_NONCE_USED");
      assert.equal(node.runs(), 1);
      await gateway.assertSettled(0);
      assert.equal(await ground.balance(payer.address), PRICE * 3n);
    });
  });

  test("a payer that moves its funds away gets no answer, and 402 once its window has closed", async () => {
    // On a chain of its own: its time is moved.
    await using own = await startGround();
    await using node = await startStandIn(true);
    await using gateway = await openGateway(own, { sections: { suppliers: ethAt(node.url) } });
    const payer = await own.fundedPayer(PRICE);
    const refuge = newPayer();
    await fundGas(own.anvil.url, payer.address, 10n ** 18n);
    const client = createWalletClient({ account: payer.account, chain: baseSepolia, transport: http(own.anvil.url) });
    const url = gateway.route("eth");
    const terms = await termsOf(url);
    const header = await signPayment(payer, terms);
    const sale = call(url, BODY, header);
    await node.held;
    const hash = await client.writeContract({
      address: USDC_ADDRESS,
      abi: testUsd.abi,
      functionName: "transfer",
      args: [refuge.address, PRICE],
    });
    const reader = createPublicClient({ transport: http(own.anvil.url) });
    await reader.waitForTransactionReceipt({ hash, pollingInterval: 20 });
    assert.equal(await own.balance(payer.address), 0n);
    node.release();
    nothingSold(await untilWindowCloses(own, gateway, terms, sale), "PAYMENT_EXPIRED");
    nothingSold(await call(url, BODY, header), "PAYMENT_EXPIRED");
    assert.equal(node.runs(), 1);
    await gateway.assertSettled(0);
    assert.equal(await own.balance(refuge.address), PRICE);
  });

  test("a transfer that somebody else puts on the chain first is taken as the payment: 200, charged once", async () => {
    const payer = await ground.fundedPayer(PRICE * 3n);
    let transaction = "";
    const frontRun = async (header: string): Promise<void> => {
      const { signature, authorization } = decodeHeader<Payload>(header).payload;
      const { from, to, value, validAfter, validBefore, nonce } = authorization;
      const data = encodeFunctionData({
        abi: testUsd.abi,
        functionName: "transferWithAuthorization",
        args: [from, to, BigInt(value), BigInt(validAfter), BigInt(validBefore), nonce, signature],
      });
      const receipt = await sendMined(ground.anvil.url, { to: USDC_ADDRESS, data });
      assert.equal(receipt.status, "0x1");
      transaction = receipt.transactionHash;
    };
    await sellAround(payer, frontRun, async ({ gateway, node, header, answer }) => {
      assert.equal(answer.status, 200, answer.text);
      assert.equal(answer.json.data.result, STAND_IN_RESULT);
      assert.equal(answer.receipt?.success, true);
      assert.equal(answer.receipt?.transaction, transaction);
      assert.equal((await call(gateway.route("eth"), BODY, header)).text, answer.text);
      assert.equal(node.runs(), 1);
      await gateway.assertSettled(1);
      assert.equal(await ground.balance(payer.address), PRICE * 2n);
    });
  });

  test("an authorization that was used or cancelled before it is presented buys nothing", async () => {
    await using node = await startStandIn();
    await using gateway = await openGateway(ground, { sections: { suppliers: ethAt(node.url) } });
    const payer = await ground.fundedPayer(PRICE * 3n);
    const url = gateway.route("eth");
    const header = await signPayment(payer, await termsOf(url));
    const { signature, authorization } = decodeHeader<Payload>(header).payload;
    const { from, to, value, validAfter, validBefore, nonce } = authorization;
    const data = encodeFunctionData({
      abi: testUsd.abi,
      functionName: "transferWithAuthorization",
      args: [from, to, BigInt(value), BigInt(validAfter), BigInt(validBefore), nonce, signature],
    });
    await sendMined(ground.anvil.url, { to: USDC_ADDRESS, data });
    const answer = await call(url, BODY, header);
    assert.equal(answer.status, 402, answer.text);
    assert.match(answer.json.error, /^PAYMENT_NONCE_USED/);
    assert.equal(node.runs(), 0);
  });

  test("a token that says yes and moves nothing never pays for an answer", async () => {
    // On a chain of its own: its time is moved.
    await using own = await startGround();
    await using node = await startStandIn();
    const payer = newPayer();
    await deployTestToken(own.anvil.url, {
      asset: LYING_TOKEN,
      code: lyingToken.deployedBytecode,
      holders: [{ address: payer.address, units: PRICE * 3n }],
    });
    await using gateway = await openGateway(own, {
      sections: { suppliers: ethAt(node.url) },
      network: { asset: LYING_TOKEN },
    });
    const url = gateway.route("eth");
    const terms = await termsOf(url);
    const header = await signPayment(payer, terms);
    nothingSold(await untilWindowCloses(own, gateway, terms, call(url, BODY, header)), "PAYMENT_EXPIRED");
    nothingSold(await call(url, BODY, header), "PAYMENT_EXPIRED");
    assert.equal(node.runs(), 1);
    await gateway.assertSettled(0);
  });
});
