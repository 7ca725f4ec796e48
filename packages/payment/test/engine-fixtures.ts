import { randomBytes } from "node:crypto";
import {
  type Address,
  bytesToHex0x,
  type Clock,
  type FaultPoints,
  hexToBytes,
  type Log,
  type NetworkId,
  noFaults,
  noMetrics,
  type ServiceId,
  silentLog,
  systemClock,
} from "@turnpike/base";
import { privateKeyToAddress } from "@turnpike/crypto";
import {
  type AnvilOptions,
  deployTestToken,
  devRpc,
  fundGas,
  MULTICALL3_ADDRESS,
  randomNonce,
  setCode,
  setTokenBalance,
  startAnvil,
  USDC_ADDRESS,
} from "@turnpike/localnet";
import { eventually } from "@turnpike/testkit";
import { openTestAnvil, sendMined, type TestAnvil } from "@turnpike/testkit/servers";
import { encodeFunctionData, getAddress, parseAbi } from "viem";
import { privateKeyToAccount } from "viem/accounts";
import type { EngineOptions, TransactionBounds } from "../src/engine/options.ts";
import { type EvmRpc, EvmRpcClient } from "../src/evm/rpc.ts";
import { SETTLEMENT_BATCH_ADDRESS } from "../src/evm/settlement-batch.ts";
import { createLedger, type LedgerOptions } from "../src/ledger/ledger.ts";
import type { Ledger } from "../src/ledger-types.ts";
import { claimedRecord } from "../src/record.ts";
import type { PayerKind, PaymentRecord, StoredAnswer } from "../src/types.ts";
import type { BackOff } from "../src/verify/back-off.ts";
import { LEDGER, type TestServer } from "./ledger-fixtures.ts";

/** Of an engine whose clock the test owns: such a clock does not end a batch's window by itself. */
export const AT_ONCE = { batchWindowMs: 0, maxQueueMs: 1_000_000_000, bumpAfterMs: 1_000_000_000 } as const;

/** A payer with a key. */
export interface Payer {
  readonly address: Address;
  readonly privateKey: `0x${string}`;
}

export const NETWORK = "eip155:84532" as NetworkId;
export const PRICE = 5_000n;
export const ANSWER: StoredAnswer = { contentType: "application/json", body: Buffer.from('{"data":1}') };

export function newKey(): Uint8Array {
  return Uint8Array.from(randomBytes(32));
}

export function newPayer(): Payer {
  const key = newKey();
  return { address: privateKeyToAddress(key), privateKey: bytesToHex0x(key) };
}

/** A receiver that nothing outside this file's process uses; spelled with capitals as a configuration may. */
export const PAY_TO: Address = getAddress(newPayer().address);

/** What a test may choose of an engine and of its network's bounds. */
type OptionChanges = Partial<Omit<EngineOptions, "networks"> & TransactionBounds>;

/** A chain with the token, an empty ledger, and what makes claims for engines under test. */
export interface Bed extends AsyncDisposable {
  readonly anvil: TestAnvil;
  readonly rpc: EvmRpc;
  readonly databaseUrl: string;
  openLedger(options?: Partial<LedgerOptions>): Promise<Ledger>;
  /** A payer with this balance of the token. */
  payer(units: bigint): Promise<Payer>;
  relayerKey(): Promise<Uint8Array>;
  options(relayerKeys: readonly Uint8Array[], changes?: OptionChanges): EngineOptions;
  modules(
    ledger: Ledger,
    faults?: FaultPoints,
    clock?: Clock,
  ): {
    ledger: Ledger;
    rpc: ReadonlyMap<NetworkId, EvmRpc>;
    clock: Clock;
    log: Log;
    metrics: typeof noMetrics;
    faults: FaultPoints;
  };
  /** The asset's balance of an account. */
  balance(account: Address): Promise<bigint>;
  chainTime(): Promise<number>;
}

const log: Log = process.argv.includes("--verbose-engine")
  ? {
      ...silentLog,
      warn: (fields, message) => console.error("warn", message, fields),
      error: (fields, message) => console.error("error", message, fields),
      child: () => log,
    }
  : silentLog;

/** A bed on a chain that other files may use at the same time: see `openTestAnvil`. */
export async function openBed(server: TestServer): Promise<Bed> {
  return bedOn(server, await openTestAnvil());
}

/** A bed on a chain of its own: for tests that revert it, move its time, or say when it mines. */
export async function openOwnBed(server: TestServer, options: AnvilOptions = {}): Promise<Bed> {
  await using owned = new AsyncDisposableStack();
  const anvil = owned.use(await startAnvil(options));
  await deployTestToken(anvil.url, { holders: [] });
  owned.move();
  return bedOn(server, anvil);
}

