import { existsSync, statSync } from "node:fs";
import { join, relative, resolve } from "node:path";
import { files, ROOT } from "../sources.ts";

/** `quick` is `npm test`, `all` is `npm run test:all`, `beyond-quick` is what `all` adds to `quick`. */
export type Tier = "quick" | "all" | "beyond-quick";

/** Where tests are. */
const PATTERNS = [
  "packages/*/{src,test}/**/*.test.ts",
  "apps/*/{src,test}/**/*.test.ts",
  "tools/**/*.test.ts",
  "bench/*/*.test.ts",
  "test/**/*.test.ts",
];

/** End-to-end tests of the quick tier: one for each way in, and the kill points of a payment. */
export const QUICK_END_TO_END: Readonly<Record<string, string>> = {
  "paid calls": "test/e2e/reference-clients.test.ts",
  "free calls": "test/e2e/relay-jsonrpc.test.ts",
  WebSocket: "packages/gateway/src/websocket/websocket-handler.test.ts",
  "management data": "test/e2e/portal-db.test.ts",
  MCP: "test/e2e/mcp.test.ts",
  chain: "test/e2e/chain/scenario.test.ts",
  supplier: "test/e2e/supplier.test.ts",
  "payments through crashes": "test/chaos/kill.test.ts",
};

/** Tests beside the code that the quick tier leaves out, and why. */
export const BEYOND_QUICK: Readonly<Record<string, string>> = {
  "apps/turnpike/src/commands/up/up.test.ts": "starts the whole service twice, and kills its parts",
  "packages/chain-node/src/engine/engine-kill.test.ts": "kills a process at each step",
  "packages/chain-node/src/snapshots/snapshots-kill.test.ts": "kills a process at each step",
  "packages/chain-store/src/chain-store-kill.test.ts": "kills a process at each step",
  "apps/turnpike/src/commands/chain/testnet/running-testnet.test.ts": "needs CometBFT and network namespaces",
  "packages/devnet/src/testnet/comet-keys.test.ts": "needs CometBFT",
  "packages/chain-node/src/abci/comet-node.test.ts": "needs CometBFT",
  "packages/chain-node/src/abci/state-sync.test.ts": "needs CometBFT",
  "packages/chain-node/src/watch/comet-node.test.ts": "needs CometBFT",
  "packages/gateway/src/limits/redis-store.test.ts": "needs Redis",
  "packages/gateway/src/limits/script.test.ts": "needs Redis",
  "packages/gateway/src/sharing/redis-bus.test.ts": "needs Redis",
};

/** Tests that need real time: they run after the others, one at a time. */
const TIMING = "test/timing/";

function e2e(name: string): string {
  return `test/e2e/${name}`;
}

/** Tests of money: they must be steady by construction, so that they are never run a second time. */
const MONEY = [
  "packages/payment/",
  "packages/client/",
  "packages/supplier/",
  "apps/turnpike/src/commands/up/up.test.ts",
  "test/chaos/kill",
  "test/chaos/payment/",
  "test/chaos/supply/",
  "test/interop/running",
  ...[
    "buy-page",
    "client-",
    "cosmos-route",
    "discovery",
    "hostile-payers",
    "hostile-supplier",
    "mcp",
    "mixed-networks",
    "races",
  ].map(e2e),
  ...["reference-clients", "routes", "search-route", "stored-answers", "wallets", "workers", "behind-nginx"].map(e2e),
  ...["keyed-gateway", "paid-door", "relay-networks", "supplier", "economy", "signed-websocket", "dead-chain-node"].map(
    e2e,
  ),
  ...["static-fallback", "session-changes", "registered-services", "signed-grpc", "slow-chain-node"].map(e2e),
];

/** Every test file of the repository, those first that take longest. */
export function testFiles(): string[] {
  const rank = (path: string): number => ["test/chaos/", "test/", "apps/"].findIndex((start) => path.startsWith(start));
  const order = (path: string): number => (rank(path) === -1 ? 3 : rank(path));
  return files(...PATTERNS).sort((a, b) => order(a) - order(b));
}

/** True for a file that needs real time, and the machine for itself. */
export function isTiming(path: string): boolean {
  return path.startsWith(TIMING);
}

/** True for a file that `npm test` runs. */
export function isQuick(path: string): boolean {
  if (Object.values(QUICK_END_TO_END).includes(path)) return true;
  return !path.startsWith("test/") && !Object.hasOwn(BEYOND_QUICK, path);
}

/** True for a file that may run a second time, alone, after it failed: none of the quick tier, and none of money. */
export function mayRunAgain(path: string): boolean {
  return !isQuick(path) && !MONEY.some((start) => path.startsWith(start));
}

/** The test files of a tier. */
export function filesOf(tier: Tier): string[] {
  const all = testFiles();
  if (tier === "all") return all;
  return all.filter((path) => isQuick(path) === (tier === "quick"));
}

/** The test files that arguments of a command name: folders, files, or parts of a path. */
export function filesNamed(names: readonly string[]): string[] {
  const all = testFiles();
  const isNamed = names.map((name): ((path: string) => boolean) => {
    const wanted = relative(ROOT, resolve(process.cwd(), name));
    const isFolder = existsSync(join(ROOT, wanted)) && statSync(join(ROOT, wanted)).isDirectory();
    // A folder without tests, such as `docs`, may be part of a test's path.
    const isOfTests = isFolder && all.some((path) => path.startsWith(`${wanted}/`));
    return isOfTests ? (path) => path.startsWith(`${wanted}/`) : (path) => path === wanted || path.includes(name);
  });
  return all.filter((path) => isNamed.some((fits) => fits(path)));
}
