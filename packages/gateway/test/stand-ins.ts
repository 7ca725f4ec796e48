import { createHash, randomBytes } from "node:crypto";
import {
  base64ToBytes,
  bytesToBase64,
  isRecord,
  type NetworkId,
  parseJson,
  type ServiceId,
  type SettlementId,
  silentLog,
  systemClock,
  utf8ToBytes,
} from "@turnpike/base";
import type { Service } from "@turnpike/catalogue";
import type {
  Admission,
  EarlierAdmission,
  Outcome,
  PaymentOption,
  PaymentStage,
  PresentedPayment,
  Receipt,
} from "@turnpike/payment";
import { mintPaid, mintRelayed, type PaidRequest } from "@turnpike/protocol";
import type { Relay, RelayOutcome } from "@turnpike/relay";
import { PrometheusMetrics } from "@turnpike/telemetry";
import type { ParseCall } from "../src/edge/pipeline.ts";
import { GatewayServer } from "../src/gateway.ts";
import type { EdgeParts } from "../src/generation.ts";
import type { Gateway, GatewayModules, GatewayOptions } from "../src/types.ts";
import { gatewayOptions } from "./options.ts";

/** The one option that the stand-ins offer. */
export const option: PaymentOption = {
  scheme: "exact",
  network: "eip155:84532" as NetworkId,
  amount: "5000",
  asset: "0x036CbD53842c5426634e7929541eC2318f3dCF7e",
  payTo: "0x209693Bc6afc0C5328bA36FaF03C514EF312287C",
  maxTimeoutSeconds: 60,
  extra: { name: "USDC", version: "2" },
};

const payer = "0x00000000000000000000000000000000000000aa";

/** A service of the stand-in catalogue. */
export function service(id: string, change: Partial<Service> = {}): Service {
  return {
    id: id as ServiceId,
    name: id,
    description: `Service ${id} — with text beyond ASCII`,
    category: "blockchain",
    tags: ["blockchain"],
    operationId: `call_${id.replaceAll("-", "_")}`,
    price: "0.005000",
    families: ["evm"],
    evmChainId: undefined,
    chainId: undefined,
    network: "mainnet",
    syncAllowanceBlocks: undefined,
    paid: true,
    free: true,
    operations: new Map([["eth_blockNumber", { name: "eth_blockNumber", rpcType: "json_rpc", description: "Height" }]]),
    maxBodyBytes: 1_048_576,
    ...change,
  };
}

/** A receipt of the stand-in payment. */
export function receipt(change: Partial<Receipt> = {}): Receipt {
  return { success: true, transaction: "0xabc", network: option.network, payer, ...change };
}

/** A stand-in for the payment stage, with its hands on every step. */
export interface StandInPayment extends PaymentStage {
  /** What was called, in order. */
  readonly calls: string[];
  admission: ((paid: PaidRequest) => Admission | Promise<Admission>) | undefined;
  /** What was claimed before, for requests that are not sold (any more). */
  earlier: ((requestHash: string) => EarlierAdmission | undefined) | undefined;
  outcome: ((body: Uint8Array) => Outcome | Promise<Outcome>) | undefined;
  lacking: string[];
  /** Request hashes in the order of their admission. */
  readonly hashes: string[];
}

