import { type Log, type Metrics, systemClock } from "@turnpike/base";
import { ChainClient, ChainHead, PocketQueries } from "@turnpike/chain-client";
import { type Config, readChainKeyFile } from "@turnpike/config";
import { SigningThreads } from "@turnpike/crypto";
import { relayEngineDefaults, SessionSource, SessionSuppliers, type SigningKey, signingKey } from "@turnpike/relay";

/** A dead node must not keep a gateway from starting: sessions come when it answers. */
const FIRST_SESSIONS_MS = 10_000;
/** Blocks between looks at which applications are delegated. */
const RENEW_BLOCKS = 5n;
const MAX_JITTER_MS = 150;

/** Keys that sign relays. @throws AppError CONFIG_INVALID */
export function protocolKeys({ protocol }: Config): {
  readonly gatewayKey: SigningKey | undefined;
  readonly applicationKeys: readonly SigningKey[];
} {
  const { gatewayKeyFile, applicationKeyFiles } = protocol;
  return {
    gatewayKey:
      gatewayKeyFile === undefined
        ? undefined
        : signingKey(readChainKeyFile(gatewayKeyFile, "protocol.gatewayKeyFile")),
    applicationKeys: applicationKeyFiles.map((file, at) =>
      signingKey(readChainKeyFile(file, `protocol.applicationKeyFiles[${at}]`)),
    ),
  };
}

/**
 * The suppliers of the chain's sessions for this gateway; undefined when the configuration names no node. Waits a moment
 * for the first sessions.
 * @throws AppError CONFIG_INVALID
 */
export async function openSessionSuppliers(
  config: Config,
  modules: { readonly log: Log; readonly metrics: Metrics },
  stack: AsyncDisposableStack,
): Promise<SessionSuppliers | undefined> {
  const { nodeUrl, signingThreads, extraRelaysPercent, allowPrivateSuppliers } = config.protocol;
  if (nodeUrl === undefined) return undefined;
  const { log, metrics } = modules;
  const keys = protocolKeys(config);
  const client = stack.use(new ChainClient({ url: nodeUrl }, { clock: systemClock }));
  const head = stack.use(new ChainHead({ url: nodeUrl }, { clock: systemClock, log }));
  const queries = new PocketQueries({}, { client, clock: systemClock });
  const threads = stack.use(new SigningThreads({ threads: signingThreads }, { log, clock: systemClock }));
  const source = stack.use(
    new SessionSource(
      { ...keys, renewBlocks: RENEW_BLOCKS, maxJitterMs: MAX_JITTER_MS },
      { queries, head, clock: systemClock, random: Math.random, metrics, log },
    ),
  );
  const suppliers = stack.use(
    new SessionSuppliers(
      { ...relayEngineDefaults, ...config.relay, extraRelaysPercent, allowPrivateSuppliers },
      { source, threads, clock: systemClock, metrics, log },
    ),
  );
  await source.start(AbortSignal.timeout(FIRST_SESSIONS_MS));
  return suppliers;
}
