import { randomBytes } from "node:crypto";
import type { Config } from "@turnpike/config";
import { loadConfig } from "@turnpike/config";
import {
  type AnvilOptions,
  deployTestToken,
  fundGas,
  MULTICALL3_ADDRESS,
  setTokenBalance,
  startAnvil,
  USDC_ADDRESS,
} from "@turnpike/localnet";
import { openTestAnvil, openTestPostgres, type TestAnvil, type TestPostgres } from "@turnpike/testkit/servers";
import { createPublicClient, erc20Abi, http } from "viem";
import { generatePrivateKey, privateKeyToAddress } from "viem/accounts";
import { migrateLedger } from "../../apps/turnpike/src/wiring/ledger.ts";
import { PATIENT } from "../../apps/turnpike/test/patient.ts";
import { newPayer, type Payer } from "./payer.ts";

/** A settlement chain with our token, and databases: what every gateway of a test stands on. */
export interface Ground extends AsyncDisposable {
  readonly anvil: { readonly url: string; readonly port: number };
  readonly postgres: TestPostgres;
  /** A configuration on a ledger of its own; `change` replaces top-level sections. */
  config(
    change?: Readonly<Record<string, unknown>>,
    network?: Readonly<Record<string, unknown>>,
    relayer?: Readonly<Record<string, unknown>>,
  ): GroundConfig;
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

async function ownChain(options: AnvilOptions): Promise<TestAnvil> {
  const anvil = await startAnvil(options);
  await deployTestToken(anvil.url, { holders: [] });
  return anvil;
}

/**
 * Starts {@link Ground}, on the servers of the test run where there are any. With options it has a chain of its own: for
 * a test that moves the chain's time, reverts it, or bends it in another way.
 */
export async function startGround(options?: AnvilOptions): Promise<Ground> {
  const opened = await Promise.all([options === undefined ? openTestAnvil() : ownChain(options), openTestPostgres()]);
  const [chain, postgres] = opened;
  const anvil = { url: chain.url, port: Number(new URL(chain.url).port) };
  const client = createPublicClient({ transport: http(anvil.url), cacheTime: 0 });
  return {
    anvil,
    postgres,
    config(change = {}, network = {}, relayer = {}) {
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
              // No payment here expires on a busy machine before it is settled.
              maxTimeoutSeconds: 600,
              ...network,
            },
          ],
          // The chain answers late on a busy machine, and a call that is over means no sale.
          rpcTimeoutMs: 30_000,
          relayer: { keys: relayerKeys, batchWindowMs: 10, leaseSeconds: 2, ...relayer },
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
          await Promise.all([
            ...[...relayerKeys, ...facilitatorKeys].map((key) =>
              fundGas(anvil.url, privateKeyToAddress(key), 10n ** 20n),
            ),
            migrateLedger(config, "gateway", PATIENT),
            migrateLedger(config, "facilitator", PATIENT),
          ]);
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
      await Promise.allSettled(opened.map((server) => server[Symbol.asyncDispose]()));
    },
  };
}

/** A new key whose account holds money for twenty calls. */
export async function newBuyer({
  anvil,
}: Ground): Promise<{ readonly key: `0x${string}`; readonly address: `0x${string}` }> {
  const key = generatePrivateKey();
  const address = privateKeyToAddress(key);
  await setTokenBalance(anvil.url, { address, units: 100_000n });
  return { key, address };
}
