import assert from "node:assert/strict";
import { after, before, suite, test } from "node:test";
import { type Address, isRecord } from "@turnpike/base";
import {
  type ContractFunctionArgs,
  createPublicClient,
  createWalletClient,
  decodeFunctionResult,
  encodeFunctionData,
  hexToBigInt,
  http,
  numberToHex,
  parseEventLogs,
  parseSignature,
} from "viem";
import { generatePrivateKey, type PrivateKeyAccount, privateKeyToAccount } from "viem/accounts";
import { type Anvil, startAnvil } from "./anvil.ts";
import { LOCAL_CHAIN_ID, MULTICALL3_ADDRESS, USDC_ADDRESS } from "./constants.ts";
import { lyingToken, multicall3, smartWallet, testUsd, walletFactory } from "./generated/contracts.ts";
import { devRpc } from "./rpc.ts";
import { deployTestToken, fundGas, randomNonce, setCode, setTokenBalance } from "./token.ts";

const DOMAIN = { name: "USDC", version: "2", chainId: LOCAL_CHAIN_ID, verifyingContract: USDC_ADDRESS } as const;
const TRANSFER_FIELDS = [
  { name: "from", type: "address" },
  { name: "to", type: "address" },
  { name: "value", type: "uint256" },
  { name: "validAfter", type: "uint256" },
  { name: "validBefore", type: "uint256" },
  { name: "nonce", type: "bytes32" },
] as const;
const PAYEE: Address = "0x000000000000000000000000000000000000bEEF";
const FAR = 4_000_000_000n;
/** Order of the curve (SEC 2, secp256k1). */
const ORDER = 0xfffffffffffffffffffffffffffffffebaaedce6af48a03bbfd25e8cd0364141n;

interface Order {
  readonly from: Address;
  readonly to: Address;
  readonly value: bigint;
  readonly validAfter: bigint;
  readonly validBefore: bigint;
  readonly nonce: `0x${string}`;
}

function order(from: Address, change: Partial<Order> = {}): Order {
  return { from, to: PAYEE, value: 5_000n, validAfter: 0n, validBefore: FAR, nonce: randomNonce(), ...change };
}

function sign(
  signer: PrivateKeyAccount,
  message: Order,
  primaryType: "TransferWithAuthorization" | "ReceiveWithAuthorization" = "TransferWithAuthorization",
): Promise<`0x${string}`> {
  const types = { TransferWithAuthorization: TRANSFER_FIELDS, ReceiveWithAuthorization: TRANSFER_FIELDS };
  return signer.signTypedData({ domain: DOMAIN, types, primaryType, message });
}

