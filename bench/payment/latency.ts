import { AppError, isRecord } from "@turnpike/base";
import type { PaymentRequirements } from "@x402/core/types";
import { Pool } from "undici";
import type { Report } from "../lib/report.ts";
import { quantile } from "../lib/stats.ts";
import { headerOf, payerOf, signPayment } from "./payers.ts";

/** Options of {@link benchLatency}. */
export interface LatencyOptions {
  /** Calls of each kind, one after another. */
  readonly calls: number;
  readonly rpcUrl: string;
  readonly ourPort: number;
  readonly referencePort: number;
}

const BODY = '{"method":"eth_blockNumber","params":[]}';
const JSON_TYPE = { "content-type": "application/json" };

interface Answer {
  readonly status: number;
  readonly headers: Readonly<Record<string, unknown>>;
  readonly text: string;
}

async function post(
  pool: Pool,
  path: string,
  body: string,
  headers: Readonly<Record<string, string>>,
): Promise<Answer> {
  const answer = await pool.request({ path, method: "POST", headers: { ...JSON_TYPE, ...headers }, body });
  return { status: answer.statusCode, headers: answer.headers, text: await answer.body.text() };
}

/** The first option of a 402. */
async function termsOf(pool: Pool): Promise<PaymentRequirements> {
  const { status, headers } = await post(pool, "/v1/eth", BODY, {});
  const text = Buffer.from(String(headers["payment-required"]), "base64").toString();
  const terms: unknown = status === 402 ? JSON.parse(text) : undefined;
  if (!isRecord(terms) || !Array.isArray(terms.accepts))
    throw new AppError("INTERNAL", { message: `No terms: ${text}` });
  return terms.accepts[0] as PaymentRequirements;
}

/** Time from sending the signed request to its paid answer, beside the bare call of the same node. */
export async function benchLatency(options: LatencyOptions): Promise<Report> {
  await using owned = new AsyncDisposableStack();
  const open = (url: string): Pool => owned.adopt(new Pool(url, { connections: 1 }), (pool) => pool.destroy());
  const upstream = open(options.rpcUrl);
  const sides = {
    ours: { pool: open(`http://127.0.0.1:${options.ourPort}`), ms: [] as number[] },
    reference: { pool: open(`http://127.0.0.1:${options.referencePort}`), ms: [] as number[] },
  };
  const terms = { ours: await termsOf(sides.ours.pool), reference: await termsOf(sides.reference.pool) };
  const bareMs: number[] = [];
  const warmUp = Math.max(3, options.calls >> 2);
  for (let call = -warmUp; call < options.calls; call++) {
    const bareStart = performance.now();
    await post(upstream, "/", '{"jsonrpc":"2.0","id":1,"method":"eth_blockNumber","params":[]}', {});
    if (call >= 0) bareMs.push(performance.now() - bareStart);
    for (const name of ["ours", "reference"] as const) {
      const { pool, ms } = sides[name];
      const header = headerOf(signPayment(payerOf((call + warmUp) % 50), terms[name]));
      const start = performance.now();
      const { status, headers, text } = await post(pool, "/v1/eth", BODY, { "payment-signature": header });
      const elapsed = performance.now() - start;
      if (status !== 200 || headers["payment-response"] === undefined) {
        throw new AppError("INTERNAL", { message: `${name} did not sell a call: ${status} ${text}` });
      }
      if (call >= 0) ms.push(elapsed);
    }
  }
  const bare = { p50: quantile(bareMs, 0.5), p95: quantile(bareMs, 0.95) };
  const added = (name: keyof typeof sides, part: 0.5 | 0.95): number =>
    quantile(sides[name].ms, part) - (part === 0.5 ? bare.p50 : bare.p95);
  const rows = ([0.5, 0.95] as const).map((part) => ({
    name: `payment.latency-p${part * 100}`,
    title: `time added to a paid call, p${part * 100}`,
    ours: { value: added("ours", part), unit: "ms" },
    reference: { value: added("reference", part), unit: "ms" },
    ratioOf: "reference / ours" as const,
  }));
  return {
    rows,
    notes: [
      `latency: ${options.calls} paid eth_blockNumber calls each, one after another, a block at once for every ` +
        `transaction; the bare call takes ${bare.p50.toFixed(2)} ms (p50), ${bare.p95.toFixed(2)} ms (p95)`,
    ],
  };
}
