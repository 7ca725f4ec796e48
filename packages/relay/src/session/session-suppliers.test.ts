import assert from "node:assert/strict";
import { suite, test } from "node:test";
import { type Log, noMetrics, type ServiceId, silentLog, systemClock } from "@turnpike/base";
import { SigningThreads } from "@turnpike/crypto";
import type { RpcType } from "@turnpike/protocol";
import { engineOptions } from "../../test/engine-options.ts";
import { GrpcBackend } from "../transport/grpc-transport.ts";
import type { GatewaySession } from "./gateway-session.ts";
import type { SessionListener, SessionSource } from "./session-source.ts";
import { SessionEndpoint, SessionSupplierSet } from "./session-supplier-set.ts";
import { SessionSuppliers, type SessionSuppliersOptions } from "./session-suppliers.ts";

const SERVICE = "eth" as ServiceId;

/** The session of some suppliers; of a session nothing else is used here. */
function sessionOf(
  sessionId: string,
  urls: readonly (string | Readonly<Partial<Record<RpcType, string>>>)[],
): GatewaySession {
  return {
    header: {
      applicationAddress: "app",
      serviceId: SERVICE,
      sessionId,
      sessionStartBlockHeight: 1n,
      sessionEndBlockHeight: 20n,
    },
    suppliers: urls.map((url, at) => ({
      operatorAddress: `op${at}`,
      publicKey: new Uint8Array(33),
      urls: new Map(Object.entries(typeof url === "string" ? { json_rpc: url } : url)),
    })),
  } as unknown as GatewaySession;
}

/** The suppliers of a session that the test may change. */
function suppliersOf(
  first: readonly GatewaySession[],
  options: Pick<SessionSuppliersOptions, "allowPrivateSuppliers">,
) {
  let sessions = first;
  const listeners = new Set<SessionListener>();
  const source = {
    sessionsOf: () => sessions,
    hasApplication: () => true,
    isCurrent: () => true,
    onHeight: () => ({ [Symbol.dispose]() {} }),
    onChange(listener: SessionListener) {
      listeners.add(listener);
      return { [Symbol.dispose]: () => void listeners.delete(listener) };
    },
  } as unknown as SessionSource;
  const warned: unknown[] = [];
  const log: Log = { ...silentLog, warn: ({ operator }) => void warned.push(operator) };
  const threads = new SigningThreads({ threads: 0 });
  const suppliers = new SessionSuppliers(
    { ...engineOptions, extraRelaysPercent: 10, ...options },
    { source, threads, clock: systemClock, metrics: noMetrics, log },
  );
  const set = suppliers.of([SERVICE]).get(SERVICE) ?? assert.fail();
  return {
    warned,
    operators: () => set.endpoints().map(({ operator }) => operator),
    ways: () =>
      set.endpoints().map(({ operator, rpcType, handle }) => {
        assert.ok(handle instanceof SessionEndpoint);
        return `${operator} ${rpcType} ${handle.backend instanceof GrpcBackend ? "gRPC" : "HTTP"} ${handle.backend.url}`;
      }),
    choose: (operator: string, rpcType: RpcType) => {
      assert.ok(set instanceof SessionSupplierSet);
      return set.choose(operator, rpcType)?.session.header.sessionId;
    },
    turn(next: readonly GatewaySession[]) {
      sessions = next;
      for (const listener of listeners) listener(SERVICE, []);
    },
    async [Symbol.asyncDispose]() {
      await suppliers[Symbol.asyncDispose]();
      await threads[Symbol.asyncDispose]();
    },
  };
}

suite("suppliers of sessions", () => {
  test("at private addresses are not asked, and logged once each, unless the operator allows them", async () => {
    const urls = [
      "https://127.0.0.1:8545/",
      "http://169.254.169.254/latest/meta-data/",
      "http://0x7f.1/",
      "http://[::ffff:10.0.0.1]:80/",
      { grpc: "http://127.0.0.1:8545/" },
      "https://93.184.215.14/",
      "https://supplier.example/",
    ];
    for (const allowPrivateSuppliers of [false, true]) {
      await using suppliers = suppliersOf(
        [sessionOf("s1", urls)],
        allowPrivateSuppliers ? { allowPrivateSuppliers } : {},
      );
      const all = urls.map((_, at) => `op${at}`);
      assert.deepEqual([...new Set(suppliers.operators())], allowPrivateSuppliers ? all : ["op5", "op6"]);
      suppliers.turn([sessionOf("s2", urls)]);
      assert.deepEqual(suppliers.warned, allowPrivateSuppliers ? [] : ["op0", "op1", "op2", "op3", "op4"]);
    }
  });

  test("are asked over gRPC where they have an endpoint of it and none of HTTP, for calls of each type", async () => {
    const http = "http://93.184.215.14";
    const grpc = "http://93.184.215.14:8443";
    await using suppliers = suppliersOf(
      [
        sessionOf("s1", [
          { json_rpc: http, grpc },
          { grpc: "https://93.184.215.14/x" },
          { websocket: http, grpc },
          { rest: http, grpc },
          { websocket: http },
        ]),
      ],
      {},
    );
    assert.deepEqual(suppliers.ways(), [
      `op0 json_rpc HTTP ${http}`,
      "op1 json_rpc gRPC https://93.184.215.14/x",
      "op1 rest gRPC https://93.184.215.14/x",
      "op1 comet_bft gRPC https://93.184.215.14/x",
      `op2 json_rpc gRPC ${grpc}`,
      `op2 rest gRPC ${grpc}`,
      `op2 comet_bft gRPC ${grpc}`,
      "op2 websocket HTTP ws://93.184.215.14",
      `op3 rest HTTP ${http}`,
      "op4 websocket HTTP ws://93.184.215.14",
    ]);
    assert.deepEqual(
      [suppliers.choose("op1", "rest"), suppliers.choose("op1", "websocket"), suppliers.choose("op0", "rest")],
      ["s1", undefined, undefined],
    );
    // The same supplier, at the same URL, in another way.
    suppliers.turn([sessionOf("s2", [{ grpc: http }])]);
    assert.deepEqual(suppliers.ways()[0], `op0 json_rpc gRPC ${http}`);
    suppliers.turn([sessionOf("s3", [{ json_rpc: http }])]);
    assert.deepEqual(suppliers.ways(), [`op0 json_rpc HTTP ${http}`]);
  });

  test("a URL whose user is no UTF-8 takes no other supplier of the session with it", async () => {
    const urls = ["http://%ff:x@93.184.215.14/", { grpc: "http://%ff@93.184.215.14/" }, "https://supplier.example/"];
    await using suppliers = suppliersOf([sessionOf("s1", urls)], {});
    assert.deepEqual(new Set(suppliers.operators()), new Set(["op0", "op1", "op2"]));
  });
});
