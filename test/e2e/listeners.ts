import assert from "node:assert/strict";
import { noMetrics, silentLog, systemClock } from "@turnpike/base";
import { startGrpcServer, startRestServer, startRpcServer } from "@turnpike/chain-api";
import { serveAdmin } from "@turnpike/gateway";
import { createDocumentDigest, startEvmGuard, startPortSplitter } from "@turnpike/localnet";
import { serveMcpHttp } from "@turnpike/mcp";
import { createFacilitatorServer } from "@turnpike/payment";
import { startSearchService } from "@turnpike/search";
import { testApi } from "../../packages/chain-api/test/chain-api.ts";
import { TestNode } from "../../packages/chain-api/test/rpc/node.ts";
import { startTestGateway } from "../../packages/gateway/test/stand-ins.ts";
import { servingRig, startBackEnd } from "../../packages/supplier/test/serving-rig.ts";
import { startPortalRig } from "./portal-rig.ts";

const TOKEN = "0123456789abcdef0123456789abcdef";

/** A path that a server has, and what `Allow` says there. */
export interface Place {
  readonly path: string;
  readonly allow: string;
  readonly headers?: Readonly<Record<string, string>>;
}

/** Starts one listener. */
export interface Listener {
  /** Sources that make it. */
  readonly sources: readonly string[];
  /** Maximum connections of one client; 250 by default. */
  readonly maxOfClient?: number;
  /** True: it speaks HTTP/2 with prior knowledge, also or alone. */
  readonly isHttp2?: true;
  start(owned: AsyncDisposableStack): Promise<Served>;
}

/** Address of a server, and its places. */
export interface Served {
  readonly url: string;
  readonly places: readonly Place[];
}

const fails = (): never => assert.fail("no request of an odd verb comes this far");

