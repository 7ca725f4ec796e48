import { existsSync } from "node:fs";
import { AppError, assertUsd, decimalToUnits, type Log, redacted, systemClock, unitsToDecimal } from "@turnpike/base";
import type { Client, SpendJournal } from "@turnpike/client";
import type { McpServerOptions } from "@turnpike/mcp";
import { keyOf, networksOf, nodesOf, sellerOf } from "../../cli/buyer.ts";
import { type CommandContext, outputOf } from "../../cli/context.ts";
import { serve } from "../../cli/lifecycle.ts";
import { createLog } from "../../cli/logging.ts";
import { printError } from "../../cli/terminal.ts";
import { productVersion } from "../../cli/version.ts";
import { beginSession, type OpenJournal, openJournal } from "./journal.ts";

export interface McpOptions {
  readonly json?: boolean;
  readonly gateway?: string;
  readonly keyFile?: string;
  readonly perCall: string;
  readonly perSession: string;
  readonly total: string;
  readonly journal?: string;
  readonly rpc: readonly string[];
  readonly network: readonly string[];
  readonly maxAnswer: string;
  readonly http?: boolean;
  readonly port: string;
  readonly host: string;
  readonly tokenFile?: string;
  readonly allowHost: readonly string[];
  readonly allowOrigin: readonly string[];
  readonly maxSessions: string;
  readonly idleMinutes: string;
}

/** Clients of MCP give up after a minute by default: before that it gets the outcome, or that there is none yet. */
const REQUEST_TIMEOUT_MS = 45_000;
const RETRY_FOR_MS = 40_000;
/** Maximum size of an answer: a model is shown far less of it, and it is parsed beside other calls. */
const MAX_ANSWER_BYTES = 16 * 1_048_576;

/** A bound of the command line in micro-dollars, rounded down. */
function boundOf(flag: string, usd: string): bigint {
  assertUsd(flag, usd, "USAGE");
  return decimalToUnits(usd, 18) / 10n ** 12n;
}

function countOf(flag: string, text: string, least: number, most: number): number {
  const count = /^\d{1,9}$/.test(text) ? Number(text) : Number.NaN;
  if (count >= least && count <= most) return count;
  throw new AppError("USAGE", { message: `${flag}: expected a whole number from ${least} to ${most}.` });
}

async function tokenOf(opts: McpOptions, context: CommandContext): Promise<string | undefined> {
  const file = opts.tokenFile;
  if (file !== undefined && !existsSync(file))
    throw new AppError("USAGE", { message: `--token-file: ${redacted(file)} is not there.` });
  const { readClosedFile } = await import("@turnpike/config");
  const token = file === undefined ? context.env.TURNPIKE_MCP_TOKEN : readClosedFile(file, "--token-file").trim();
  if (token === undefined || token === "") {
    if (file !== undefined) throw new AppError("USAGE", { message: `--token-file: ${file} is empty.` });
    return undefined;
  }
  if (/^[\x21-\x7e]{16,512}$/.test(token)) return token;
  throw new AppError("USAGE", { message: "The token of MCP over HTTP must be 16 to 512 characters without spaces." });
}

/** What both ways of serving stand on. */
interface Buyer {
  readonly server: McpServerOptions;
  readonly perCallMicroUsd: bigint;
  readonly perSessionMicroUsd: bigint;
  readonly opened: OpenJournal;
  readonly client: (journal: SpendJournal) => Client;
}

async function buyerOf(opts: McpOptions, context: CommandContext): Promise<Buyer> {
  const perCallMicroUsd = boundOf("--per-call", opts.perCall);
  const perSessionMicroUsd = boundOf("--per-session", opts.perSession);
  const totalUsd = unitsToDecimal(boundOf("--total", opts.total), 6);
  const maxDataCharacters = countOf("--max-answer", opts.maxAnswer, 1_000, 2_000_000);
  const { gateway, up } = await sellerOf(opts, context);
  const key = await keyOf(opts, context, up);
  const networks = await networksOf(opts, up);
  const { createClient, signerFromKey } = await import("@turnpike/client");
  const signer = signerFromKey(key);
  const buyer = { gateway, address: signer.address, local: up !== undefined };
  const opened = await openJournal(opts.journal, buyer, context.env);
  const rpcUrls = nodesOf(opts.rpc, up);
  const budget = { perCallUsd: unitsToDecimal(perCallMicroUsd, 6), totalUsd };
  return {
    server: { gateway, version: productVersion(), buyer: signer.address, totalUsd, maxDataCharacters },
    perCallMicroUsd,
    perSessionMicroUsd,
    opened,
    client: (journal) =>
      createClient({
        gateway,
        signer,
        budget,
        journal,
        rpcUrls,
        ...(networks === undefined ? {} : { networks }),
        requestTimeoutMs: REQUEST_TIMEOUT_MS,
        retryForMs: RETRY_FOR_MS,
        maxAnswerBytes: MAX_ANSWER_BYTES,
        // Answers are shown from their text. The values of one may be millions, and hold up all other calls.
        maxParsedValues: 0,
      }),
  };
}

