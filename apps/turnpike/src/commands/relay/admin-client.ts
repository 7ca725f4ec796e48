import { AppError, ERRORS, type ErrorCode, errorRow, isRecord, parseJson, trimEndOf } from "@turnpike/base";
import { configOf } from "../../cli/config-file.ts";
import { type CommandContext, hostText } from "../../cli/context.ts";
import { type HttpReply, httpExchange } from "../../cli/http-exchange.ts";

/** Where an admin API is, and the token for it. */
export interface AdminAddress {
  readonly url: string;
  readonly token: string;
}

/** What every command of the admin API takes. */
export interface AdminFlags {
  readonly json?: boolean;
  readonly config?: string;
  readonly admin?: string;
}

const TIMEOUT_MS = 60_000;
const MAX_BYTES = 64 * 1_048_576;
const WILDCARDS: Readonly<Record<string, string>> = { "0.0.0.0": "127.0.0.1", "::": "::1" };

/**
 * Finds the admin API: by --admin or TURNPIKE_ADMIN_URL, else by the configuration. The token is never an option, which
 * others on the machine could read.
 * @throws AppError USAGE that says what is missing.
 */
export function adminAddress(flags: AdminFlags, context: CommandContext): AdminAddress {
  const { env } = context;
  const given = flags.admin ?? env.TURNPIKE_ADMIN_URL;
  const known = env.TURNPIKE_ADMIN_TOKEN;
  const config = given === undefined || known === undefined ? configOf(context, flags.config).admin : undefined;
  const token = known ?? config?.token;
  if (token === undefined) {
    throw new AppError("USAGE", { message: "There is no admin token: set TURNPIKE_ADMIN_TOKEN, or admin.token." });
  }
  if (given !== undefined) {
    if (!URL.canParse(given) || !/^https?:$/.test(new URL(given).protocol)) {
      throw new AppError("USAGE", { message: "The address of the admin API is no http:// or https:// URL." });
    }
    return { url: trimEndOf(given, "/"), token };
  }
  if (config?.port === undefined || config.port === 0) {
    throw new AppError("USAGE", {
      message:
        "There is no admin API in the configuration: set admin.port, name the file with --config, or its address with --admin. The gateway of `npm start` has none.",
    });
  }
  return { url: `http://${hostText(WILDCARDS[config.host] ?? config.host)}:${config.port}`, token };
}

/**
 * Sends one request to an admin API, and gives the JSON of its answer.
 * @throws AppError with the code that it answered, or ADMIN_UNREACHABLE.
 */
export async function askAdmin(
  address: AdminAddress,
  verb: "GET" | "POST" | "PUT",
  path: string,
  body?: unknown,
): Promise<unknown> {
  let reply: HttpReply;
  try {
    const text = body === undefined ? undefined : JSON.stringify(body);
    reply = await httpExchange(new URL(address.url + path), {
      verb,
      token: address.token,
      body: text,
      timeoutMs: TIMEOUT_MS,
      maxBytes: MAX_BYTES,
    });
  } catch (cause) {
    const message = `The gateway's admin API at ${address.url} cannot be reached.`;
    throw new AppError("ADMIN_UNREACHABLE", { message, cause });
  }
  const parsed = parseJson(reply.body, { maxNodes: 10_000_000 });
  const value = parsed.ok ? parsed.value : undefined;
  if (reply.status === 200 && value !== undefined) return value;
  const code = isRecord(value) && typeof value.code === "string" ? value.code : "";
  if (!isRecord(value) || !isCode(code)) {
    throw new AppError("ADMIN_UNREACHABLE", {
      message: `${address.url} is no admin API: it answered ${reply.status}.`,
    });
  }
  const faults = Array.isArray(value.faults) ? value.faults.map(String) : [];
  // The command that prints the error adds the advice of its code.
  const message = String(value.message).replace(` ${errorRow(code).advice}`, "");
  throw new AppError(code, { message: [message, ...faults].join("\n"), detail: { faults } });
}

function isCode(text: string): text is ErrorCode {
  return Object.hasOwn(ERRORS, text);
}
