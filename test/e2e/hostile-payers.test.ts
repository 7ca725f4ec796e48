import assert from "node:assert/strict";
import { after, before, suite, test } from "node:test";
import { deployTestToken, devRpc, fundGas, lyingToken, testUsd, USDC_ADDRESS } from "@turnpike/localnet";
import { eventually } from "@turnpike/testkit";
import { sendMined } from "@turnpike/testkit/servers";
import { createPublicClient, createWalletClient, encodeFunctionData, http } from "viem";
import { baseSepolia } from "viem/chains";
import { ledgerSums } from "../../apps/turnpike/src/wiring/ledger.ts";
import { PATIENT } from "../../apps/turnpike/test/patient.ts";
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
  type Bend,
  ethAt,
  type OpenGateway,
  openGateway,
  PRICE,
  STAND_IN_RESULT,
  type StandIn,
  showsStandIn,
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

// Each test has a gateway, a ledger and payers of its own.
suite("payers that cheat between verification and settlement", { concurrency: true }, () => {
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
    assert.ok(!showsStandIn(answer.text));
    assert.equal(String(answer.json.error).split(":")[0], code);
    assert.equal(answer.headers.get("cache-control"), "no-store");
  };

  /** Sends a payer's money to another account. */
  const moveAway = async (own: Ground, payer: Payer, to: Payer): Promise<void> => {
    await fundGas(own.anvil.url, payer.address, 10n ** 18n);
    const transport = http(own.anvil.url);
    const client = createWalletClient({ account: payer.account, chain: baseSepolia, transport });
    const args = [to.address, PRICE] as const;
    const hash = await client.writeContract({
      address: USDC_ADDRESS,
      abi: testUsd.abi,
      functionName: "transfer",
      args,
    });
    await createPublicClient({ transport }).waitForTransactionReceipt({ hash, pollingInterval: 20 });
    assert.equal(await own.balance(payer.address), 0n);
  };

  /**
   * A gateway on a chain of its own, whose time a test may move, and what waits until it has judged so many transactions.
   * `atSigning` is done once, right before the first of them is signed.
   */
  const openJudging = async (own: Ground, bend: Bend, atSigning = async (): Promise<void> => undefined) => {
    let count = 0;
    let isDone = false;
    const reach = async (at: string): Promise<void> => {
      if (at === "ledger.closeBatch.after") count++;
      if (at !== "engine.journal.before" || isDone) return;
      isDone = true;
      await atSigning();
    };
    const judged = (times: number): Promise<boolean> =>
      eventually(`${times} transactions are judged`, () => count === times);
    return { gateway: await openGateway(own, { ...bend, faults: { reach } }), judged };
  };

  const signed = async (gateway: OpenGateway): Promise<number> =>
    (await ledgerSums(gateway.config, "gateway", PATIENT)).reduce((sum, { states }) => sum + states.signed.count, 0);

  const closeWindow = async (own: Ground, terms: Terms): Promise<void> => {
    const seconds = terms.accepts[0]?.maxTimeoutSeconds ?? 0;
    // Far enough that no re-organisation may bring a block of the window back.
    await devRpc(own.anvil.url, "anvil_mine", ["0x2", `0x${(seconds * 4).toString(16)}`]);
  };

  test("a payer that cancels the authorization gets 402 and no answer when that is final, and is not charged", async () => {
    // On a chain of its own: its blocks are counted.
    await using own = await startGround({});
    const payer = await own.fundedPayer(PRICE * 3n);
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
      assert.equal((await sendMined(own.anvil.url, { to: USDC_ADDRESS, data })).status, "0x1");
    };
    await using node = await startStandIn(true);
    const { gateway, judged } = await openJudging(own, { sections: { suppliers: ethAt(node.url) } });
    await using _ = gateway;
    const url = gateway.route("eth");
    const header = await signPayment(payer, await termsOf(url));
    const sale = call(url, BODY, header);
    await node.held;
    await cancel(header);
    node.release();
    await judged(1);
    assert.equal(await signed(gateway), 1, "a re-organisation may undo the cancellation");
    await devRpc(own.anvil.url, "anvil_mine", ["0x80"]);
    nothingSold(await sale, "PAYMENT_NONCE_USED");
    nothingSold(await call(url, BODY, header), "PAYMENT_NONCE_USED");
    assert.equal(node.runs(), 1);
    await gateway.assertSettled(0);
    assert.equal(await own.balance(payer.address), PRICE * 3n);
  });

  test("a payer that moves its funds away while its call is served gets 402 at once, and costs no gas", async () => {
    const payer = await ground.fundedPayer(PRICE);
    const refuge = newPayer();
    await sellAround(
      payer,
      () => moveAway(ground, payer, refuge),
      async ({ gateway, node, header, answer }) => {
        assert.equal(answer.status, 402, answer.text);
        assert.equal(String(answer.json.error).split(":")[0], "PAYMENT_SIMULATION_FAILED");
        assert.ok(!showsStandIn(answer.text));
        const again = await call(gateway.route("eth"), BODY, header);
        assert.equal(again.status, 402, again.text);
        assert.equal(String(again.json.error).split(":")[0], "PAYMENT_INSUFFICIENT_FUNDS");
        assert.equal(node.runs(), 1);
        await gateway.assertSettled(0);
        assert.equal(await ground.balance(refuge.address), PRICE);
      },
    );
  });

  test("a payer that moves its funds away behind the settlement gets no answer, and 402 once its window has closed", async () => {
    // On a chain of its own: its time is moved.
    await using own = await startGround({});
    await using node = await startStandIn();
    const payer = await own.fundedPayer(PRICE);
    const refuge = newPayer();
    const sections = { suppliers: ethAt(node.url) };
    const { gateway, judged } = await openJudging(own, { sections }, () => moveAway(own, payer, refuge));
    await using _ = gateway;
    const url = gateway.route("eth");
    const terms = await termsOf(url);
    const header = await signPayment(payer, terms);
    const sale = call(url, BODY, header);
    let isAnswered = false;
    void sale.finally(() => {
      isAnswered = true;
    });
    await judged(1);
    // Its transaction moved nothing. The sale waits all the same, as somebody could still put the authorization through;
    // meanwhile another one is sold from its beginning to its end.
    const honest = await own.fundedPayer(PRICE);
    const other = await call(url, BODY, await signPayment(honest, terms));
    assert.equal(other.status, 200, other.text);
    assert.deepEqual([isAnswered, await signed(gateway)], [false, 1]);
    await closeWindow(own, terms);
    nothingSold(await sale, "PAYMENT_EXPIRED");
    nothingSold(await call(url, BODY, header), "PAYMENT_EXPIRED");
    assert.equal(node.runs(), 2);
    await gateway.assertSettled(1);
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
    await using own = await startGround({});
    await using node = await startStandIn();
    const payers = [newPayer(), newPayer()];
    await deployTestToken(own.anvil.url, {
      asset: LYING_TOKEN,
      code: lyingToken.deployedBytecode,
      holders: payers.map(({ address }) => ({ address, units: PRICE * 3n })),
    });
    const { gateway, judged } = await openJudging(own, {
      sections: { suppliers: ethAt(node.url) },
      network: { asset: LYING_TOKEN },
    });
    await using _ = gateway;
    const url = gateway.route("eth");
    const terms = await termsOf(url);
    let answers = 0;
    const sales: { readonly header: string; readonly answer: Promise<Answer> }[] = [];
    // One after another: while the second is judged, the first is not answered either.
    for (const payer of payers) {
      const header = await signPayment(payer, terms);
      const answer = call(url, BODY, header).finally(() => {
        answers++;
      });
      sales.push({ header, answer });
      await judged(sales.length);
    }
    assert.deepEqual([answers, await signed(gateway)], [0, 2]);
    await closeWindow(own, terms);
    for (const { header, answer } of sales) {
      nothingSold(await answer, "PAYMENT_EXPIRED");
      nothingSold(await call(url, BODY, header), "PAYMENT_EXPIRED");
    }
    assert.equal(node.runs(), 2);
    await gateway.assertSettled(0);
  });
});
