import assert from "node:assert/strict";
import { after, before, suite, test } from "node:test";
import { devRpc, fundGas, randomNonce, setTokenBalance, smartWallet, walletFactory } from "@turnpike/localnet";
import { sendMined } from "@turnpike/testkit/servers";
import {
  createPublicClient,
  createWalletClient,
  encodeDeployData,
  encodeFunctionData,
  http,
  serializeErc6492Signature,
} from "viem";
import { generatePrivateKey, privateKeyToAccount } from "viem/accounts";
import { baseSepolia } from "viem/chains";
import { type Ground, startGround } from "../support/network.ts";
import { type Answer, call, newPayer, type Payer, signPayment, termsOf } from "../support/payer.ts";
import { ethAt, type OpenGateway, openGateway, PRICE, STAND_IN_RESULT, type StandIn, startStandIn } from "./support.ts";

const BODY = { method: "eth_gasPrice", params: [] };

suite("payers that are contracts", () => {
  let ground: Ground;
  let node: StandIn;
  let factory: `0x${string}`;
  let gateway: OpenGateway;

  before(async () => {
    [ground, node] = await Promise.all([startGround(), startStandIn()]);
    factory = (await sendMined(ground.anvil.url, { data: walletFactory.bytecode })).contractAddress;
    gateway = await openGateway(ground, {
      sections: { suppliers: ethAt(node.url) },
      network: { allowedFactories: [factory] },
    });
  });
  after(async () => {
    await gateway?.[Symbol.asyncDispose]();
    await node?.[Symbol.asyncDispose]();
    await ground?.[Symbol.asyncDispose]();
  });

  const codeOf = async (address: string): Promise<string> =>
    String(await devRpc(ground.anvil.url, "eth_getCode", [address, "latest"]));

  /** A deployed wallet of this owner. */
  const deployWallet = async (owner: Payer): Promise<`0x${string}`> => {
    const data = encodeDeployData({ abi: smartWallet.abi, bytecode: smartWallet.bytecode, args: [owner.address] });
    return (await sendMined(ground.anvil.url, { data })).contractAddress;
  };

  /** Buys once as `payer`, and holds that it was charged exactly once. */
  const buys = async (payer: Payer, change: Parameters<typeof signPayment>[2] = {}): Promise<string> => {
    const url = gateway.route("eth");
    const held = await ground.balance(payer.address);
    const paid = await ground.balance(gateway.payTo);
    const header = await signPayment(payer, await termsOf(url), change);
    const answer = await call(url, BODY, header);
    assert.equal(answer.status, 200, answer.text);
    assert.equal(answer.json.data.result, STAND_IN_RESULT);
    assert.equal(answer.receipt?.success, true);
    assert.equal(answer.receipt?.payer?.toLowerCase(), payer.address.toLowerCase());
    assert.equal(await ground.balance(payer.address), held - PRICE);
    assert.equal(await ground.balance(gateway.payTo), paid + PRICE);
    return header;
  };

  const refused = async (at: OpenGateway, header: string, code: RegExp): Promise<Answer> => {
    const runs = node.runs();
    const answer = await call(at.route("eth"), BODY, header);
    assert.equal(answer.status, 402, answer.text);
    assert.match(answer.json.error, code);
    assert.equal(node.runs(), runs);
    return answer;
  };

  test("a deployed wallet buys with its owner's signature (ERC-1271), and a stranger's is refused", async () => {
    const owner = newPayer();
    const address = await deployWallet(owner);
    await setTokenBalance(ground.anvil.url, { address, units: PRICE * 3n });
    const wallet: Payer = { account: owner.account, address };
    const header = await buys(wallet);
    assert.equal((await call(gateway.route("eth"), BODY, header)).status, 200, "the stored answer");
    assert.equal(await ground.balance(address), PRICE * 2n);
    const stranger: Payer = { account: newPayer().account, address };
    await refused(
      gateway,
      await signPayment(stranger, await termsOf(gateway.route("eth"))),
      /^PAYMENT_SIGNATURE_INVALID/,
    );
  });

  /** A wallet that is not there yet: its address, and how its signatures are wrapped (ERC-6492). */
  const undeployed = async (): Promise<{ wallet: Payer; wrap: (signature: `0x${string}`) => string }> => {
    const owner = newPayer();
    const salt = randomNonce();
    const client = createPublicClient({ transport: http(ground.anvil.url) });
    const args = [owner.address, salt] as const;
    const address = await client.readContract({
      address: factory,
      abi: walletFactory.abi,
      functionName: "walletOf",
      args,
    });
    await setTokenBalance(ground.anvil.url, { address, units: PRICE * 3n });
    const data = encodeFunctionData({ abi: walletFactory.abi, functionName: "createWallet", args });
    return {
      wallet: { account: owner.account, address },
      wrap: (signature) => serializeErc6492Signature({ address: factory, data, signature }),
    };
  };

  test("a wallet that is not deployed buys through an allowed factory (ERC-6492), and then as a deployed one", async () => {
    const { wallet, wrap } = await undeployed();
    assert.equal(await codeOf(wallet.address), "0x");
    await buys(wallet, { wrap });
    assert.notEqual(await codeOf(wallet.address), "0x");
    await buys(wallet);
    await buys(wallet, { wrap });
    assert.equal(await ground.balance(wallet.address), 0n);
  });

  test("through a factory that is not on the allow-list nothing is deployed and nothing is sold", async () => {
    await using strict = await openGateway(ground, { sections: { suppliers: ethAt(node.url) } });
    const { wallet, wrap } = await undeployed();
    const url = strict.route("eth");
    await refused(strict, await signPayment(wallet, await termsOf(url), { wrap }), /^PAYMENT_FACTORY_NOT_ALLOWED/);
    await refused(strict, await signPayment(wallet, await termsOf(url)), /^PAYMENT_SIGNATURE_INVALID/);
    assert.equal(await codeOf(wallet.address), "0x");
    await strict.assertSettled(0);
  });

  test("an account that has delegated its code (EIP-7702) buys as its code says", async () => {
    const key = privateKeyToAccount(generatePrivateKey());
    const payer: Payer = { account: key, address: key.address };
    await setTokenBalance(ground.anvil.url, { address: key.address, units: PRICE * 3n });
    await fundGas(ground.anvil.url, key.address, 10n ** 18n);
    await buys(payer);
    const implementation = await deployWallet(payer);
    const client = createWalletClient({ account: key, chain: baseSepolia, transport: http(ground.anvil.url) });
    const authorization = await client.signAuthorization({ contractAddress: implementation, executor: "self" });
    const hash = await client.sendTransaction({ authorizationList: [authorization], to: key.address });
    await createPublicClient({ transport: http(ground.anvil.url), pollingInterval: 20 }).waitForTransactionReceipt({
      hash,
    });
    assert.equal(await codeOf(key.address), `0xef0100${implementation.slice(2)}`.toLowerCase());
    // The token now asks the code, which takes its owner's signature: the same key's.
    await buys(payer);
    const foreign = await deployWallet(newPayer());
    const other = await client.signAuthorization({ contractAddress: foreign, executor: "self" });
    await createPublicClient({ transport: http(ground.anvil.url), pollingInterval: 20 }).waitForTransactionReceipt({
      hash: await client.sendTransaction({ authorizationList: [other], to: key.address }),
    });
    // Code that does not take the key's signature: what ecrecover says no longer counts.
    await refused(gateway, await signPayment(payer, await termsOf(gateway.route("eth"))), /^PAYMENT_SIGNATURE_INVALID/);
    assert.equal(await ground.balance(key.address), PRICE);
  });

  test("the ledger holds what the wallets paid, and nothing else", () => gateway.assertSettled(6));
});
