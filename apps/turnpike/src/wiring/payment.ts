import type { NetworkId } from "@turnpike/base";
import { type Config, type Environment, relayerKeys } from "@turnpike/config";
import {
  createEngine,
  createPaymentStage,
  createRemoteSettler,
  createVerifier,
  type EvmRpc,
  type EvmVerifier,
  type Ledger,
  type PaymentStage,
  type Settler,
  startHousekeeping,
} from "@turnpike/payment";
import { checkChains } from "./chain-check.ts";
import { openLedger } from "./ledger.ts";
import type { PartModules, ServiceInput } from "./modules.ts";
import { engineOptions, openChains, remoteOptions, requireNetworks, verifierOptions } from "./networks.ts";

/** `Retry-After` of a settlement that is pending. */
const RETRY_AFTER_SECONDS = 2;
/** How often a payment that another process works on is looked at. */
const POLL_MS = 100;

/** What takes and settles payments; all of it ends with the stack that it was made on. */
export interface Payments {
  readonly ledger: Ledger;
  readonly verifier: EvmVerifier;
  readonly settler: Settler;
  readonly chains: ReadonlyMap<NetworkId, EvmRpc>;
}

async function createSettler(
  config: Config,
  env: Environment,
  role: "gateway" | "facilitator",
  modules: PartModules & { readonly ledger: Ledger; readonly rpc: ReadonlyMap<NetworkId, EvmRpc> },
): Promise<Settler> {
  const { mode, facilitatorUrl } = config.payment;
  if (role === "gateway" && mode === "remote" && facilitatorUrl !== undefined) {
    return createRemoteSettler(remoteOptions(config, facilitatorUrl), modules);
  }
  const path = role === "facilitator" ? "facilitator.relayer.keysFile" : "payment.relayer.keysFile";
  return createEngine(engineOptions(config, relayerKeys(config, env, role), path), modules);
}

/**
 * Opens ledger and chains, and builds verifier and settler of a role.
 * @throws AppError CONFIG_INVALID, CHAIN_MISMATCH, LEDGER_UNAVAILABLE, LEDGER_SCHEMA.
 */
export async function openPayments(
  input: ServiceInput,
  role: "gateway" | "facilitator",
  modules: PartModules,
  stack: AsyncDisposableStack,
): Promise<Payments> {
  const { config, env } = input;
  requireNetworks(config);
  const ledger = stack.use(await openLedger(config, role, modules));
  stack.use(startHousekeeping({ everyMs: config.payment.relayer.leaseSeconds * 500 }, { ledger, log: modules.log }));
  const chains = openChains(config, modules);
  for (const rpc of chains.values()) stack.use(rpc);
  const verifier = stack.use(createVerifier(verifierOptions(config), { ...modules, rpc: chains }));
  const check = stack.use(await checkChains(verifier, modules));
  const settler = stack.use(check.guard(await createSettler(config, env, role, { ...modules, ledger, rpc: chains })));
  return { ledger, verifier, settler, chains };
}

/** The payment stage of a gateway. */
export function createStage(config: Config, payments: Payments, modules: PartModules): PaymentStage {
  return createPaymentStage(
    {
      upstreamTimeoutMs: config.gateway.upstreamTimeoutMs,
      settleMarginMs: config.payment.settleMarginMs,
      settleWaitMs: config.payment.settleWaitMs,
      retryAfterSeconds: RETRY_AFTER_SECONDS,
      pollMs: POLL_MS,
    },
    { ...modules, verifier: payments.verifier, ledger: payments.ledger, settlers: [payments.settler] },
  );
}
