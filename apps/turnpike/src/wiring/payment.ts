import type { NetworkId } from "@turnpike/base";
import { type Config, relayerKeysByNetwork } from "@turnpike/config";
import {
  BackOff,
  createEngine,
  createRemoteSettler,
  type EvmRpc,
  EvmVerifier,
  type Ledger,
  type PaymentStage,
  type Receiver,
  type Settler,
  type SharedTokens,
  startHousekeeping,
  startLedgerGauges,
  X402PaymentStage,
} from "@turnpike/payment";
import { checkChains } from "./chain-check.ts";
import { reportCurve } from "./curve.ts";
import { openLedger } from "./ledger.ts";
import type { PartModules, ServiceInput } from "./modules.ts";
import { engineOptions, gatewayEngineOptions, openChains, remoteOptions, verifierOptions } from "./networks.ts";
import { optionNetworks } from "./offers.ts";

/** `Retry-After` of a settlement that is pending. */
const RETRY_AFTER_SECONDS = 2;
/** Least time between two sums of the ledger for the gauges. */
const SUMS_EVERY_MS = 30_000;
/** How often a payment that another process works on is looked at. */
const POLL_MS = 100;

/** What takes and settles payments; all of it ends with the stack that it was made on. */
export interface Payments {
  readonly ledger: Ledger;
  readonly verifier: EvmVerifier;
  readonly settler: Settler;
  readonly chains: ReadonlyMap<NetworkId, EvmRpc>;
}

const isRemote = ({ payment }: Config, role: "gateway" | "facilitator"): boolean =>
  role === "gateway" && payment.mode === "remote";

async function createSettler(
  { config, env, waits }: ServiceInput,
  role: "gateway" | "facilitator",
  modules: PartModules & {
    readonly ledger: Ledger;
    readonly rpc: ReadonlyMap<NetworkId, EvmRpc>;
    readonly backOff: BackOff;
    readonly current?: () => Config;
  },
): Promise<Settler> {
  const { facilitatorUrl } = config.payment;
  if (isRemote(config, role) && facilitatorUrl !== undefined) {
    return createRemoteSettler(remoteOptions(config, facilitatorUrl), modules);
  }
  const path = role === "facilitator" ? "facilitator.relayer.keysFile" : "payment.relayer.keysFile";
  // A facilitator settles for sales of others, which its ledger does not know: it watches no receiver.
  const optionsOf = role === "gateway" ? gatewayEngineOptions : engineOptions;
  const options = optionsOf(config, relayerKeysByNetwork(config, env, role), path, modules.current);
  const chainTimeoutMs = waits?.chainMs;
  return createEngine(chainTimeoutMs === undefined ? options : { ...options, chainTimeoutMs }, modules);
}

const receiverOf = ({ network, asset, payTo }: Config["payment"]["networks"][number]): Receiver => ({
  network: network as NetworkId,
  asset,
  payTo,
});

/**
 * Opens ledger and chains, and builds verifier and settler of a role. `current` is the configuration in effect, for what
 * may change while it runs; that of the input by default.
 * @throws AppError CONFIG_INVALID, CHAIN_MISMATCH, LEDGER_UNAVAILABLE, LEDGER_SCHEMA.
 */
export async function openPayments(
  input: ServiceInput,
  role: "gateway" | "facilitator",
  modules: PartModules & { readonly current?: () => Config },
  stack: AsyncDisposableStack,
): Promise<Payments> {
  const { config, env } = input;
  reportCurve(modules);
  // A facilitator settles for others' sales: it may have its gateway's receivers.
  const receivers = role === "gateway" ? config.payment.networks : [];
  const ledger = stack.use(await openLedger(config, role, modules, input.waits, receivers.map(receiverOf)));
  stack.use(startHousekeeping({ everyMs: config.payment.relayer.leaseSeconds * 500 }, { ledger, log: modules.log }));
  stack.use(startLedgerGauges({ everyMs: SUMS_EVERY_MS }, { ...modules, ledger }));
  const chains = openChains(config, { ...modules, ledger });
  for (const rpc of chains.values()) stack.use(rpc);
  const backOff = new BackOff({}, modules);
  const keys = isRemote(config, role) ? undefined : relayerKeysByNetwork(config, env, role);
  const verifier = stack.use(
    new EvmVerifier(verifierOptions(config, keys), { ...modules, rpc: chains, backOff, wallets: ledger }),
  );
  const check = stack.use(await checkChains([...chains.keys()], verifier, modules));
  const settler = stack.use(
    check.guard(await createSettler(input, role, { ...modules, ledger, rpc: chains, backOff })),
  );
  return { ledger, verifier, settler, chains };
}

/** Share of the paid calls in flight that may be copies of a payment, waiting for its outcome. */
const COPIES_SHARE = 0.25;

/** The payment stage of a gateway. `current` is the configuration in effect, for what may change while it runs. */
export function createStage(
  config: Config,
  payments: Payments,
  modules: PartModules & { readonly current: () => Config; readonly payerTokens?: SharedTokens },
): PaymentStage {
  return new X402PaymentStage(
    {
      upstreamTimeoutMs: config.gateway.upstreamTimeoutMs,
      settleMarginMs: config.payment.settleMarginMs,
      settleWaitMs: config.payment.settleWaitMs,
      retryAfterSeconds: RETRY_AFTER_SECONDS,
      pollMs: POLL_MS,
      maxWaitingCopies: Math.ceil(config.gateway.maxConcurrentRequests * COPIES_SHARE),
      keylessAnswerMs: config.ledger.keylessAnswerSeconds * 1_000,
      networks: optionNetworks(config),
      unpaidPerPayer: () => modules.current().limits.unpaid.perPayer,
    },
    { ...modules, verifier: payments.verifier, ledger: payments.ledger, settlers: [payments.settler] },
  );
}