/** A stand-in payment stage: takes any base64 JSON object, claims it, settles it. */
export function standInPayment(): StandInPayment {
  const calls: string[] = [];
  const hashes: string[] = [];
  const stage: StandInPayment = {
    calls,
    hashes,
    admission: undefined,
    earlier: undefined,
    outcome: undefined,
    lacking: [],
    decode(header) {
      calls.push("decode");
      const bytes = base64ToBytes(header);
      const parsed = bytes === undefined ? undefined : parseJson(bytes);
      if (bytes === undefined || parsed?.ok !== true || !isRecord(parsed.value)) {
        return { ok: false, code: "PAYMENT_MALFORMED" };
      }
      const { from = `0x${"11".repeat(20)}` } = parsed.value;
      const authorization = { from };
      return { ok: true, payment: { accepted: parsed.value, authorization } as unknown as PresentedPayment };
    },
    async admit(request, _presented, offer) {
      calls.push("admit");
      // As the stage does for payments that it does not know.
      const unserved = offer.refusal();
      if (unserved !== undefined) return { kind: "refused", ...unserved };
      hashes.push(Buffer.from(request.requestHash).toString("hex"));
      const settlementId = createHash("sha256").update(request.requestHash).digest("hex") as SettlementId;
      const paid = mintPaid({ request, settlementId, deadlineMs: systemClock.monotonicMs() + 60_000 });
      return stage.admission?.(paid) ?? { kind: "paid", paid };
    },
    async earlierOutcome(requestHash) {
      calls.push("earlier");
      return stage.earlier?.(Buffer.from(requestHash).toString("hex"));
    },
    async settle(paid, _relayed, answer) {
      calls.push("settle");
      return (
        stage.outcome?.(answer.body) ?? {
          kind: "settled",
          receipt: receipt(),
          answer,
          settlementId: paid.settlementId,
        }
      );
    },
    async release(_paid, reason) {
      calls.push(`release ${reason}`);
      return { kind: "released", code: reason };
    },
    async status(id) {
      return id === "known"
        ? {
            id,
            status: "settled",
            network: option.network,
            asset: option.asset,
            payer,
            payTo: option.payTo,
            amount: "5000",
            transaction: "0xabc",
            reason: undefined,
            answerAvailable: true,
            answerStored: true,
          }
        : undefined;
    },
    missing: () => stage.lacking,
    async [Symbol.asyncDispose]() {},
  };
  return stage;
}

/** A stand-in for the relay. */
export interface StandInRelay extends Relay {
  /** Called in place of a supplier. */
  answer: (call: {
    readonly operation: string;
    readonly path: string;
    readonly request: Parameters<Relay["send"]>[0];
  }) => Promise<RelayOutcome> | string;
  lacking: Map<string, readonly string[]>;
  /** Methods that no supplier has. */
  lost: Set<string>;
  runs: number;
}

/** A stand-in relay: every service answers the same block number. */
export function standInRelay(ids: readonly string[]): StandInRelay {
  const relay: StandInRelay = {
    answer: () => '{"jsonrpc":"2.0","id":1,"result":"0x10"}',
    lacking: new Map(ids.map((id) => [id, []])),
    lost: new Set(),
    runs: 0,
    async send(request, signal) {
      relay.runs++;
      const inner = request.request;
      const aborted = new Promise<RelayOutcome>((resolve) => {
        signal?.addEventListener("abort", () => resolve({ ok: false, code: "SHUTTING_DOWN", attempts: 1 }));
      });
      const made = relay.answer({ operation: inner.call.operation, path: inner.call.path, request });
      if (typeof made !== "string") return Promise.race([made, aborted]);
      return mintRelayed({
        ok: true,
        request,
        status: 200,
        body: utf8ToBytes(made),
        contentType: "application/json",
        schemaCheck: "passed",
        operator: "stand-in",
      });
    },
    sendBatch: (requests, signal) => Promise.all(requests.map((request) => relay.send(request, signal))),
    async notify(request, signal) {
      await relay.send(request, signal);
    },
    served: () => [...relay.lacking.keys()] as ServiceId[],
    hasSupplier: (id) => relay.lacking.has(id),
    missing: (id) => relay.lacking.get(id),
    missingMethods: () => relay.lost,
    async [Symbol.asyncDispose]() {},
  };
  return relay;
}

