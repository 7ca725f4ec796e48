import {
  type Address,
  bytesToHex0x,
  type Clock,
  hexToBytes,
  type NetworkId,
  noMetrics,
  silentLog,
  systemClock,
} from "@turnpike/base";
import { privateKeyToAddress, sha256, sign } from "@turnpike/crypto";
import {
  type AnvilOptions,
  deployTestToken,
  devRpc,
  LOCAL_NETWORK,
  MULTICALL3_ADDRESS,
  randomNonce,
  setTokenBalance,
  startAnvil,
  USDC_ADDRESS,
} from "@turnpike/localnet";
import { openTestAnvil, type TestAnvil } from "@turnpike/testkit/servers";
import { type EvmRpc, EvmRpcClient } from "../src/evm/rpc.ts";
import { paymentOption } from "../src/option.ts";
import type { Authorization, DecodedPayment, PaymentOption, Verification } from "../src/types.ts";
import type { BackOff } from "../src/verify/back-off.ts";
import { domainSeparator, transferDigest } from "../src/verify/digest.ts";
import type { VerifierNetwork, VerifierOptions } from "../src/verify/options.ts";
import { EvmVerifier } from "../src/verify/verifier.ts";

/** For tests: a chain with the test token, a verifier of it, and payments for it. */
export interface Harness extends AsyncDisposable {
  readonly anvil: TestAnvil;
  readonly rpc: EvmRpc;
  readonly option: PaymentOption;
  open(more?: Partial<VerifierOptions>, clock?: Clock, rpc?: EvmRpc, backOff?: BackOff): EvmVerifier;
  /** A new key with this balance. */
  payer(units?: bigint): Promise<Key>;
  pay(key: Key, more?: Partial<Authorization>, name?: string): DecodedPayment;
  /** Time of the newest block. */
  blockTime(): Promise<number>;
}

/** For tests: a key pair. */
export interface Key {
  readonly secret: Uint8Array;
  readonly address: Address;
}

export const NETWORK: VerifierNetwork = {
  network: LOCAL_NETWORK as NetworkId,
  asset: USDC_ADDRESS,
  name: "USDC",
  version: "2",
  decimals: 6,
  multicall3: MULTICALL3_ADDRESS,
  allowedFactories: [],
  walletGas: 400_000,
  deploymentGas: 2_000_000,
  priorityFeeWei: 0n,
  relayers: [],
};
const PAY_TO: Address = "0x209693Bc6afc0C5328bA36FaF03C514EF312287C";
const CHAIN_ID = Number(LOCAL_NETWORK.slice(7));

/** For tests: a random key. */
export function newKey(): Key {
  const secret = hexToBytes(randomNonce()) ?? new Uint8Array();
  return { secret, address: privateKeyToAddress(secret) };
}

/** For tests: a payment with this signature. */
export function withSignature(payment: DecodedPayment, signature: Uint8Array): DecodedPayment {
  const payloadDigest = sha256(Buffer.concat([signature, payment.payloadDigest]));
  return { ...payment, signature, payloadDigest };
}

/** For tests: signs an authorization, 65 bytes. */
export function signAuthorization(key: Key, authorization: Authorization, name = "USDC"): Uint8Array {
  const domain = domainSeparator({ name, version: "2", chainId: CHAIN_ID, asset: USDC_ADDRESS });
  const { r, s, yParity } = sign(transferDigest(domain, authorization), key.secret);
  return Buffer.concat([r, s, Uint8Array.of(27 + yParity)]);
}

/** For tests: both steps, as the payment stage takes them. */
export async function verify(verifier: EvmVerifier, payment: DecodedPayment): Promise<Verification> {
  const free = await verifier.checkFree(payment);
  return free.ok ? verifier.checkChain(payment, free.signer) : free;
}

/** For tests: the code of a refusal, or the kind of payer. */
export async function verdict(verifier: EvmVerifier, payment: DecodedPayment): Promise<string> {
  const found = await verify(verifier, payment);
  return found.ok ? found.kind : found.code;
}

/** For tests: opens a chain that other files may use at the same time: see `openTestAnvil`. */
export async function startHarness(): Promise<Harness> {
  return harnessOn(await openTestAnvil());
}

/** For tests: starts a chain of its own, whose blocks and time the test owns. */
export async function startOwnHarness(options: AnvilOptions = {}): Promise<Harness> {
  await using owned = new AsyncDisposableStack();
  const anvil = owned.use(await startAnvil(options));
  await deployTestToken(anvil.url, { holders: [] });
  owned.move();
  return harnessOn(anvil);
}

/** For tests: a harness on a chain that has the token. */
export async function harnessOn(anvil: TestAnvil): Promise<Harness> {
  const rpc = new EvmRpcClient({ urls: [anvil.url], timeoutMs: 60_000 }, { log: silentLog, metrics: noMetrics });
  await devRpc(anvil.url, "anvil_mine", ["0x1"]);
  const option = paymentOption({ ...NETWORK, payTo: PAY_TO, maxTimeoutSeconds: 600 }, "0.005");
  return {
    anvil,
    rpc,
    option,
    open(more = {}, clock = systemClock, chainRpc = rpc, backOff) {
      const opts = { networks: [NETWORK], workers: 0, ...more };
      return new EvmVerifier(opts, {
        rpc: new Map([[NETWORK.network, chainRpc]]),
        ...(backOff === undefined ? {} : { backOff }),
        clock,
        log: silentLog,
        metrics: noMetrics,
      });
    },
    async payer(units = 1_000_000n) {
      const key = newKey();
      await setTokenBalance(anvil.url, { address: key.address, units });
      return key;
    },
    pay(key, more = {}, name = "USDC") {
      const nowSeconds = BigInt(Math.floor(Date.now() / 1_000));
      const authorization: Authorization = {
        from: key.address,
        to: PAY_TO,
        value: 5_000n,
        validAfter: nowSeconds - 600n,
        validBefore: nowSeconds + 600n,
        nonce: randomNonce(),
        ...more,
      };
      const signature = signAuthorization(key, authorization, name);
      const payment = { accepted: { ...option }, authorization, identifier: undefined, hasAnswerKey: false, option };
      return { ...payment, signature, payloadDigest: sha256(signature) };
    },
    async blockTime() {
      const block = (await devRpc(anvil.url, "eth_getBlockByNumber", ["latest", false])) as { timestamp: string };
      return Number(block.timestamp);
    },
    async [Symbol.asyncDispose]() {
      await rpc[Symbol.asyncDispose]();
      await anvil[Symbol.asyncDispose]();
    },
  };
}

/** For tests: hex of bytes. */
export const hexOf = bytesToHex0x;
