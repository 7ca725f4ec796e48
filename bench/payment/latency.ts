import { AppError, bytesToHex0x, isRecord } from "@turnpike/base";
import type { PaymentRequirements } from "@x402/core/types";
import pg from "pg";
import { Pool } from "undici";
import { privateKeyToAccount } from "viem/accounts";
import { baseSepolia } from "viem/chains";
import type { Report, Row } from "../lib/report.ts";
import { quantile } from "../lib/stats.ts";
import type { LedgerTimes } from "./children/our-gateway.ts";
import { headerOf, payerOf, relayerKey, signPayment } from "./payers.ts";

/** Options of {@link benchLatency}. */
export interface LatencyOptions {
  /** Calls of each kind, one after another. */
  readonly calls: number;
  readonly rpcUrl: string;
  readonly ourPort: number;
  readonly referencePort: number;
  /** A database of the ledger's server. */
  readonly databaseUrl: string;
  /** Number of a key with gas that nothing else uses. */
  readonly sender: number;
  readonly ledgerTimes: () => Promise<LedgerTimes>;
}

/** Methods whose commits a paid call waits for, in their order. */
const COMMITS = ["claim", "journal", "settled"];

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

/** A sender of bare transfers: each resolves when the node shows the receipt, asked again without a pause. */
function bareSender(upstream: Pool, sender: number): () => Promise<void> {
  const account = privateKeyToAccount(bytesToHex0x(relayerKey(sender)));
  const rpc = async (method: string, params: readonly unknown[]): Promise<unknown> => {
    const { text } = await post(upstream, "/", JSON.stringify({ jsonrpc: "2.0", id: 1, method, params }), {});
    const answer: unknown = JSON.parse(text);
    if (!isRecord(answer) || !("result" in answer)) throw new AppError("INTERNAL", { message: `${method}: ${text}` });
    return answer.result;
  };
  let nonce = 0;
  return async () => {
    const fees = { gas: 21_000n, maxFeePerGas: 10n ** 11n, maxPriorityFeePerGas: 10n ** 9n };
    const transfer = { to: account.address, value: 1n, nonce: nonce++, chainId: baseSepolia.id, ...fees };
    const hash = await rpc("eth_sendRawTransaction", [await account.signTransaction(transfer)]);
    while ((await rpc("eth_getTransactionReceipt", [hash])) === null);
  };
}

/** Milliseconds that each of the ledger's commits took on average. */
function commitsText(before: LedgerTimes, after: LedgerTimes): string {
  const texts = COMMITS.map((method) => {
    const was = before[method] ?? { seconds: 0, calls: 0 };
    const now = after[method] ?? was;
    return `${method} ${(((now.seconds - was.seconds) / Math.max(1, now.calls - was.calls)) * 1_000).toFixed(2)}`;
  });
  return texts.join(", ");
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
  const blockMs: number[] = [];
  const commitMs: number[] = [];
  const sendBare = bareSender(upstream, options.sender);
  const database = owned.adopt(new pg.Client({ connectionString: options.databaseUrl }), (client) => client.end());
  await database.connect();
  await database.query("create table if not exists bare_commits (n integer)");
  let before: LedgerTimes = {};
  const warmUp = Math.max(3, options.calls >> 2);
  for (let call = -warmUp; call < options.calls; call++) {
    if (call === 0) before = await options.ledgerTimes();
    const commitStart = performance.now();
    await database.query("insert into bare_commits values (1)");
    if (call >= 0) commitMs.push(performance.now() - commitStart);
    const blockStart = performance.now();
    await sendBare();
    if (call >= 0) blockMs.push(performance.now() - blockStart);
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
  const rows: Row[] = ([0.5, 0.95] as const).map((part) => ({
    name: `payment.latency-p${part * 100}`,
    title: `time added to a paid call, p${part * 100}`,
    ours: { value: added("ours", part), unit: "ms" },
    reference: { value: added("reference", part), unit: "ms" },
    ratioOf: "reference / ours",
  }));
  rows.push({
    name: "payment.latency-block",
    title: "a paid call over a transfer's block, p50",
    ours: { value: quantile(sides.ours.ms, 0.5), unit: "ms" },
    reference: { value: quantile(blockMs, 0.5), unit: "ms" },
    ratioOf: "ours / reference",
    aim: { op: "<=", value: 1.5 },
  });
  return {
    rows,
    notes: [
      `latency: ${options.calls} paid eth_blockNumber calls each, one after another, a block at once for every ` +
        `transaction; the bare call takes ${bare.p50.toFixed(2)} ms (p50), ${bare.p95.toFixed(2)} ms (p95)`,
      `latency: a transfer sent to the bare node has its receipt after ${quantile(blockMs, 0.5).toFixed(2)} ms (p50); ` +
        `a commit of one row takes ${quantile(commitMs, 0.5).toFixed(2)} ms (p50), ours on average: ` +
        `${commitsText(before, await options.ledgerTimes())} ms`,
    ],
  };
}
