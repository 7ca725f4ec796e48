import { type Address, bytesToHex0x } from "@turnpike/base";
import { balanceSlot, devRpc, fundGas, USDC_ADDRESS } from "@turnpike/localnet";
import { type RefusingNode, startRefusingNode } from "@turnpike/testkit";
import { deployGasBurner } from "@turnpike/testkit/servers";
import { parseTransaction } from "viem";
import { generatePrivateKey, privateKeyToAddress } from "viem/accounts";
import { startGround } from "../../support/network.ts";
import { newPayer, type Payer, type Terms, termsOf } from "../../support/payer.ts";
import { type ServiceProcess, startServiceProcess } from "../../support/service-process.ts";
import { MAX_ANSWER_BYTES, startSupplier } from "./supplier.ts";

/** Price of every call, in units of the token. */
export const PRICE = 5_000n;

/** Blocks after which a settlement is final. */
const FINALITY_BLOCKS = 8;
/** Gas limit above which the provider refuses a transaction, as one with a cap on fees does: about seven transfers. */
const GAS_CAP = 1_000_000n;

/** Calls under way at once: so few that what attackers leave waiting would fill all places. */
const GATEWAY_PLACES = 100;
const FACILITATOR_PLACES = 64;

/** The shortest there is, so that deletions are part of the run. */
const RELEASED_RETENTION_SECONDS = 60;

/** What honest buyers and attackers stand before: a gateway and a facilitator on one chain, in processes of their own. */
export interface Setup extends AsyncDisposable {
  /** URL of the chain itself. */
  readonly chainUrl: string;
  /** The node that gateway and facilitator use. */
  readonly provider: RefusingNode;
  readonly gateway: ServiceProcess;
  readonly facilitator: ServiceProcess;
  readonly postgresUrl: string;
  /** Schemas of the ledgers. */
  readonly schemas: Readonly<Record<"gateway" | "facilitator", string>>;
  readonly relayers: Readonly<Record<"gateway" | "facilitator", readonly Address[]>>;
  /** Receivers: of the gateway's sales, and of the payments that the facilitator settles. */
  readonly payTo: Address;
  readonly merchant: Address;
  readonly terms: Terms;
  /** Time that a payer signs for. */
  readonly windowSeconds: number;
  /** A contract that burns all gas that it gets. */
  readonly burner: Address;
  /** The provider refuses transactions that name one of these, in lower case. */
  readonly unwelcome: Set<string>;
  /** Seconds by which the chain's clock is ahead of this machine's. */
  readonly aheadSeconds: number;
  /** Moves the chain's time. */
  skip(seconds: number): Promise<void>;
  /** A new account with this balance of the token. */
  payer(units: bigint): Promise<Payer>;
  setBalance(address: Address, units: bigint): Promise<void>;
  balance(address: Address): Promise<bigint>;
}

/** Starts all of it. `windowSeconds` is the time that a payer signs for. */
export async function startSetup(windowSeconds: number): Promise<Setup> {
  await using stack = new AsyncDisposableStack();
  const ground = stack.use(await startGround({ blockTimeSeconds: 1 }));
  const chainUrl = ground.anvil.url;
  const unwelcome = new Set<string>();
  const provider = stack.use(
    await startRefusingNode(chainUrl, (raw) => {
      const { gas = 0n } = parseTransaction(raw as `0x02${string}`);
      if (gas > GAS_CAP) return "tx fee exceeds the configured cap";
      const text = raw.toLowerCase();
      for (const address of unwelcome) if (text.includes(address.slice(2))) return "rejected by policy";
      return undefined;
    }),
  );
  const suppliers = [stack.use(await startSupplier()), stack.use(await startSupplier())];
  const endpoints = suppliers.map(({ url }, at) => ({ operator: `o${at}`, urls: { json_rpc: url } }));
  const merchant = newPayer().address;
  const network = { rpcUrls: [provider.url], maxTimeoutSeconds: windowSeconds, finalityBlocks: FINALITY_BLOCKS };
  const made = ground.config(
    {
      gateway: {
        port: 0,
        metrics: { port: 0 },
        trustedProxies: ["127.0.0.1"],
        maxAnswerBytes: MAX_ANSWER_BYTES,
        maxConcurrentRequests: GATEWAY_PLACES,
      },
      suppliers: { eth: { endpoints } },
      log: { level: "warn" },
    },
    network,
    { batchWindowMs: 100, leaseSeconds: 5 },
  );
  await made.prepare();
  const facilitatorKey = generatePrivateKey();
  await fundGas(chainUrl, privateKeyToAddress(facilitatorKey), 10n ** 20n);
  const facilitatorSection = {
    port: 0,
    metrics: { port: 0 },
    maxConcurrentRequests: FACILITATOR_PLACES,
    // All come from one address here.
    maxConcurrentPerClient: FACILITATOR_PLACES,
    relayer: { keys: [facilitatorKey] },
    payToAllowed: [merchant],
  };
  const ledger = { ...(made.overrides.ledger as object), releasedRetentionSeconds: RELEASED_RETENTION_SECONDS };
  const overrides = { ...made.overrides, ledger, facilitator: facilitatorSection };
  const gateway = stack.use(await startServiceProcess("gateway", overrides));
  const facilitator = stack.use(await startServiceProcess("facilitator", overrides));
  const terms = await termsOf(`${gateway.url}/v1/eth`);
  const burner = await deployGasBurner(chainUrl);
  const setBalance = async (address: Address, units: bigint): Promise<void> => {
    const word = `0x${units.toString(16).padStart(64, "0")}`;
    await devRpc(chainUrl, "anvil_setStorageAt", [USDC_ADDRESS, balanceSlot(address), word]);
  };
  const owned = stack.move();
  let aheadSeconds = 0;
  return {
    chainUrl,
    provider,
    gateway,
    facilitator,
    postgresUrl: ground.postgres.url,
    schemas: { gateway: made.schema, facilitator: `${made.schema}_facilitator` },
    relayers: {
      gateway: made.config.payment.relayer.keys.map((key) => privateKeyToAddress(key as `0x${string}`)),
      facilitator: [privateKeyToAddress(facilitatorKey)],
    },
    payTo: made.payTo,
    merchant,
    terms,
    windowSeconds,
    burner,
    unwelcome,
    get aheadSeconds() {
      return aheadSeconds;
    },
    async skip(seconds) {
      aheadSeconds += seconds;
      await devRpc(chainUrl, "evm_increaseTime", [seconds]);
    },
    async payer(units) {
      const payer = newPayer();
      if (units > 0n) await setBalance(payer.address, units);
      return payer;
    },
    setBalance,
    balance: (address) => ground.balance(address),
    [Symbol.asyncDispose]: () => owned.disposeAsync(),
  };
}

/** A random address. */
export function randomAddress(): Address {
  return bytesToHex0x(crypto.getRandomValues(new Uint8Array(20)));
}