/** Every listener of the product, by name; `owned` disposes of what it starts. */
export const LISTENERS: Readonly<Record<string, Listener>> = {
  gateway: {
    sources: ["packages/gateway/src/http/server.ts"],
    async start(owned) {
      const { url } = owned.use(await startTestGateway({ maxConnectionsPerClient: 250, headersTimeoutMs: 2_000 }));
      const free = "POST, OPTIONS";
      const read = "GET, HEAD, OPTIONS";
      const places = [
        { path: "/v1/eth", allow: "POST, OPTIONS" },
        { path: "/v1/pocket/status", allow: "GET, POST, OPTIONS" },
        { path: "/relay/eth", allow: free },
        { path: "/relay/pocket/status", allow: "GET, HEAD, POST, OPTIONS" },
        { path: "/v1", allow: free, headers: { "target-service-id": "eth" } },
        { path: "/", allow: free, headers: { host: "eth.localhost" } },
        { path: "/openapi.json", allow: read },
        { path: "/health", allow: read },
      ];
      return { url, places };
    },
  },
  "gateway's metrics": {
    sources: ["packages/telemetry/src/metrics-server.ts"],
    maxOfClient: 50,
    async start(owned) {
      const { metricsUrl } = owned.use(await startTestGateway());
      return { url: metricsUrl, places: [{ path: "/metrics", allow: "GET, HEAD" }] };
    },
  },
  "admin API": {
    sources: ["packages/gateway/src/admin/serve-admin.ts"],
    maxOfClient: 50,
    async start(owned) {
      const { port } = owned.use(
        await serveAdmin(
          { host: "127.0.0.1", port: 0, token: () => TOKEN, version: "0" },
          {
            target: { control: fails, reload: fails, config: fails },
            clock: systemClock,
            log: silentLog,
            metrics: noMetrics,
            random: { bytes: (length) => new Uint8Array(length) },
          },
        ),
      );
      const headers = { authorization: `Bearer ${TOKEN}` };
      const places = [
        { path: "/services", allow: "GET", headers },
        { path: "/flags/cache", allow: "PUT", headers },
      ];
      return { url: `http://127.0.0.1:${port}`, places };
    },
  },
  facilitator: {
    sources: ["packages/payment/src/facilitator/server.ts"],
    async start(owned) {
      const facilitator = { verify: fails, settle: fails, supported: fails, missing: fails };
      const { url } = owned.use(
        await createFacilitatorServer(
          { host: "127.0.0.1", port: 0, trustedProxies: [], maxBodyBytes: 65_536, maxConcurrentRequests: 256 },
          { facilitator, log: silentLog },
        ),
      );
      const places = [
        ...["/verify", "/settle"].map((path) => ({ path, allow: "POST" })),
        ...["/supported", "/health", "/ready"].map((path) => ({ path, allow: "GET, HEAD" })),
        ...["/discovery/resources", "/discovery/search"].map((path) => ({ path, allow: "GET, HEAD, OPTIONS" })),
      ];
      return { url, places };
    },
  },
  search: {
    sources: ["packages/search/src/service/search-service.ts"],
    async start(owned) {
      const service = await startSearchService(
        { host: "127.0.0.1", port: 0, timeoutMs: 60_000, maxInFlight: 1, cacheSeconds: 0, cacheBytes: 0, version: "0" },
        { engines: [], log: silentLog, metrics: noMetrics },
      );
      const { url } = owned.use(service);
      const reads = ["/v1/version", "/v1/health", "/v1/capabilities", "/healthz", "/documents/x"];
      return {
        url,
        places: [{ path: "/v1/search", allow: "POST" }, ...reads.map((path) => ({ path, allow: "GET" }))],
      };
    },
  },
  "management data API": {
    sources: ["packages/portal-db/src/http/server.ts"],
    async start(owned) {
      const rig = owned.use(await startPortalRig());
      const headers = { authorization: `Bearer ${await rig.token("admin")}` };
      const places = [
        { path: "/portal_applications", allow: "OPTIONS,GET,HEAD,POST,PUT,PATCH,DELETE", headers },
        { path: "/", allow: "OPTIONS,GET,HEAD", headers },
        { path: "/live", allow: "GET,HEAD" },
        { path: "/ready", allow: "GET,HEAD" },
      ];
      return { url: rig.url, places };
    },
  },
  "chain REST": {
    sources: ["packages/chain-api/src/rest/rest-server.ts"],
    async start(owned) {
      const { application, source, options } = testApi();
      const { port } = owned.use(
        await startRestServer(
          { host: "127.0.0.1", port: 0, ...options },
          { application, source, log: silentLog, clock: systemClock },
        ),
      );
      const places = ["/", "/pocket/shared/params", "/cosmos/tx/v1beta1/txs"].map((path) => ({
        path,
        allow: "GET, POST",
      }));
      return { url: `http://127.0.0.1:${port}`, places };
    },
  },
  "chain RPC": {
    sources: ["packages/chain-api/src/rpc/rpc-server.ts"],
    async start(owned) {
      const node = new TestNode();
      const { url } = owned.use(
        await startRpcServer(
          { host: "127.0.0.1", port: 0 },
          { node, queries: node.application, log: silentLog, clock: systemClock },
        ),
      );
      return { url, places: ["/", "/status", "/websocket"].map((path) => ({ path, allow: "GET, HEAD, POST" })) };
    },
  },
  MCP: {
    sources: ["packages/mcp/src/http.ts"],
    async start(owned) {
      const server = await serveMcpHttp(
        { gateway: "http://127.0.0.1:9", version: "0", buyer: "0x00000000000000000000000000000000000000aa", port: 0 },
        {
          client: fails,
          newSession: fails,
          documents: { services: fails, route: fails },
          log: silentLog,
          clock: systemClock,
        },
      );
      const { port } = owned.use(server);
      const session = { "mcp-session-id": "none" };
      const places = [
        { path: "/mcp", allow: "GET, POST, DELETE" },
        { path: "/mcp", allow: "GET, POST, DELETE", headers: session },
      ];
      return { url: `http://127.0.0.1:${port}`, places };
    },
  },
  "guard of the local chain": {
    sources: ["packages/localnet/src/evm-guard.ts"],
    maxOfClient: 1_000,
    async start(owned) {
      const { url } = owned.use(await startEvmGuard({ port: 0, target: "http://127.0.0.1:9" }));
      return { url, places: [{ path: "/", allow: "POST, OPTIONS" }] };
    },
  },
  "document digest": {
    sources: ["packages/localnet/src/document-digest.ts"],
    maxOfClient: 256,
    async start(owned) {
      const { url } = owned.use(await createDocumentDigest({ port: 0 }));
      return {
        url,
        places: [
          { path: "/", allow: "POST" },
          { path: "/health", allow: "GET" },
        ],
      };
    },
  },
  "supplier's relays": {
    sources: ["packages/supplier/src/serving/http-server.ts", "packages/supplier/src/serving/grpc-server.ts"],
    isHttp2: true,
    async start(owned) {
      const backEnd = owned.use(await startBackEnd((_, response) => response.end("{}")));
      const { url } = owned.use(await servingRig(backEnd.url));
      return { url, places: [] };
    },
  },
  "chain gRPC": {
    sources: ["packages/chain-api/src/grpc/grpc-server.ts"],
    isHttp2: true,
    async start(owned) {
      const { application, source, options } = testApi();
      const { port } = owned.use(
        await startGrpcServer({ host: "127.0.0.1", port: 0, ...options }, { application, source, log: silentLog }),
      );
      return { url: `http://127.0.0.1:${port}`, places: [] };
    },
  },
  "port splitter": {
    sources: ["packages/localnet/src/port-splitter.ts"],
    isHttp2: true,
    async start(owned) {
      const { application, source, options } = testApi();
      const modules = { application, source, log: silentLog, clock: systemClock };
      const host = "127.0.0.1";
      const rest = owned.use(await startRestServer({ host, port: 0, ...options }, modules));
      const grpc = owned.use(await startGrpcServer({ host, port: 0, trustedProxies: [host], ...options }, modules));
      const { port } = owned.use(
        await startPortSplitter({ host, port: 0, http1: rest, http2: grpc }, { log: silentLog }),
      );
      return { url: `http://127.0.0.1:${port}`, places: [] };
    },
  },
};
