import assert from "node:assert/strict";
import { once } from "node:events";
import { type IncomingMessage, request } from "node:http";
import { after, suite, test } from "node:test";
import { noMetrics, silentLog, systemClock } from "@turnpike/base";
import { startRestServer, startRpcServer } from "@turnpike/chain-api";
import { serveAdmin } from "@turnpike/gateway";
import { createDocumentDigest, startEvmGuard } from "@turnpike/localnet";
import { serveMcpHttp } from "@turnpike/mcp";
import { createFacilitatorServer } from "@turnpike/payment";
import { startSearchService } from "@turnpike/search";
import { testApi } from "../../packages/chain-api/test/chain-api.ts";
import { TestNode } from "../../packages/chain-api/test/rpc/node.ts";
import { startTestGateway } from "../../packages/gateway/test/stand-ins.ts";
import { startPortalRig } from "./portal-rig.ts";

/** Verbs that none of our servers has. `TRACE` would show a page its own credentials; the others are WebDAV's and caches'. */
const VERBS = ["TRACE", "PROPFIND", "LOCK", "REPORT", "PURGE", "M-SEARCH", "QUERY"];
const TOKEN = "0123456789abcdef0123456789abcdef";

/** A path that a server has, and what `Allow` says there. */
interface Place {
  readonly path: string;
  readonly allow: string;
  readonly headers?: Readonly<Record<string, string>>;
}

/** Where a server listens, and its places. */
interface Served {
  readonly url: string;
  readonly places: readonly Place[];
}

const owned = new AsyncDisposableStack();
after(() => owned.disposeAsync());

const fails = (): never => assert.fail("no request of an odd verb comes this far");

const SERVERS: Readonly<Record<string, () => Promise<Served>>> = {
  async gateway() {
    const { url } = owned.use(await startTestGateway());
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
  async "gateway's metrics"() {
    const { metricsUrl } = owned.use(await startTestGateway());
    return { url: metricsUrl, places: [{ path: "/metrics", allow: "GET, HEAD" }] };
  },
  async "admin API"() {
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
  async facilitator() {
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
  async search() {
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
  async "management data API"() {
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
  async "chain REST"() {
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
  async "chain RPC"() {
    const node = new TestNode();
    const { url } = owned.use(
      await startRpcServer(
        { host: "127.0.0.1", port: 0 },
        { node, queries: node.application, log: silentLog, clock: systemClock },
      ),
    );
    return { url, places: ["/", "/status", "/websocket"].map((path) => ({ path, allow: "GET, HEAD, POST" })) };
  },
  async MCP() {
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
  async "guard of the local chain"() {
    const { url } = owned.use(await startEvmGuard({ port: 0, target: "http://127.0.0.1:9" }));
    return { url, places: [{ path: "/", allow: "POST, OPTIONS" }] };
  },
  async "document digest"() {
    const { url } = owned.use(await createDocumentDigest({ port: 0 }));
    return {
      url,
      places: [
        { path: "/", allow: "POST" },
        { path: "/health", allow: "GET" },
      ],
    };
  },
};

/** Asks by node's own client: `fetch` sends no TRACE. */
async function ask(
  url: string,
  verb: string,
  { path, headers = {} }: Place,
  body?: string,
): Promise<readonly [number | undefined, string | undefined]> {
  const { hostname, port } = new URL(url);
  const more = body === undefined ? {} : { "content-type": "application/json" };
  const sent = request({ hostname, port, path, method: verb, headers: { ...more, ...headers }, agent: false });
  sent.end(body);
  const [answer] = (await once(sent, "response")) as [IncomingMessage];
  answer.resume();
  await once(answer, "end");
  return [answer.statusCode, answer.headers.allow];
}

suite("verbs that no server has are answered 405, and `Allow` names those of the path", { timeout: 300_000 }, () => {
  for (const [name, start] of Object.entries(SERVERS)) {
    test(name, async () => {
      const { url, places } = await start();
      const found: string[] = [];
      const wanted: string[] = [];
      for (const place of places) {
        for (const verb of VERBS) {
          // The parser of Node 26 takes a body with any of them but TRACE.
          for (const body of verb === "TRACE" ? [undefined] : [undefined, "{}"]) {
            const what = `${verb} ${place.path}${body === undefined ? "" : " with a body"}`;
            const [status, allow] = await ask(url, verb, place, body);
            found.push(`${what}: ${status} ${allow}`);
            wanted.push(`${what}: 405 ${place.allow}`);
          }
        }
      }
      assert.deepEqual(found, wanted);
    });
  }
});
