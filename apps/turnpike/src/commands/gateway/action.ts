import { AppError, isAppError } from "@turnpike/base";
import { loadConfig } from "@turnpike/config";
import { configFileOf } from "../../cli/config-file.ts";
import { type CommandContext, DEFAULT_CONFIG_FILE, hostText, outputOf } from "../../cli/context.ts";
import { serve } from "../../cli/lifecycle.ts";
import { createLog } from "../../cli/logging.ts";
import { sells } from "../../wiring/catalogue.ts";
import { startGateway } from "../../wiring/gateway.ts";
import { workersOf } from "../../wiring/worker-share.ts";
import { startWorkers } from "../../workers/primary.ts";
import { isWorker, runWorker } from "../../workers/worker.ts";
import { watchConfigFile } from "./config-watch.ts";

export interface GatewayFlags {
  readonly json?: boolean;
  readonly config?: string;
}

const WATCH_EVERY_MS = 1_000;
const SETTLE_MS = 500;

/** Runs the gateway until a signal ends it. SIGHUP, or a change of its file, reloads the configuration. */
export async function run(flags: GatewayFlags, context: CommandContext): Promise<void> {
  if (isWorker()) return runWorker(context);
  const file = configFileOf(context, flags.config);
  const load = () => loadConfig({ env: context.env, ...(file === undefined ? {} : { file }) });
  const config = load();
  const output = outputOf(flags);
  const log = createLog({ level: config.log.level, name: "gateway" });
  const { gateway, ledger } = config;
  await serve(context, { log }, () =>
    withFileHint(file, async () => {
      const onReload = (next: typeof config): void => log.setLevel(next.log.level);
      const { env } = context;
      const workers = workersOf(config);
      const service =
        workers > 1
          ? await startWorkers({ config, env, log, workers, load })
          : await startGateway({ config, env, log, load, onReload });
      const reload = (cause: "signal" | "file"): void => {
        service
          .reload(cause)
          .catch((error: unknown) => log.error({ error: String(error) }, "a reload failed by a fault"));
      };
      const admin =
        service.adminPort === undefined ? {} : { admin: `http://${hostText(config.admin.host)}:${service.adminPort}` };
      const urls = {
        gateway: `http://${hostText(gateway.host)}:${service.gatewayPort}`,
        metrics: `http://${hostText(gateway.metrics.host)}:${service.metricsPort}/metrics`,
        ...admin,
      };
      output.result({ ready: true, ...urls, ...(sells(config) ? { ledgerSchema: ledger.schema } : {}) });
      for (const [name, url] of Object.entries(urls)) output.line(`${name.padEnd(8)} ${url}`);
      const stack = new AsyncDisposableStack();
      stack.use(service);
      if (file !== undefined) {
        const onChange = (): void => {
          if (service.config().gateway.watchConfig) reload("file");
        };
        stack.use(watchConfigFile({ file, intervalMs: WATCH_EVERY_MS, settleMs: SETTLE_MS }, onChange));
      }
      const { failed } = service;
      return {
        ...(failed === undefined ? {} : { failed }),
        onHangUp: () => reload("signal"),
        drainMs: () => service.config().gateway.shutdownTimeoutMs,
        [Symbol.asyncDispose]: () => stack.disposeAsync(),
      };
    }),
  );
}

/** Says that no file was read, where that is likely what is wrong. */
async function withFileHint<T>(file: string | undefined, work: () => Promise<T>): Promise<T> {
  try {
    return await work();
  } catch (error) {
    if (file !== undefined || !isAppError(error) || error.code !== "CONFIG_INVALID") throw error;
    const hint = `No file was read: there is no ${DEFAULT_CONFIG_FILE} in this folder, and no --config was given.`;
    throw new AppError("CONFIG_INVALID", { message: `${error.message}\n${hint}`, cause: error });
  }
}