/** A stand-in for the families: takes `{method}` objects, and any listed path. */
export const standInParse: ParseCall = (of, input) => {
  const call = {
    rpcType: "json_rpc",
    verb: input.verb,
    path: input.appendedPath + input.query,
    body: input.body,
    id: "1",
    params: undefined,
  } as const;
  if (input.appendedPath !== "") return { ok: true, call: { ...call, operation: input.appendedPath } };
  const parsed = parseJson(input.body);
  if (!parsed.ok) return { ok: false, code: parsed.reason === "duplicate" ? "DUPLICATE_KEY" : "INVALID_JSON" };
  if (Array.isArray(parsed.value)) return { ok: false, code: "BATCH_NOT_SOLD" };
  if (!isRecord(parsed.value)) return { ok: false, code: "MALFORMED_REQUEST" };
  if (of.id === "search") {
    return typeof parsed.value.query === "string"
      ? { ok: true, call: { ...call, operation: "search" } }
      : {
          ok: false,
          code: "VALIDATION_FAILED",
          detail: [{ loc: ["body", "query"], msg: "field required", type: "missing" }],
        };
  }
  const method = parsed.value.method;
  if (typeof method !== "string" || !of.operations.has(method)) return { ok: false, code: "METHOD_NOT_ALLOWED" };
  return { ok: true, call: { ...call, operation: method } };
};

/** Stand-ins for what the catalogue generates. */
export function standInParts(publicUrl: string): EdgeParts {
  return {
    publicUrl,
    parse: standInParse,
    termsOf: (of, error) => ({
      x402Version: 2,
      error,
      resource: { url: `${publicUrl}/v1/${of.id}`, description: of.description, mimeType: "application/json" },
      accepts: [option],
      extensions: {},
    }),
    matchPath(of, path) {
      if (path.includes("..")) return "BAD_PATH";
      return of.id === "pocket" && path === "/status" ? "listed" : "NOT_FOUND";
    },
    documents: {
      openApi: () => ({ openapi: "3.0.3" }),
      wellKnownX402: () => ({ x402Version: 2 }),
      llmsText: () => "# Turnpike\n",
      apiCatalogue: () => ({ linkset: [] }),
      llmsFullText: () => "# Turnpike: every service\n",
      discoveryResources: () => ({ items: [] }),
      discoverySearch: () => ({ resources: [] }),
      services: (serves) => ["eth", "pocket"].map((id) => ({ id, serves: serves(id as ServiceId) })),
      icon: () => '<svg xmlns="http://www.w3.org/2000/svg"/>',
      productIcon: () => '<svg xmlns="http://www.w3.org/2000/svg"/>',
    },
  };
}

/** A gateway of stand-ins on free ports. */
export interface TestGateway extends AsyncDisposable {
  readonly url: string;
  readonly port: number;
  readonly metricsUrl: string;
  readonly payment: StandInPayment;
  readonly relay: StandInRelay;
  readonly gateway: Gateway;
}

/** Starts a gateway of stand-ins. */
export async function startTestGateway(
  change: Partial<GatewayOptions> = {},
  modules: Partial<GatewayModules> = {},
): Promise<TestGateway> {
  const services = [
    service("eth"),
    service("pocket", { families: ["cosmos"] }),
    service("search", { families: ["search"], category: "web", free: false, maxBodyBytes: 16_384 }),
  ];
  const byId = new Map(services.map((item) => [item.id, item]));
  const payment = standInPayment();
  const relay = standInRelay(services.map(({ id }) => id));
  const gateway = new GatewayServer(
    { ...gatewayOptions, shutdownTimeoutMs: 500, ...change },
    {
      catalogue: { services: byId, get: (id) => byId.get(id as ServiceId) },
      payment,
      relay,
      options: [option],
      readiness: [],
      clock: systemClock,
      log: silentLog,
      metrics: new PrometheusMetrics({ processMetrics: false }),
      random: { bytes: (length) => new Uint8Array(randomBytes(length)) },
      parts: standInParts,
      ...modules,
    },
  );
  const { gatewayPort, metricsPort } = await gateway.listen();
  return {
    url: `http://127.0.0.1:${gatewayPort}`,
    port: gatewayPort,
    metricsUrl: `http://127.0.0.1:${metricsPort}`,
    payment,
    relay,
    gateway,
    [Symbol.asyncDispose]: () => gateway[Symbol.asyncDispose](),
  };
}

/** A payment header that the stand-in takes. */
export function paymentHeader(fields: Readonly<Record<string, unknown>> = { x402Version: 2 }): string {
  return bytesToBase64(utf8ToBytes(JSON.stringify(fields)));
}
