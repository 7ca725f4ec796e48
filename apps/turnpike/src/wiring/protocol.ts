import { type Log, type Metrics, systemClock } from "@turnpike/base";
import { isBuiltin, isRegistrable } from "@turnpike/catalogue";
import { ChainClient, ChainHead, PocketQueries } from "@turnpike/chain-client";
import { type Config, readChainKeyFile } from "@turnpike/config";
import { SigningThreads } from "@turnpike/crypto";
import {
  MAX_REGISTERED_SERVICES,
  relayEngineBounds,
  type ServiceOrigin,
  SessionSource,
  SessionSuppliers,
  type SigningKey,
  signingKey,
} from "@turnpike/relay";
import { RegisteredServices } from "./registered-services.ts";

/** A dead node must not keep a gateway from starting: sessions come when it answers. */
const FIRST_SESSIONS_MS = 10_000;
/** Blocks between looks at which applications are delegated. */
const RENEW_BLOCKS = 5n;
const MAX_JITTER_MS = 150;

/** What a gateway has of the chain's sessions. */
export interface OpenedSessions {
  readonly suppliers: SessionSuppliers;
  readonly registered: RegisteredServices;
}

/** Keys that sign relays. @throws AppError CONFIG_INVALID */
function protocolKeys({ protocol }: Config): {
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
 * The suppliers of the chain's sessions for this gateway, and the services that only the chain has; undefined when the
 * configuration names no node. Waits a moment for the first of both.
 *
 * @param current - the configuration in effect
 * @throws AppError CONFIG_INVALID
 */
export async function openSessions(
  current: () => Config,
  modules: { readonly log: Log; readonly metrics: Metrics },
  stack: AsyncDisposableStack,
): Promise<OpenedSessions | undefined> {
  const config = current();
  const { nodeUrl, signingThreads, extraRelaysPercent, allowPrivateSuppliers } = config.protocol;
  if (nodeUrl === undefined) return undefined;
  const { log, metrics } = modules;
  const keys = protocolKeys(config);
  const originOf = (id: string): ServiceOrigin => serviceOrigin(current(), id);
  const client = stack.use(new ChainClient({ url: nodeUrl }, { clock: systemClock }));
  const head = stack.use(new ChainHead({ url: nodeUrl }, { clock: systemClock, log }));
  const queries = new PocketQueries({}, { client, clock: systemClock, head });
  const threads = stack.use(new SigningThreads({ threads: signingThreads }, { log, clock: systemClock }));
  const source = stack.use(
    new SessionSource(
      {
        ...keys,
        renewBlocks: RENEW_BLOCKS,
        maxJitterMs: MAX_JITTER_MS,
        originOf,
        usesDelegated: (id) => usesDelegated(current(), id),
      },
      { queries, head, clock: systemClock, random: Math.random, metrics, log },
    ),
  );
  const suppliers = stack.use(
    new SessionSuppliers(
      { ...relayEngineBounds, ...config.relay, extraRelaysPercent, allowPrivateSuppliers },
      { source, threads, clock: systemClock, metrics, log },
    ),
  );
  const registered = stack.use(
    new RegisteredServices(
      { maxServices: MAX_REGISTERED_SERVICES },
      { source, queries, originOf, log, needsOwners: () => sellsByOwner(current()) },
    ),
  );
  const signal = AbortSignal.timeout(FIRST_SESSIONS_MS);
  await source.start(signal);
  const late = Promise.withResolvers<void>();
  signal.addEventListener("abort", () => late.resolve(), { once: true });
  if (!signal.aborted) await Promise.race([registered.look(), late.promise]);
  return { suppliers, registered };
}

/** What the operator has configured suppliers for is not left to those who delegate. */
function usesDelegated({ suppliers, protocol }: Config, id: string): boolean {
  return protocol.delegatedBeforeStatic || !Object.hasOwn(suppliers, id);
}

function sellsByOwner({ protocol: { sell, sellOwners } }: Config): boolean {
  return sell === "listed" && sellOwners.length > 0;
}

/** Whose a service is. An id that the operator defined or the catalogue has is theirs, in whatever state and letter case. */
export function serviceOrigin(config: Pick<Config, "catalogue" | "protocol">, id: string): ServiceOrigin {
  if (Object.hasOwn(config.catalogue.services, id) || isBuiltin(id)) return "known";
  const lower = id.toLowerCase();
  const { refuseServices } = config.protocol;
  const isRefused =
    refuseServices.includes(id) || refuseServices.includes(lower) || Object.hasOwn(config.catalogue.services, lower);
  return isRegistrable(id) && !isRefused ? "registered" : "refused";
}
