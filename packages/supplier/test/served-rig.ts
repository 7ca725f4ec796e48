import assert from "node:assert/strict";
import { type Metrics, noMetrics, silentLog, systemClock } from "@turnpike/base";
import { SigningThreads } from "@turnpike/crypto";
import {
  decodeHttpResponsePayload,
  decodeRelayResponse,
  type HttpResponsePayload,
  type SessionHeader,
} from "@turnpike/protocol";
import { chainParty, jsonRpcPayload, type RelayRequestOptions, signRelayRequest } from "@turnpike/testkit/chain";
import { ThreadedRelayCrypto } from "../src/serving/relay-crypto.ts";
import { supplierRelaysRefusedTotal } from "../src/serving-metrics.ts";
import { type ServeRelaysOptions, serveRelays } from "../src/supplier.ts";
import type { SupplierRig } from "./supplier-rig.ts";

/** What a relay server answered: the back-end's answer of a signed response, or the text of a refusal. */
export interface ServedAnswer {
  readonly status: number;
  readonly text: string;
  readonly inner: HttpResponsePayload | undefined;
}

/** A relay server over the evidence and the claims of a {@link SupplierRig}, as `turnpike supplier` puts them together. */
export interface ServedRig extends AsyncDisposable {
  readonly url: string;
  /** Reasons of refused relays. */
  readonly refused: readonly string[];
  /** A signed request of a call. */
  sign(header: SessionHeader, call?: string, options?: Partial<RelayRequestOptions>): Uint8Array;
  send(bytes: Uint8Array): Promise<ServedAnswer>;
}

/** Starts the relay server of a running supplier, of the name that it has. */
export async function serveRig(
  rig: Pick<SupplierRig, "running">,
  backEndUrl: string,
  options: Partial<ServeRelaysOptions> = {},
  name = "supplier",
): Promise<ServedRig> {
  await using stack = new AsyncDisposableStack();
  const { queries, head, store, operator } = rig.running;
  const keys = new Map([[operator, chainParty(name).privateKey]]);
  const crypto = stack.use(new ThreadedRelayCrypto(stack.use(new SigningThreads({ threads: 0 })), keys));
  const refused: string[] = [];
  const metrics: Metrics = {
    ...noMetrics,
    count(spec, labels) {
      if (spec === supplierRelaysRefusedTotal) refused.push(String(labels?.reason));
    },
  };
  const service = {
    backEnds: { json_rpc: { url: backEndUrl } },
    defaultRpcType: "json_rpc",
    timeoutMs: 30_000,
    maxAnswerBytes: 1_048_576,
    maxConcurrent: 1_000,
  } as const;
  const served = stack.use(
    await serveRelays(
      {
        host: "127.0.0.1",
        operators: [{ address: operator, port: 0 }],
        services: { eth: service },
        maxRequestBytes: 1_048_576,
        maxConcurrentRelays: 1_000,
        maxConnections: 1_000,
        requestTimeoutMs: 30_000,
        drainTimeoutMs: 10_000,
        inflationMillionths: 100_000n,
        unsettledPercent: 10,
        ...options,
      },
      { queries, head, crypto, store, clock: systemClock, metrics, log: silentLog },
    ),
  );
  const url = `http://127.0.0.1:${served.ports.get(operator) ?? assert.fail()}`;
  const owned = stack.move();
  return {
    url,
    refused,
    sign: (header, call = "{}", more = {}) =>
      signRelayRequest(header, jsonRpcPayload(call), { supplierOperatorAddress: operator, ...more }),
    async send(bytes) {
      const answer = await fetch(url, { method: "POST", body: Buffer.from(bytes), headers: { "rpc-type": "3" } });
      const body = new Uint8Array(await answer.arrayBuffer());
      const response = answer.status === 200 ? decodeRelayResponse(body) : undefined;
      const inner = response === undefined ? undefined : decodeHttpResponsePayload(response.payload);
      return { status: answer.status, text: Buffer.from(body).toString("utf8"), inner };
    },
    [Symbol.asyncDispose]: () => owned.disposeAsync(),
  };
}