/** Says on the error output what was started: standard output is the protocol's. */
function sayStarted(opts: McpOptions, { server, opened }: Buyer, where: string, more: string): void {
  const facts = {
    ready: true,
    mcp: where,
    gateway: server.gateway,
    buyer: server.buyer,
    perCallUsd: opts.perCall,
    perSessionUsd: opts.perSession,
    totalUsd: opts.total,
    journal: opened.file,
  };
  const line =
    `MCP on ${where}: buys from ${server.gateway} as ${server.buyer}, at most ${opts.perCall} USD a call, ` +
    `${opts.perSession} USD a session, ${opts.total} USD in all; journal ${opened.file}${more}`;
  printError(opts.json === true ? `${JSON.stringify(facts)}\n` : `${line}\n`);
}

/** Says that the other end has gone: no fault. */
class InputEnded extends Error {}

async function serveStdio(opts: McpOptions, context: CommandContext, buyer: Buyer, log: Log): Promise<void> {
  const { GatewayDocuments, McpSession, serveMcpStdio } = await import("@turnpike/mcp");
  const { server, opened, client, perCallMicroUsd, perSessionMicroUsd } = buyer;
  using began = beginSession(opened);
  const { usedMicroUsd, since, isCutOff } = began;
  const budgets = { perCallMicroUsd, perSessionMicroUsd, usedMicroUsd, onUsed: began.record };
  const session = new McpSession(budgets, { journal: opened.journal });
  const documents = new GatewayDocuments({ gateway: server.gateway }, { clock: systemClock });
  const used = unitsToDecimal(usedMicroUsd, 6);
  try {
    await serve(context, { log }, async () => {
      const stdio = serveMcpStdio(server, { client, session, documents, log });
      const end = isCutOff ? "was cut off" : "ended";
      const more =
        since === undefined ? "" : `; goes on with the session of ${since}, which ${end} with ${used} USD used`;
      sayStarted(opts, buyer, "standard input and output", more);
      return {
        failed: stdio.closed.then(() => Promise.reject(new InputEnded())),
        [Symbol.asyncDispose]: () => stdio[Symbol.asyncDispose](),
      };
    });
  } catch (error) {
    if (!(error instanceof InputEnded)) throw error;
  }
}

async function serveHttp(opts: McpOptions, context: CommandContext, buyer: Buyer, log: Log): Promise<void> {
  const { GatewayDocuments, McpSession, serveMcpHttp } = await import("@turnpike/mcp");
  const { server, opened, client, perCallMicroUsd, perSessionMicroUsd } = buyer;
  const token = await tokenOf(opts, context);
  const documents = new GatewayDocuments({ gateway: server.gateway }, { clock: systemClock });
  const newSession = () => new McpSession({ perCallMicroUsd, perSessionMicroUsd }, { journal: opened.journal });
  await serve(context, { log }, async () => {
    const http = await serveMcpHttp(
      {
        ...server,
        port: countOf("--port", opts.port, 0, 65_535),
        host: opts.host,
        ...(token === undefined ? {} : { token }),
        allowedHosts: opts.allowHost,
        allowedOrigins: opts.allowOrigin,
        maxSessions: countOf("--max-sessions", opts.maxSessions, 1, 4_096),
        idleMs: countOf("--idle-minutes", opts.idleMinutes, 1, 1_440) * 60_000,
      },
      { client, newSession, documents, log, clock: systemClock },
    );
    sayStarted(opts, buyer, http.url, token === undefined ? "; no token" : "; with a token");
    outputOf(opts).result({ ready: true, mcp: http.url });
    return http;
  });
}

/** Serves an agent until its input ends, or a signal comes. @throws AppError USAGE, SPEND_JOURNAL and others. */
export async function mcp(opts: McpOptions, context: CommandContext): Promise<void> {
  const buyer = await buyerOf(opts, context);
  await using _journal = buyer.opened.journal;
  const log = createLog({ level: "info", name: "mcp" });
  if (opts.http === true) await serveHttp(opts, context, buyer, log);
  else await serveStdio(opts, context, buyer, log);
}