/** An own bed on a chain without the contract SettlementBatch: payments share transactions by Multicall3. */
export async function openBedWithoutContract(server: TestServer, options: AnvilOptions = {}): Promise<Bed> {
  await using owned = new AsyncDisposableStack();
  const bed = owned.use(await openOwnBed(server, options));
  await setCode(bed.anvil.url, SETTLEMENT_BATCH_ADDRESS, "0x");
  owned.move();
  return bed;
}

async function bedOn(server: TestServer, anvil: TestAnvil): Promise<Bed> {
  await using owned = new AsyncDisposableStack();
  owned.use(anvil);
  const databaseUrl = await server.database();
  const rpc = owned.use(
    new EvmRpcClient({ urls: [anvil.url], timeoutMs: 60_000 }, { log: silentLog, metrics: noMetrics }),
  );
  const resources = owned.move();
  const call = async (method: string, params: readonly unknown[]): Promise<unknown> =>
    devRpc(anvil.url, method, params);
  return {
    anvil,
    rpc,
    databaseUrl,
    openLedger: async (options = {}) =>
      createLedger(
        { url: databaseUrl, ...LEDGER, poolSize: 6, ...options },
        { log, metrics: noMetrics, faults: noFaults },
      ),
    async payer(units) {
      const payer = newPayer();
      await setTokenBalance(anvil.url, { address: payer.address, units });
      return payer;
    },
    async relayerKey() {
      const key = newKey();
      await fundGas(anvil.url, privateKeyToAddress(key), 10n ** 18n);
      return key;
    },
    options: (
      relayerKeys,
      {
        batchWindowMs = 20,
        maxBatch = 100,
        gasPerTransfer = 120_000n,
        gasPerWallet = 400_000n,
        gasPerDeployment = 2_000_000n,
        bumpAfterMs = 600_000,
        bumpPercent = 12.5,
        maxOpenBatches = 16,
        ...changes
      } = {},
    ) => ({
      networks: [
        {
          network: NETWORK,
          multicall3: MULTICALL3_ADDRESS,
          confirmations: 1,
          finalityBlocks: 3,
          blockTimeSeconds: 1,
          relayerKeys,
          maxFeePerGasWei: 100_000_000_000n,
          priorityFeeWei: 1_000_000n,
          minRelayerBalanceWei: 1_000n,
          holdMs: 0,
          holdReserveMs: 10_000,
          batchWindowMs,
          maxBatch,
          gasPerTransfer,
          gasPerWallet,
          gasPerDeployment,
          bumpAfterMs,
          bumpPercent,
          maxOpenBatches,
        },
      ],
      maxQueueMs: 60_000,
      pollMs: 200,
      leaseRenewMs: 200,
      reconcileMs: 100,
      chainTimeoutMs: 60_000,
      ...changes,
    }),
    modules: (ledger, faults = noFaults, clock = systemClock) => ({
      ledger,
      rpc: new Map([[NETWORK, rpc]]),
      clock,
      log,
      metrics: noMetrics,
      faults,
    }),
    async balance(account) {
      const data = `0x70a08231${account.slice(2).toLowerCase().padStart(64, "0")}`;
      return BigInt(String(await call("eth_call", [{ to: USDC_ADDRESS, data }, "latest"])));
    },
    async chainTime() {
      const block = (await call("eth_getBlockByNumber", ["latest", false])) as { timestamp: string };
      return Number(block.timestamp);
    },
    [Symbol.asyncDispose]: () => resources.disposeAsync(),
  };
}

/** Fields of {@link claim} that a test may choose. */
export interface ClaimChanges {
  readonly from?: Address;
  readonly kind?: PayerKind;
  readonly signature?: (raw: Uint8Array) => Uint8Array;
  readonly validBefore?: bigint;
  readonly value?: bigint;
  readonly asset?: Address;
  readonly to?: Address;
  readonly nonce?: `0x${string}`;
}

