/**
 * Records answers of a real EVM node (anvil) into `evm-recorded.json`:
 * `node test/spec/catalogue/record-evm.ts`. What anvil does not have stands in `evm-made.json`, written by hand.
 */
import { type ChildProcess, spawn } from "node:child_process";
import { once } from "node:events";
import { writeFileSync } from "node:fs";
import { createInterface } from "node:readline";

const TOPIC = "ab".repeat(32);
/** Stores 42 in slot 0, logs with one topic, returns 42. */
const RUNTIME = `602a6000557f${TOPIC}60006000a1602a60005260206000f3`;
const INIT = `0x603580600b6000396000f3${RUNTIME}`;
const FROM = "0xf39Fd6e51aad88F6F4ce6aB8827279cffFb92266";

async function startAnvil(): Promise<{ readonly url: string; readonly child: ChildProcess }> {
  const bin = new URL("../../../node_modules/.bin/anvil", import.meta.url).pathname;
  const child = spawn(bin, ["--port", "0", "--chain-id", "31337"], { stdio: ["ignore", "pipe", "inherit"] });
  for await (const line of createInterface({ input: child.stdout })) {
    const found = /Listening on ([0-9.:]+)/.exec(line);
    if (found !== null) return { url: `http://${found[1]}`, child };
  }
  throw new TypeError("anvil ended before it listened");
}

const { url, child } = await startAnvil();
process.on("exit", () => child.kill());
const recorded: { method: string; name: string; params: unknown[]; result: unknown }[] = [];

async function call(method: string, params: unknown[]): Promise<unknown> {
  const body = JSON.stringify({ jsonrpc: "2.0", id: 1, method, params });
  const answer = await fetch(url, { method: "POST", headers: { "content-type": "application/json" }, body });
  const { result, error } = (await answer.json()) as { result?: unknown; error?: unknown };
  if (error !== undefined) throw new TypeError(`${method}: ${JSON.stringify(error)}`);
  return result;
}

async function record<T>(method: string, name: string, ...params: unknown[]): Promise<T> {
  const result = await call(method, params);
  recorded.push({ method, name, params, result });
  return result as T;
}

type Fields = Record<string, string>;
const blockFilter = await record<string>("eth_newBlockFilter", "made");
const logFilter = await record<string>("eth_newFilter", "made", { fromBlock: "0x0" });
const pendingFilter = await record<string>("eth_newPendingTransactionFilter", "made");

const deployed = (await call("eth_sendTransaction", [{ from: FROM, data: INIT }])) as string;
const created = await record<Fields>("eth_getTransactionReceipt", "contract creation", deployed);
const contract = created.contractAddress ?? "";
const hash = (await call("eth_sendTransaction", [
  { from: FROM, to: contract, value: "0x0", accessList: [{ address: contract, storageKeys: [`0x${"0".repeat(64)}`] }] },
])) as string;
const legacy = (await call("eth_sendTransaction", [
  { from: FROM, to: FROM, value: "0x1", gasPrice: "0x77359400" },
])) as string;
const receipt = await record<Fields>("eth_getTransactionReceipt", "with a log", hash);
const { blockHash = "", blockNumber = "" } = receipt;
const unknown = `0x${"11".repeat(32)}`;

await record("eth_getTransactionReceipt", "unknown", unknown);
await record("eth_getTransactionByHash", "access list", hash);
await record("eth_getTransactionByHash", "legacy", legacy);
await record("eth_getTransactionByHash", "contract creation", deployed);
await record("eth_getTransactionByHash", "unknown", unknown);
await record("eth_getTransactionByBlockHashAndIndex", "first", blockHash, "0x0");
await record("eth_getTransactionByBlockNumberAndIndex", "first", blockNumber, "0x0");
await record("eth_getTransactionByBlockNumberAndIndex", "none", blockNumber, "0x9");
await record("eth_blockNumber", "latest");
await record("eth_call", "returns 42", { to: contract }, "latest");
await record("eth_call", "returns nothing", { to: FROM }, "latest");
await record("eth_chainId", "own");
await record("eth_createAccessList", "of the contract", { from: FROM, to: contract }, "latest");
await record("eth_estimateGas", "of the contract", { from: FROM, to: contract });
await record("eth_feeHistory", "three blocks", "0x3", "latest", [10, 90]);
await record("eth_feeHistory", "without percentiles", "0x1", "latest", []);
await record("eth_gasPrice", "now");
await record("eth_getBalance", "rich", FROM, "latest");
await record("eth_getBalance", "empty", `0x${"22".repeat(20)}`, "latest");
await record("eth_getBlockByHash", "hashes", blockHash, false);
await record("eth_getBlockByHash", "unknown", unknown, false);
await record("eth_getBlockByNumber", "full", blockNumber, true);
await record("eth_getBlockByNumber", "genesis", "0x0", true);
await record("eth_getBlockByNumber", "beyond the head", "0xfffff", false);
await record("eth_getBlockReceipts", "one", blockNumber);
await record("eth_getBlockReceipts", "none", "0x0");
await record("eth_getBlockTransactionCountByHash", "one", blockHash);
await record("eth_getBlockTransactionCountByNumber", "none", "0x0");
await record("eth_getCode", "contract", contract, "latest");
await record("eth_getCode", "none", FROM, "latest");
await record("eth_getFilterChanges", "blocks", blockFilter);
await record("eth_getFilterChanges", "logs", logFilter);
await record("eth_getFilterChanges", "pending", pendingFilter);
await record("eth_getFilterChanges", "nothing new", blockFilter);
await record("eth_getFilterLogs", "all", logFilter);
await record("eth_getLogs", "by topic", { fromBlock: "0x0", topics: [`0x${TOPIC}`] });
await record("eth_getLogs", "none", { fromBlock: "0x0", topics: [unknown] });
await record("eth_getProof", "with a slot", contract, [`0x${"0".repeat(64)}`], "latest");
await record("eth_getStorageAt", "set", contract, "0x0", "latest");
await record("eth_getStorageAt", "empty", contract, "0x1", "latest");
await record("eth_getTransactionCount", "used", FROM, "latest");
await record("eth_getUncleByBlockHashAndIndex", "none", blockHash, "0x0");
await record("eth_getUncleByBlockNumberAndIndex", "none", "0x1", "0x0");
await record("eth_getUncleCountByBlockHash", "none", blockHash);
await record("eth_getUncleCountByBlockNumber", "none", "0x1");
await record("eth_maxPriorityFeePerGas", "now");
await record("eth_syncing", "in step");
await record("eth_uninstallFilter", "there", blockFilter);
await record("eth_uninstallFilter", "gone", blockFilter);
await record("net_listening", "yes");
await record("net_version", "own");
await record("web3_clientVersion", "anvil");
await record("web3_sha3", "of bytes", "0x68656c6c6f");
await record("eth_accounts", "own");
await record("eth_coinbase", "none");
await record("eth_blobBaseFee", "now");
await record("eth_simulateV1", "one call", { blockStateCalls: [{ calls: [{ from: FROM, to: contract }] }] }, "latest");
await record("txpool_status", "empty");
await record("debug_getRawTransaction", "access list", hash);

writeFileSync(new URL("evm-recorded.json", import.meta.url), `${JSON.stringify(recorded, null, 1)}\n`);
const ended = once(child, "exit");
child.kill("SIGTERM");
await ended;
