import { join } from "node:path";
import { AppError, isRecord } from "@turnpike/base";
import { privateKeyToAddress } from "@turnpike/crypto";
import { deployTestToken, devRpc, freePort, fundGas, startAnvil, startPostgres } from "@turnpike/localnet";
import type { PaymentRequirements } from "@x402/core/types";
import { Pool } from "undici";
import { startChild } from "../../bench/lib/child.ts";
import type { OurGatewayOperations } from "../../bench/payment/children/our-gateway.ts";
import { fundPayers, headerOf, payerOf, relayerKey, signPayment } from "../../bench/payment/payers.ts";

/** Options of {@link runPaidSoak}. */
export interface PaidSoakOptions {
  readonly calls: number;
  /** Payers in turn. One for each call shows what a payer costs, a few what a payment costs. */
  readonly payers: number;
  /** Calls in flight at once. */
  readonly concurrency: number;
  /** Called with each measurement. */
  readonly progress: (text: string) => void;
  readonly signal?: AbortSignal;
}

/** Live bytes of the gateway after a number of paid calls, its garbage collected. */
export interface PaidMemory {
  readonly calls: number;
  readonly liveBytes: number;
  readonly rssBytes: number;
}

/** Summary of a paid soak. */
export interface PaidSoakSummary {
  readonly paid: number;
  readonly durationMs: number;
  readonly memory: readonly PaidMemory[];
  /** Live bytes that each call of the second half added. */
  readonly bytesPerCall: number;
  /** Violated conditions; empty when all hold. */
  readonly faults: readonly string[];
}

const CHILD = join(import.meta.dirname, "..", "..", "bench", "payment", "children", "our-gateway.ts");
const RELAYERS = 4;
const BLOCK_GAS = 200_000_000;
const MEASUREMENTS = 20;
/** Above it something is retained for each call: the smallest entry of a map with a key is larger. */
const MAX_BYTES_PER_CALL = 64;
/** Shorter runs end before every cache of the gateway is full. */
const MIN_JUDGED_CALLS = 50_000;
const BODY = '{"method":"eth_blockNumber","params":[]}';
const PATH = "/v1/eth";

async function post(pool: Pool, headers: Readonly<Record<string, string>>) {
  const {
    statusCode,
    headers: received,
    body,
  } = await pool.request({
    path: PATH,
    method: "POST",
    headers: { "content-type": "application/json", ...headers },
    body: BODY,
  });
  return { statusCode, received, text: await body.text() };
}

/** First payment option of a 402. */
async function requirementsOf(pool: Pool): Promise<PaymentRequirements> {
  const { statusCode, received, text } = await post(pool, {});
  const decoded = Buffer.from(String(received["payment-required"]), "base64").toString();
  const required: unknown = statusCode === 402 ? JSON.parse(decoded) : undefined;
  if (!isRecord(required) || !Array.isArray(required.accepts)) {
    throw new AppError("INTERNAL", { message: `No payment options: ${statusCode} ${text}` });
  }
  return required.accepts[0] as PaymentRequirements;
}

function faultsOf(summary: Omit<PaidSoakSummary, "faults">, failures: ReadonlyMap<string, number>): readonly string[] {
  const faults = [...failures].map(([reason, count]) => `${count} paid calls ended in ${reason}`);
  if (summary.paid >= MIN_JUDGED_CALLS && summary.bytesPerCall > MAX_BYTES_PER_CALL) {
    faults.push(`each call of the second half added ${Math.round(summary.bytesPerCall)} live bytes`);
  }
  return faults;
}

/** Sells calls at a real gateway, which settles them on a local chain, and measures its live memory. */
export async function runPaidSoak(options: PaidSoakOptions): Promise<PaidSoakSummary> {
  const { calls, payers, concurrency, progress, signal } = options;
  await using owned = new AsyncDisposableStack();
  const [anvil, postgres] = await Promise.all([
    startAnvil({
      port: await freePort(),
      quiet: true,
      // Else the chain's old states fill the machine's memory.
      args: ["--gas-limit", String(BLOCK_GAS), "--prune-history", "100", "--transaction-block-keeper", "1000"],
    }),
    startPostgres(),
  ]);
  owned.use(anvil);
  owned.use(postgres);
  await deployTestToken(anvil.url, { holders: [] });
  await fundPayers(anvil.url, payers);
  const relayers = Array.from({ length: RELAYERS }, (_, index) => index);
  for (const index of relayers) await fundGas(anvil.url, privateKeyToAddress(relayerKey(index)), 10n ** 22n);
  await devRpc(anvil.url, "anvil_mine", ["0x1"]);
  const gateway = owned.use(await startChild<OurGatewayOperations>(CHILD));
  const { port } = await gateway.ask("start", {
    rpcUrl: anvil.url,
    databaseUrl: await postgres.createDatabase("soak_paid"),
    relayers,
    relayer: { batchWindowMs: 200, maxBatch: 200 },
  });
  const pool = owned.adopt(new Pool(`http://127.0.0.1:${port}`, { connections: 200, pipelining: 1 }), (each) =>
    each.destroy(),
  );
  const accepted = await requirementsOf(pool);
  const failures = new Map<string, number>();
  const memory: PaidMemory[] = [];
  const startedMs = performance.now();
  let paid = 0;
  let next = 0;
  const sell = async (until: number): Promise<void> => {
    while (next < until && signal?.aborted !== true) {
      const header = headerOf(signPayment(payerOf(next++ % payers), accepted));
      const { statusCode, received, text } = await post(pool, { "payment-signature": header });
      if (statusCode === 200 && received["payment-response"] !== undefined) paid++;
      else {
        const answer: unknown = JSON.parse(text);
        const reason = `${statusCode} ${isRecord(answer) ? String(answer.code) : ""}`;
        failures.set(reason, (failures.get(reason) ?? 0) + 1);
      }
    }
  };
  for (let part = 0; part <= MEASUREMENTS && signal?.aborted !== true; part++) {
    // All calls of a part have ended when it is measured.
    const until = Math.round((calls * part) / MEASUREMENTS);
    await Promise.all(Array.from({ length: concurrency }, () => sell(until)));
    const bytes = await gateway.memory(true);
    memory.push({ calls: paid, ...bytes });
    const seconds = Math.round((performance.now() - startedMs) / 1_000);
    progress(`${seconds} s: ${paid} paid, ${(bytes.liveBytes / 1_048_576).toFixed(1)} MiB live`);
  }
  const middle = memory[memory.length >> 1];
  const last = memory.at(-1);
  const bytesPerCall =
    middle === undefined || last === undefined
      ? 0
      : (last.liveBytes - middle.liveBytes) / Math.max(1, last.calls - middle.calls);
  const summary = { paid, durationMs: performance.now() - startedMs, memory, bytesPerCall };
  return { ...summary, faults: faultsOf(summary, failures) };
}
