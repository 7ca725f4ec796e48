import { AppError, isAppError } from "@turnpike/base";
import { type Config, readClosedFile } from "@turnpike/config";
import { findUpConfig } from "@turnpike/devnet/files";
import { revokeToken } from "@turnpike/portal-db";
import { configFileOf, configOf } from "../../cli/config-file.ts";
import { type CommandContext, hostText, outputOf } from "../../cli/context.ts";
import { secondsOf } from "../../cli/duration.ts";
import { serve } from "../../cli/lifecycle.ts";
import { createLog } from "../../cli/logging.ts";
import { mintPortalToken, portalKeys, portalOwnerUrl, startPortal } from "../../wiring/portal-db.ts";
import type { DbOptions } from "./action.ts";

export interface TokenOptions extends DbOptions {
  readonly role: string;
  readonly account?: string;
  readonly expires: string;
  readonly kid?: string;
  readonly keyFile?: string;
}

export interface RevokeFlags extends DbOptions {
  readonly reason?: string;
}

/** The configuration of a command that works on what runs: where none is named, that of a running `turnpike up`. */
function localConfig(opts: DbOptions, context: CommandContext): Config {
  const local = configFileOf(context, opts.config) === undefined ? findUpConfig(process.cwd()) : undefined;
  return configOf(context, local ?? opts.config);
}

/** Says both ways out where no configuration is named, nothing runs here, and what is needed is not there. */
async function orStart<T>(opts: DbOptions, context: CommandContext, work: () => T | Promise<T>): Promise<T> {
  try {
    return await work();
  } catch (cause) {
    const isNowhere = configFileOf(context, opts.config) === undefined && findUpConfig(process.cwd()) === undefined;
    if (!isAppError(cause, "CONFIG_INVALID") || !isNowhere) throw cause;
    throw new AppError("USAGE", {
      message:
        "There is no management data to work on: no `npm start` runs in this folder or one above it, and no " +
        `configuration is given. Start it, or give --config. Without either: ${cause.message}`,
      cause,
    });
  }
}

function roleOf(text: string): "reader" | "admin" {
  if (text === "reader" || text === "admin") return text;
  throw new AppError("USAGE", { message: "--role: expected reader or admin." });
}

/** Serves the management data until a signal ends it. SIGHUP reads the token keys of the configuration anew. */
export async function serveData(opts: DbOptions, context: CommandContext): Promise<void> {
  const config = configOf(context, opts.config);
  const output = outputOf(opts);
  const log = createLog({ level: config.log.level, name: "db" });
  await serve(context, { log }, async () => {
    const service = await startPortal(config, { log });
    const { portal, metricsPort } = service;
    const { host } = config.portalDb.metrics;
    const metrics = metricsPort === undefined ? undefined : `http://${hostText(host)}:${metricsPort}/metrics`;
    output.result({ ready: true, db: portal.url, ...(metrics === undefined ? {} : { metrics }) });
    output.line(`management data  ${portal.url}`);
    if (metrics !== undefined) output.line(`metrics          ${metrics}`);
    const reload = async (): Promise<void> => {
      try {
        await portal.setKeys(portalKeys(configOf(context, opts.config)));
        await portal.reload();
        log.info({}, "token keys and tables were read anew");
      } catch (error) {
        log.error({ code: error instanceof AppError ? error.code : "INTERNAL" }, "the old token keys stay in use");
      }
    };
    return {
      onHangUp: () => void reload(),
      metrics: service.metrics,
      [Symbol.asyncDispose]: () => service[Symbol.asyncDispose](),
    };
  });
}

/** Makes a token. @throws AppError USAGE, CONFIG_INVALID. */
export async function token(opts: TokenOptions, context: CommandContext): Promise<void> {
  const output = outputOf(opts);
  const config = localConfig(opts, context);
  const input = {
    role: roleOf(opts.role),
    accountId: opts.account?.toLowerCase(),
    lifetimeSeconds: secondsOf(opts.expires, "--expires", "; each token ends"),
    kid: opts.kid,
    privateKey: opts.keyFile === undefined ? undefined : readClosedFile(opts.keyFile, "--key-file"),
  };
  const made = await orStart(opts, context, () => mintPortalToken(config, input));
  const expiresAt = new Date(made.expiresAtMs).toISOString();
  output.result({ token: made.token, id: made.id, expiresAt });
  output.line(made.token);
  output.progress(`Id ${made.id}, until ${expiresAt}.`);
}

/** Takes a token back by its id. @throws AppError USAGE, CONFIG_INVALID, PORTAL_DB_UNAVAILABLE. */
export async function revoke(tokenId: string, opts: RevokeFlags, context: CommandContext): Promise<void> {
  const output = outputOf(opts);
  // Ids that other signers of tokens choose may have dots too.
  if (tokenId.length > 255 || /^eyJ[^.]*\.[^.]*\.[^.]*$/.test(tokenId)) {
    throw new AppError("USAGE", { message: "Expected the id of a token (jti), not the token itself." });
  }
  const config = localConfig(opts, context);
  const url = await orStart(opts, context, () => portalOwnerUrl(config));
  const isNew = await revokeToken({ url, tokenId, reason: opts.reason });
  output.result({ revoked: tokenId, isNew });
  output.line(isNew ? "It is refused from now on, at the latest in two seconds." : "It was revoked already.");
}