/** Signs a payment as a client does. */
export async function signPayment(payer: Payer, changes: ClaimChanges = {}): Promise<Omit<PaymentRecord, "id">> {
  const from = changes.from ?? payer.address;
  const nonce = changes.nonce ?? randomNonce();
  const to = changes.to ?? PAY_TO;
  const value = changes.value ?? PRICE;
  const validBefore = changes.validBefore ?? BigInt(Math.floor(Date.now() / 1_000) + 86_400);
  const asset = changes.asset ?? USDC_ADDRESS;
  const signature = await privateKeyToAccount(payer.privateKey).signTypedData({
    domain: { name: "USDC", version: "2", chainId: 84532, verifyingContract: asset },
    types: {
      TransferWithAuthorization: [
        { name: "from", type: "address" },
        { name: "to", type: "address" },
        { name: "value", type: "uint256" },
        { name: "validAfter", type: "uint256" },
        { name: "validBefore", type: "uint256" },
        { name: "nonce", type: "bytes32" },
      ],
    },
    primaryType: "TransferWithAuthorization",
    message: { from, to, value, validAfter: 0n, validBefore, nonce },
  });
  const raw = hexToBytes(signature) ?? new Uint8Array();
  const nowMs = Date.now();
  return {
    key: { network: NETWORK, asset: asset.toLowerCase() as Address, from: from.toLowerCase() as Address, nonce },
    payTo: to,
    value,
    validAfter: 0n,
    validBefore,
    signature: changes.signature?.(raw) ?? raw,
    kind: changes.kind ?? "eoa",
    serviceId: "eth" as ServiceId,
    payloadDigest: Uint8Array.from(randomBytes(32)),
    requestHash: Uint8Array.from(randomBytes(32)),
    identifier: undefined,
    state: "claimed",
    reason: undefined,
    transaction: undefined,
    evidence: undefined,
    answerExpiresAtMs: undefined,
    createdAtMs: nowMs,
    updatedAtMs: nowMs,
  };
}

/** Cancels a payment's authorization on the chain, as its payer may at any time. */
export async function cancelAuthorization(
  bed: { readonly anvil: { readonly url: string } },
  payer: Pick<Payer, "privateKey" | "address">,
  { key }: { readonly key: Pick<PaymentRecord["key"], "nonce"> },
): Promise<void> {
  const signature = await privateKeyToAccount(payer.privateKey).signTypedData({
    domain: { name: "USDC", version: "2", chainId: 84532, verifyingContract: USDC_ADDRESS },
    types: {
      CancelAuthorization: [
        { name: "authorizer", type: "address" },
        { name: "nonce", type: "bytes32" },
      ],
    },
    primaryType: "CancelAuthorization",
    message: { authorizer: payer.address, nonce: key.nonce },
  });
  const raw = signature.slice(2);
  const parts = [Number.parseInt(raw.slice(128), 16), `0x${raw.slice(0, 64)}`, `0x${raw.slice(64, 128)}`] as const;
  const data = encodeFunctionData({
    abi: parseAbi(["function cancelAuthorization(address,bytes32,uint8,bytes32,bytes32)"]),
    args: [payer.address, key.nonce, ...parts],
  });
  const { status } = await sendMined(bed.anvil.url, { to: USDC_ADDRESS, data, gas: "0x200000" });
  if (status !== "0x1") throw new TypeError(`the cancellation: status ${status}`);
}

/** Signs and claims a payment. */
export async function claim(ledger: Ledger, payer: Payer, changes: ClaimChanges = {}): Promise<PaymentRecord> {
  const signed = await signPayment(payer, changes);
  const claimed = await ledger.claim({ ...signed, balance: 10n ** 30n, balanceBlock: 0n });
  if (claimed.kind !== "claimed") throw new TypeError(`claim: ${claimed.kind}`);
  return claimedRecord({ ...signed, id: claimed.id }, claimed);
}

/** The state that the ledger shows. */
export async function stateOf(ledger: Ledger, payment: PaymentRecord): Promise<PaymentRecord> {
  const found = await ledger.get(payment.id);
  if (found === undefined) throw new TypeError("the payment is not in the ledger");
  return found;
}

/** Waits until the payment has this state. */
export function untilState(
  ledger: Ledger,
  payment: PaymentRecord,
  state: PaymentRecord["state"],
): Promise<PaymentRecord> {
  return eventually(`the payment is ${state}`, async () => {
    const found = await stateOf(ledger, payment);
    return found.state === state && found;
  });
}

/**
 * Waits for work while blocks are mined. What is signed may not be sent yet: any one block may be too early for it, on a
 * chain that mines when it is asked to.
 */
export async function mineUntil<T>(bed: Bed, work: Promise<T>): Promise<T> {
  let hasEnded = false;
  const ended = work.finally(() => {
    hasEnded = true;
  });
  ended.catch(() => undefined);
  await eventually("the work ends while blocks are mined", async () => {
    await devRpc(bed.anvil.url, "anvil_mine", ["0x1"]);
    return hasEnded;
  });
  return ended;
}

/** A back-off that refuses no one, and keeps who was blamed. */
export function countingBackOff(): Pick<BackOff, "failed" | "refuses"> & { readonly blamed: Set<string> } {
  const blamed = new Set<string>();
  return {
    blamed,
    failed: ({ key }) => void blamed.add(key.from.toLowerCase()),
    refuses: () => false,
  };
}

/** A signal that only a hang lives to see. */
export const timeLimit = (): AbortSignal => AbortSignal.timeout(60_000);
