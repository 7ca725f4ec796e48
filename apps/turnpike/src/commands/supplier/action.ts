import { AppError, isRecord } from "@turnpike/base";
import type { Config } from "@turnpike/config";
import { findUpConfig } from "@turnpike/devnet/files";
import { configFileOf, configOf } from "../../cli/config-file.ts";
import { type CommandContext, hostText, outputOf } from "../../cli/context.ts";
import { httpExchange } from "../../cli/http-exchange.ts";
import { serve } from "../../cli/lifecycle.ts";
import { createLog } from "../../cli/logging.ts";
import { startSupplier } from "../../wiring/supplier.ts";
import { checkSupplier } from "../../wiring/supplier-check.ts";
import { statusLines } from "./text.ts";

export interface SupplierOptions {
  readonly json?: boolean;
  readonly config?: string;
}

const STATUS_TIMEOUT_MS = 10_000;
const MAX_STATUS_BYTES = 8 * 1_048_576;

/** The configuration of a command that looks at what runs: where none is named, that of a running `turnpike up`. */
function runningConfig(opts: SupplierOptions, context: CommandContext): Config {
  const local = configFileOf(context, opts.config) === undefined ? findUpConfig(process.cwd()) : undefined;
  return configOf(context, local ?? opts.config);
}

/** Serves relays until a signal ends it. */
export async function start(opts: SupplierOptions, context: CommandContext): Promise<void> {
  const config = configOf(context, opts.config);
  const output = outputOf(opts);
  const log = createLog({ level: config.log.level, name: "supplier" });
  await serve(context, { log }, async () => {
    const running = await startSupplier(config, { log });
    const { operators, metricsUrl, metrics } = running;
    output.result({
      ready: true,
      operators,
      ...(metricsUrl === undefined ? {} : { metrics: `${metricsUrl}/metrics` }),
    });
    for (const { address, url } of operators) output.line(`supplier  ${url}  ${address}`);
    if (metricsUrl !== undefined) output.line(`metrics   ${metricsUrl}/metrics`);
    return { drainMs: () => 10_000, metrics, [Symbol.asyncDispose]: () => running[Symbol.asyncDispose]() };
  });
}

/** The status that a running supplier answers with; undefined when none does. */
async function askStatus({ metrics: { host, port } }: Config["supplier"]): Promise<unknown> {
  if (port === undefined) return undefined;
  const url = new URL(`http://${hostText(host)}:${port}/status`);
  const reply = await httpExchange(url, {
    verb: "GET",
    timeoutMs: STATUS_TIMEOUT_MS,
    maxBytes: MAX_STATUS_BYTES,
  }).catch(() => undefined);
  return reply?.status === 200 ? JSON.parse(reply.body.toString("utf8")) : undefined;
}

/**
 * Shows what a supplier has served and earned: from the supplier itself where it runs, else from its folder.
 * @throws AppError SUPPLIER_STATUS_UNREACHABLE
 */
export async function status(opts: SupplierOptions, context: CommandContext): Promise<void> {
  const { supplier } = runningConfig(opts, context);
  const output = outputOf(opts);
  const asked = await askStatus(supplier);
  if (isRecord(asked)) {
    output.result({ ...asked, isRunning: true });
    for (const line of statusLines(asked)) output.line(line);
    return;
  }
  const { stateFolder } = supplier;
  if (stateFolder === undefined) {
    throw new AppError("SUPPLIER_STATUS_UNREACHABLE", {
      message: "No supplier answers at supplier.metrics, and supplier.stateFolder is not set.",
    });
  }
  const { readSupplyReport } = await import("@turnpike/supplier");
  const report = await readSupplyReport(stateFolder);
  output.result({ ...report, isRunning: false });
  output.line(`No supplier answers at supplier.metrics; this is what ${stateFolder} has.`);
  for (const line of statusLines({ ...report })) output.line(line);
}

/** Holds the configuration against the chain; ends with 1 when something is wrong. */
export async function check(opts: SupplierOptions, context: CommandContext): Promise<void> {
  const config = runningConfig(opts, context);
  const output = outputOf(opts);
  const findings = await checkSupplier(config);
  output.result({ findings });
  for (const { ok, what, text } of findings)
    output.line(`${ok ? "ok   " : "FAULT"}  ${what}${text === "" ? "" : `: ${text}`}`);
  if (findings.some(({ ok }) => !ok)) context.exitWith(1);
}