suite("test token", () => {
  const relayer = privateKeyToAccount(generatePrivateKey());
  const buyer = privateKeyToAccount(generatePrivateKey());
  let anvil: Anvil;
  let url = "";
  before(async () => {
    anvil = await startAnvil({ accounts: 0 });
    url = anvil.url;
    await fundGas(url, relayer.address, 10n ** 20n);
    await deployTestToken(url, { holders: [{ address: buyer.address, units: 1_000_000n }] });
  });
  after(() => anvil?.[Symbol.asyncDispose]());

  const reader = () => createPublicClient({ transport: http(url), pollingInterval: 20 });
  const balance = (address: Address): Promise<bigint> =>
    reader().readContract({ address: USDC_ADDRESS, abi: testUsd.abi, functionName: "balanceOf", args: [address] });
  const used = (address: Address, nonce: `0x${string}`): Promise<boolean> =>
    reader().readContract({
      address: USDC_ADDRESS,
      abi: testUsd.abi,
      functionName: "authorizationState",
      args: [address, nonce],
    });
  const send = async (to: Address, data: `0x${string}`, account = relayer) => {
    const wallet = createWalletClient({ account, transport: http(url) });
    const hash = await wallet.sendTransaction({ to, data, chain: null, gas: 2_000_000n });
    return reader().waitForTransactionReceipt({ hash });
  };
  const withBytes = (message: Order, signature: `0x${string}`): `0x${string}` =>
    encodeFunctionData({
      abi: testUsd.abi,
      functionName: "transferWithAuthorization",
      args: [
        message.from,
        message.to,
        message.value,
        message.validAfter,
        message.validBefore,
        message.nonce,
        signature,
      ],
    });
  const refusal = async (data: `0x${string}`, from: Address = relayer.address): Promise<string> => {
    try {
      await reader().call({ account: from, to: USDC_ADDRESS, data });
    } catch (error) {
      return String(error);
    }
    return assert.fail("the token accepted it");
  };

  test("names itself as on Base Sepolia, and counts its supply", async () => {
    const read = (functionName: "name" | "version" | "decimals" | "totalSupply" | "DOMAIN_SEPARATOR") =>
      reader().readContract({ address: USDC_ADDRESS, abi: testUsd.abi, functionName });
    assert.equal(await read("name"), "USDC");
    assert.equal(await read("version"), "2");
    assert.equal(await read("decimals"), 6);
    // known value: keccak256 of the domain of USDC on Base Sepolia
    assert.equal(await read("DOMAIN_SEPARATOR"), "0x71f17a3b2ff373b803d70a5a07c046c1a2bc8e89c09ef722fcb047abe94c9818");
    const other: Address = "0x2222222222222222222222222222222222222222";
    await setTokenBalance(url, { address: other, units: 10n });
    const before = await read("totalSupply");
    await setTokenBalance(url, { address: other, units: 4n });
    assert.equal(await read("totalSupply"), Number(before) > 0 ? BigInt(before) - 6n : 0n);
  });

  test("moves an EOA's money once, with both events", async () => {
    const message = order(buyer.address);
    const signature = await sign(buyer, message);
    const before = await balance(PAYEE);
    const receipt = await send(USDC_ADDRESS, withBytes(message, signature));
    assert.equal(receipt.status, "success");
    const events = parseEventLogs({ abi: testUsd.abi, logs: receipt.logs });
    assert.deepEqual(events.map((event) => event.eventName).sort(), ["AuthorizationUsed", "Transfer"]);
    assert.equal((await balance(PAYEE)) - before, 5_000n);
    assert.equal(await used(buyer.address, message.nonce), true);
    assert.match(await refusal(withBytes(message, signature)), /authorization is used or canceled/);
  });

  test("takes v, r and s apart too", async () => {
    const message = order(buyer.address);
    const { r, s, v } = parseSignature(await sign(buyer, message));
    const { from, to, value, validAfter, validBefore, nonce } = message;
    const data = encodeFunctionData({
      abi: testUsd.abi,
      functionName: "transferWithAuthorization",
      args: [from, to, value, validAfter, validBefore, nonce, Number(v), r, s],
    });
    assert.equal((await send(USDC_ADDRESS, data)).status, "success");
    assert.equal(await used(from, nonce), true);
  });

  test("refuses wrong windows, signers, values and forms of a signature", async () => {
    const now = BigInt(Math.floor(Date.now() / 1_000));
    const early = order(buyer.address, { validAfter: now + 10_000n });
    assert.match(await refusal(withBytes(early, await sign(buyer, early))), /not yet valid/);
    const late = order(buyer.address, { validBefore: now - 10_000n });
    assert.match(await refusal(withBytes(late, await sign(buyer, late))), /expired/);
    const good = order(buyer.address);
    assert.match(await refusal(withBytes(good, await sign(relayer, good))), /invalid signature/);
    const signature = await sign(buyer, good);
    assert.match(await refusal(withBytes({ ...good, value: 5_001n }, signature)), /invalid signature/);
    const { r, s, yParity } = parseSignature(signature);
    const flipped = numberToHex(ORDER - hexToBigInt(s), { size: 32 }).slice(2);
    const high: `0x${string}` = `${r}${flipped}${yParity === 0 ? "1c" : "1b"}`;
    assert.match(await refusal(withBytes(good, high)), /invalid signature 's' value/);
    assert.match(
      await refusal(withBytes(good, `${signature.slice(0, -2)}00` as `0x${string}`)),
      /invalid signature 'v'/,
    );
    assert.match(await refusal(withBytes(good, "0x1234")), /invalid signature length/);
    const much = order(buyer.address, { value: 10n ** 18n });
    assert.match(await refusal(withBytes(much, await sign(buyer, much))), /transfer amount exceeds balance/);
  });

  test("receiving is for the payee only", async () => {
    const message = order(buyer.address, { to: relayer.address });
    const signature = await sign(buyer, message, "ReceiveWithAuthorization");
    const data = encodeFunctionData({
      abi: testUsd.abi,
      functionName: "receiveWithAuthorization",
      args: [
        message.from,
        message.to,
        message.value,
        message.validAfter,
        message.validBefore,
        message.nonce,
        signature,
      ],
    });
    assert.match(await refusal(data, buyer.address), /caller must be the payee/);
    assert.equal((await send(USDC_ADDRESS, data)).status, "success");
  });

  test("a cancelled authorization moves nothing", async () => {
    const message = order(buyer.address);
    const signature = await buyer.signTypedData({
      domain: DOMAIN,
      types: {
        CancelAuthorization: [
          { name: "authorizer", type: "address" },
          { name: "nonce", type: "bytes32" },
        ],
      },
      primaryType: "CancelAuthorization",
      message: { authorizer: buyer.address, nonce: message.nonce },
    });
    const args: ContractFunctionArgs<typeof testUsd.abi, "nonpayable", "cancelAuthorization"> = [
      buyer.address,
      message.nonce,
      signature,
    ];
    const data = encodeFunctionData({ abi: testUsd.abi, functionName: "cancelAuthorization", args });
    const receipt = await send(USDC_ADDRESS, data);
    const events = parseEventLogs({ abi: testUsd.abi, logs: receipt.logs });
    assert.deepEqual(
      events.map((event) => event.eventName),
      ["AuthorizationCanceled"],
    );
    assert.match(await refusal(withBytes(message, await sign(buyer, message))), /used or canceled/);
  });

  test("a wallet with code is asked by ERC-1271, also one that is deployed just before (ERC-6492)", async () => {
    const factory: Address = "0x4444444444444444444444444444444444444444";
    await setCode(url, factory, walletFactory.deployedBytecode);
    const salt = randomNonce();
    const args = [buyer.address, salt] as const;
    const wallet = await reader().readContract({
      address: factory,
      abi: walletFactory.abi,
      functionName: "walletOf",
      args,
    });
    await setTokenBalance(url, { address: wallet, units: 20_000n });
    const message = order(wallet);
    const signature = await sign(buyer, message);
    // without code the token recovers the owner, who is not the wallet
    assert.match(await refusal(withBytes(message, signature)), /invalid signature/);
    const batch = encodeFunctionData({
      abi: multicall3.abi,
      functionName: "aggregate3",
      args: [
        [
          {
            target: factory,
            allowFailure: false,
            callData: encodeFunctionData({ abi: walletFactory.abi, functionName: "createWallet", args }),
          },
          { target: USDC_ADDRESS, allowFailure: true, callData: withBytes(message, signature) },
        ],
      ],
    });
    assert.equal((await send(MULTICALL3_ADDRESS, batch)).status, "success");
    assert.equal(await balance(wallet), 15_000n);
    const owner = await reader().readContract({ address: wallet, abi: smartWallet.abi, functionName: "owner" });
    assert.equal(owner, buyer.address);
    const second = order(wallet);
    assert.match(await refusal(withBytes(second, await sign(relayer, second))), /invalid signature/);
    assert.equal((await send(USDC_ADDRESS, withBytes(second, await sign(buyer, second)))).status, "success");
  });

  test("Multicall3 tells which call failed", async () => {
    const good = order(buyer.address);
    const bad = order(buyer.address);
    const calls = [
      { target: USDC_ADDRESS, allowFailure: true, callData: withBytes(bad, await sign(relayer, bad)) },
      { target: USDC_ADDRESS, allowFailure: true, callData: withBytes(good, await sign(buyer, good)) },
    ];
    const data = encodeFunctionData({ abi: multicall3.abi, functionName: "aggregate3", args: [calls] });
    const result = await devRpc(url, "eth_call", [{ from: relayer.address, to: MULTICALL3_ADDRESS, data }, "latest"]);
    const results = decodeFunctionResult({
      abi: multicall3.abi,
      functionName: "aggregate3",
      data: result as `0x${string}`,
    });
    assert.deepEqual(
      results.map((item) => item.success),
      [false, true],
    );
    await send(MULTICALL3_ADDRESS, data);
    assert.deepEqual([await used(buyer.address, bad.nonce), await used(buyer.address, good.nonce)], [false, true]);
    const read = (functionName: "getBlockNumber" | "getChainId") =>
      reader().readContract({ address: MULTICALL3_ADDRESS, abi: multicall3.abi, functionName });
    assert.equal(await read("getChainId"), BigInt(LOCAL_CHAIN_ID));
    assert.ok((await read("getBlockNumber")) > 0n);
  });

  test("the lying token says yes and does nothing", async () => {
    const asset: Address = "0x3333333333333333333333333333333333333333";
    await deployTestToken(url, {
      asset,
      code: lyingToken.deployedBytecode,
      holders: [{ address: buyer.address, units: 5_000n }],
    });
    const message = order(buyer.address);
    const receipt = await send(asset, withBytes(message, await sign(buyer, message)));
    assert.equal(receipt.status, "success");
    assert.equal(receipt.logs.length, 0);
    const code = await devRpc(url, "eth_getCode", [USDC_ADDRESS, "latest"]);
    assert.equal(code, testUsd.deployedBytecode);
    assert.ok(!isRecord(code));
  });
});
