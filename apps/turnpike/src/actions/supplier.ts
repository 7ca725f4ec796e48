import { AppError, isRecord } from "@turnpike/base";
import type { Config } from "@turnpike/config";
import { type CommandContext, hostText, outputOf } from "../context.ts";
import { serve } from "../lifecycle.ts";
import { createLog } from "../logging.ts";
import { localGet } from "../up/http-ready.ts";
import { findUpConfig } from "../up-file.ts";
import { startSupplier } from "../wiring/supplier.ts";
import { checkSupplier } from "../wiring/supplier-check.ts";
import { configFileOf, configOf } from "./config.ts";
import { statusLines } from "./supplier-text.ts";

/** Options of `turnpike supplier start`, `status` and `check`. */
export interface SupplierOptions {
  readonly json?: boolean;
  readonly config?: string;
}

const STATUS_TIMEOUT_MS = 10_000;

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
    const { operators, metricsUrl } = running;
    output.result({
      ready: true,
      operators,
      ...(metricsUrl === undefined ? {} : { metrics: `${metricsUrl}/metrics` }),
    });
    for (const { address, url } of operators) output.line(`supplier  ${url}  ${address}`);
    if (metricsUrl !== undefined) output.line(`metrics   ${metricsUrl}/metrics`);
    return { drainMs: () => 10_000, [Symbol.asyncDispose]: () => running[Symbol.asyncDispose]() };
  });
}

/** Shows what a running supplier has earned. @throws AppError USAGE, SUPPLIER_STATUS_UNREACHABLE */
export async function status(opts: SupplierOptions, context: CommandContext): Promise<void> {
  const { supplier } = runningConfig(opts, context);
  const output = outputOf(opts);
  const { host, port } = supplier.metrics;
  if (port === undefined) {
    throw new AppError("USAGE", {
      message: "supplier.metrics.port: not set, so the supplier cannot be asked; set one.",
    });
  }
  const url = `http://${hostText(host)}:${port}/status`;
  const answer = await localGet(url, STATUS_TIMEOUT_MS);
  if (answer?.status !== 200) {
    throw new AppError("SUPPLIER_STATUS_UNREACHABLE", {
      message: `${url} does not answer; is turnpike supplier start running?`,
    });
  }
  const found: unknown = JSON.parse(answer.text);
  if (!isRecord(found)) throw new AppError("INTERNAL", { message: `${url} is no status.` });
  output.result(found);
  for (const line of statusLines(found)) output.line(line);
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
