import { randomBytes } from "node:crypto";
import type { Config } from "@turnpike/config";
import { loadConfig } from "@turnpike/config";
import {
  type Anvil,
  type AnvilOptions,
  deployTestToken,
  fundGas,
  type LocalPostgres,
  MULTICALL3_ADDRESS,
  setTokenBalance,
  startAnvil,
  startPostgres,
  USDC_ADDRESS,
} from "@turnpike/localnet";
import { createPublicClient, erc20Abi, http } from "viem";
import { generatePrivateKey, privateKeyToAddress } from "viem/accounts";
import { migrateLedger } from "../../apps/turnpike/src/wiring/ledger.ts";
import { newPayer, type Payer } from "./payer.ts";

/** A settlement chain with our token, and a PostgreSQL server: what every gateway of a test stands on. */
export interface Ground extends AsyncDisposable {
  readonly anvil: Anvil;
  readonly postgres: LocalPostgres;
  /** A configuration on a ledger of its own; `change` replaces top-level sections. */
  config(change?: Readonly<Record<string, unknown>>, network?: Readonly<Record<string, unknown>>): GroundConfig;
  /** A new account that holds `units` of the token. */
  fundedPayer(units: bigint): Promise<Payer>;
  balance(address: string): Promise<bigint>;
}

/** What {@link Ground.config} made; `overrides` is plain data that can be handed to a child process. */
export interface GroundConfig {
  readonly overrides: Readonly<Record<string, unknown>>;
  readonly config: Config;
  /** Nobody else's address, so that sums are this test's alone. */
  readonly payTo: `0x${string}`;
  readonly schema: string;
  /** Funds its relayer keys and makes its tables. */
  prepare(): Promise<void>;
}

const randomAddress = (): `0x${string}` => `0x${randomBytes(20).toString("hex")}`;

/** Starts {@link Ground}. */
export async function startGround(options: AnvilOptions = {}): Promise<Ground> {
  const [anvil, postgres] = await Promise.all([startAnvil(options), startPostgres({})]);
  await deployTestToken(anvil.url, { holders: [] });
  const client = createPublicClient({ transport: http(anvil.url), cacheTime: 0 });
  return {
    anvil,
    postgres,
    config(change = {}, network = {}) {
      const schema = `t_${randomBytes(6).toString("hex")}`;
      const payTo = randomAddress();
      // Each ledger leases keys of its own: two ledgers with one key would race for its nonces.
      const relayerKeys = [generatePrivateKey(), generatePrivateKey()];
      const facilitatorKeys = [generatePrivateKey()];
      const overrides = {
        localnet: true,
        gateway: { port: 0, metrics: { port: 0 } },
        ledger: { url: postgres.url, schema },
        payment: {
          networks: [
            {
              network: "eip155:84532",
              rpcUrls: [anvil.url],
              asset: USDC_ADDRESS,
              name: "USDC",
              payTo,
              multicall3: MULTICALL3_ADDRESS,
              blockTimeSeconds: 1,
              ...network,
            },
          ],
          // The chain answers late on a busy machine, and a call that is over means no sale.
          rpcTimeoutMs: 30_000,
          relayer: { keys: relayerKeys, batchWindowMs: 10, leaseSeconds: 2 },
        },
        facilitator: { port: 0, relayer: { keys: facilitatorKeys } },
        suppliers: { eth: { endpoints: [{ operator: "local", urls: { json_rpc: anvil.url } }] } },
        catalogue: { overrides: { eth: { evmChainId: 84532 } } },
        ...change,
      };
      const config = loadConfig({ env: {}, overrides });
      return {
        overrides,
        config,
        payTo,
        schema,
        async prepare() {
          for (const key of [...relayerKeys, ...facilitatorKeys]) {
            await fundGas(anvil.url, privateKeyToAddress(key), 10n ** 20n);
          }
          await migrateLedger(config, "gateway");
          await migrateLedger(config, "facilitator");
        },
      };
    },
    async fundedPayer(units) {
      const payer = newPayer();
      await setTokenBalance(anvil.url, { address: payer.address, units });
      return payer;
    },
    balance: (address) =>
      client.readContract({
        address: USDC_ADDRESS,
        abi: erc20Abi,
        functionName: "balanceOf",
        args: [address as `0x${string}`],
      }),
    async [Symbol.asyncDispose]() {
      await Promise.allSettled([anvil[Symbol.asyncDispose](), postgres[Symbol.asyncDispose]()]);
    },
  };
}
