import { AppError, type Log, type Metrics, systemClock } from "@turnpike/base";
import type { Config } from "@turnpike/config";
import {
  inspectPortalDb,
  type MigratePortalDbResult,
  type MintedToken,
  migratePortalDb,
  mintToken,
  type PortalDb,
  type PortalDbFault,
  startPortalDb,
  type TokenKeyOptions,
} from "@turnpike/portal-db";
import { PrometheusMetrics, startMetricsServer } from "@turnpike/telemetry";

/** A running management data API with its metrics. */
export interface PortalService extends AsyncDisposable {
  readonly portal: PortalDb;
  /** Undefined when there is no metrics server. */
  readonly metricsPort: number | undefined;
  readonly metrics: Metrics;
}

const refuse = (message: string): AppError => new AppError("CONFIG_INVALID", { message });

/** The keys that tokens are checked with. @throws AppError CONFIG_INVALID when there is none. */
export function portalKeys({ portalDb: { jwt } }: Config): readonly TokenKeyOptions[] {
  const keys: TokenKeyOptions[] = [];
  if (jwt.secret !== undefined) keys.push({ kid: undefined, algorithm: "HS256", material: jwt.secret });
  for (const { kid, algorithm, secret, publicKey } of jwt.keys) {
    keys.push({ kid, algorithm, material: secret ?? publicKey ?? "" });
  }
  if (keys.length > 0) return keys;
  throw refuse(
    "portalDb.jwt.secret: missing; set PORTAL_JWT_SECRET to one of your own, such as of openssl rand -hex 32.",
  );
}

/** The owner's URL. @throws AppError CONFIG_INVALID when there is none. */
export function portalOwnerUrl({ portalDb, ledger }: Config): string {
  const url = portalDb.ownerUrl ?? ledger.url;
  if (url !== undefined) return url;
  throw refuse(
    "portalDb.ownerUrl: missing; set it, PORTAL_OWNER_DATABASE_URL or DATABASE_URL to the PostgreSQL of the management data, as its owner.",
  );
}

/** True when a configuration has management data at all. */
export function hasPortal({ portalDb }: Config): boolean {
  return portalDb.url !== undefined;
}

function passwordOf(url: string | undefined): string | undefined {
  const password = url === undefined ? "" : new URL(url).password;
  return password === "" ? undefined : decodeURIComponent(password);
}

/** Makes or updates tables and roles of the management data. */
export function migratePortal(config: Config, log: Log): Promise<MigratePortalDbResult> {
  const { url, gatewayUrl } = config.portalDb;
  return migratePortalDb(
    {
      url: portalOwnerUrl(config),
      authenticatorPassword: passwordOf(url),
      gatewayPassword: passwordOf(gatewayUrl),
      // `turnpike up` makes its own: two of them on one server would lock each other out.
      keepsUsedPasswords: config.localnet,
    },
    { log },
  );
}

/** Faults of the management data: what they lack of what their migrations make. */
export function inspectPortal(config: Config): Promise<readonly PortalDbFault[]> {
  return inspectPortalDb(config.portalDb.url ?? portalOwnerUrl(config));
}

/** What a token is made from. */
export interface PortalTokenInput {
  readonly role: "reader" | "admin";
  readonly accountId: string | undefined;
  readonly lifetimeSeconds: number;
  /** Key of the configuration to sign with; undefined: the secret without a `kid`, else the first key with a secret. */
  readonly kid: string | undefined;
  /** Private key (PEM, PKCS #8) of that `kid`, for RS256 and ES256. */
  readonly privateKey: string | undefined;
}

/** Makes a token. @throws AppError CONFIG_INVALID, USAGE. */
export function mintPortalToken(config: Config, input: PortalTokenInput): Promise<MintedToken> {
  const keys = portalKeys(config);
  const { kid, privateKey } = input;
  const { audience, maxLifetimeSeconds } = config.portalDb.jwt;
  const key =
    kid === undefined ? keys.find(({ algorithm }) => algorithm === "HS256") : keys.find((one) => one.kid === kid);
  if (key === undefined) {
    throw new AppError("USAGE", {
      message:
        kid === undefined ? "There is no secret to sign with; name a key with --kid." : `There is no key ${kid}.`,
    });
  }
  const material = key.algorithm === "HS256" ? key.material : privateKey;
  if (material === undefined) {
    throw new AppError("USAGE", { message: `The key ${kid} is public; give its private key with --key-file.` });
  }
  if (input.lifetimeSeconds > maxLifetimeSeconds) {
    throw new AppError("USAGE", {
      message: `--expires: at most ${maxLifetimeSeconds} seconds (portalDb.jwt.maxLifetimeSeconds).`,
    });
  }
  return mintToken(
    {
      role: input.role,
      accountId: input.accountId,
      lifetimeSeconds: input.lifetimeSeconds,
      audience,
      key: { kid: key.kid, algorithm: key.algorithm, material },
    },
    { clock: systemClock },
  );
}

function isPortTaken(error: unknown): boolean {
  return error instanceof Error && "code" in error && error.code === "EADDRINUSE";
}

/**
 * Builds and starts the management data API.
 * @throws AppError CONFIG_INVALID, PORTAL_DB_UNAVAILABLE, PORTAL_DB_SCHEMA, PORT_IN_USE.
 */
export async function startPortal(config: Config, modules: { readonly log: Log }): Promise<PortalService> {
  const { log } = modules;
  const { portalDb, allowedHosts } = config;
  const { url, metrics: watched, jwt, rate } = portalDb;
  if (url === undefined) {
    throw refuse(
      "portalDb.url: missing; set it, or PORTAL_DATABASE_URL, to the PostgreSQL of the management data, as portal_authenticator.",
    );
  }
  const keys = portalKeys(config);
  await using stack = new AsyncDisposableStack();
  const metrics = new PrometheusMetrics({ processMetrics: watched.port !== undefined });
  const metricsPort =
    watched.port === undefined
      ? undefined
      : stack.use(await startMetricsServer({ host: watched.host, port: watched.port, allowedHosts }, { metrics, log }))
          .port;
  try {
    const portal = stack.use(
      await startPortalDb(
        {
          ...portalDb,
          ...rate,
          allowedHosts,
          databaseUrl: url,
          keys,
          audience: jwt.audience,
          maxLifetimeSeconds: jwt.maxLifetimeSeconds,
        },
        { clock: systemClock, log, metrics },
      ),
    );
    const owned = stack.move();
    return { portal, metricsPort, metrics, [Symbol.asyncDispose]: () => owned.disposeAsync() };
  } catch (cause) {
    if (!isPortTaken(cause)) throw cause;
    throw new AppError("PORT_IN_USE", {
      message: `portalDb.port: ${portalDb.port} is in use by another program.`,
      cause,
    });
  }
}
