import { join } from "node:path";
import { setTimeout as pause } from "node:timers/promises";
import { AppError, isRecord } from "@turnpike/base";
import { cosmosVerify, secp256k1Backend } from "@turnpike/crypto";
import { freePort } from "@turnpike/localnet";
import { bank, createMessage, packAny } from "@turnpike/proto";
import type { BenchOptions } from "../lib/benchmark.ts";
import { type Child, startChild } from "../lib/child.ts";
import type { LoadOperations } from "../lib/load.ts";
import { processCpuMicros, processRssBytes } from "../lib/process.ts";
import type { Report, Row } from "../lib/report.ts";
import { median } from "../lib/stats.ts";
import type { BareHttpOperations } from "./children/bare-http.ts";
import type { SendLoadOperations } from "./children/send-load.ts";
import { type Ground, makeGround, scratchFolder, signed } from "./ground.ts";
import { askNode, folderBytes, makeNodeHome, type NodeHome, type Started, startAnswering } from "./node-program.ts";

const ACCOUNTS = 400;
const CONNECTIONS = 16;
/** `node:http` alone, as a program: the floor of a start. */
const BARE_PROGRAM =
  'require("node:http").createServer((q, r) => r.end("{\\"result\\":1}")).listen(+process.argv[1], "127.0.0.1")';

interface Figures {
  readonly sends: number[];
  readonly sendMicros: number[];
  readonly status: number[];
  readonly statusMicros: number[];
  readonly bareStatus: number[];
  readonly bareStatusMicros: number[];
}

/** Sends of all accounts with one sequence after another, dealt to the connections account by account. */
function sendsOf(ground: Ground, first: number, each: number): Uint8Array[][] {
  const { accounts } = ground;
  const dealt: Uint8Array[][] = Array.from({ length: CONNECTIONS }, () => []);
  for (let sequence = first; sequence < first + each; sequence++) {
    for (const [i, from] of accounts.entries()) {
      const message = createMessage(bank.MsgSendSchema, {
        fromAddress: from.signer.address,
        toAddress: accounts[(i + 1) % accounts.length]?.signer.address ?? "",
        amount: [{ denom: "upokt", amount: "5" }],
      });
      dealt[i % CONNECTIONS]?.push(signed(packAny(bank.MsgSendSchema, message), from, BigInt(sequence)));
    }
  }
  return dealt;
}

/** Waits until nothing is left to put into a block, and all blocks are indexed. */
async function settled(port: number): Promise<void> {
  for (;;) {
    const mempool = await askNode(port, "num_unconfirmed_txs");
    if (isRecord(mempool) && mempool.total === "0") break;
    await pause(100);
  }
  await askNode(port, 'tx_search?query="tx.height=1"');
}

/** CPU of one native verification, in microseconds. */
function verificationMicros(ground: Ground, count: number): number {
  const message = Buffer.alloc(300, 7);
  const given = ground.accounts.map(({ signer }) => ({ signature: signer.sign(message), key: signer.publicKey }));
  const before = process.cpuUsage();
  for (let i = 0; i < count; i++) {
    const { signature, key } = given[i % given.length] ?? {};
    if (signature !== undefined && key !== undefined && cosmosVerify(message, signature, key)) continue;
    throw new AppError("INTERNAL", { message: "A signature does not hold." });
  }
  const { user, system } = process.cpuUsage(before);
  return (user + system) / count;
}

const STATUS = '{"jsonrpc":"2.0","id":1,"method":"status","params":{}}';
const STATUS_REQUEST = `POST / HTTP/1.1\r\nHost: 127.0.0.1\r\nContent-Type: application/json\r\nContent-Length: ${STATUS.length}\r\n\r\n${STATUS}`;

/** `/status` of a node, and the same bytes of `node:http`. */
async function measureStatus(
  load: Child<LoadOperations>,
  node: { readonly pid: number; readonly port: number },
  bare: { readonly child: Child<BareHttpOperations>; readonly port: number },
  durationMs: number,
  figures: Figures,
): Promise<void> {
  const run = { request: Buffer.from(STATUS_REQUEST), connections: CONNECTIONS, status: 200, durationMs };
  const before = processCpuMicros(node.pid);
  const ours = await load.ask("run", { ...run, port: node.port });
  figures.status.push((ours.answers / ours.elapsedMs) * 1_000);
  figures.statusMicros.push((processCpuMicros(node.pid) - before) / ours.answers);
  const bareBefore = await bare.child.cpuMicros();
  const floor = await load.ask("run", { ...run, port: bare.port });
  figures.bareStatus.push((floor.answers / floor.elapsedMs) * 1_000);
  figures.bareStatusMicros.push(((await bare.child.cpuMicros()) - bareBefore) / floor.answers);
}

/** Milliseconds from a program's start to its first answer, a few times. */
async function starts(command: readonly string[], port: number, path: string, times: number): Promise<number[]> {
  const found: number[] = [];
  for (let i = 0; i < times; i++) {
    await using started = await startAnswering(command, port, path);
    found.push(started.firstAnswerMs);
  }
  return found;
}

interface Disk {
  readonly before: number;
  readonly after: number;
}

interface Loaded {
  readonly figures: Figures;
  readonly disk: Disk;
  readonly rssBytes: number;
  readonly bareRssBytes: number;
  readonly txBytes: number;
  readonly count: number;
}

/** The figures of a running node: sends, then `/status`, in turn. */
async function loaded(ground: Ground, home: NodeHome, node: Started, options: BenchOptions): Promise<Loaded> {
  const { quick, progress } = options;
  const [rounds, each, durationMs] = quick ? [2, 4, 400] : [4, 8, 1_000];
  await using owned = new AsyncDisposableStack();
  const children = join(import.meta.dirname, "children");
  const senders = owned.use(await startChild<SendLoadOperations>(join(children, "send-load.ts")));
  const load = owned.use(await startChild<LoadOperations>(join(import.meta.dirname, "../lib/load.ts")));
  const bare = owned.use(await startChild<BareHttpOperations>(join(children, "bare-http.ts")));
  const port = home.rpcPort;
  const body = await (await fetch(`http://127.0.0.1:${port}/status`)).text();
  const bareAt = { child: bare, port: (await bare.ask("start", { body })).port };
  const figures: Figures = {
    sends: [],
    sendMicros: [],
    status: [],
    statusMicros: [],
    bareStatus: [],
    bareStatusMicros: [],
  };
  const count = each * ground.accounts.length;
  const folder = join(home.folder, "data");
  let before = 0;
  let txBytes = 0;
  // The first round warms up, brings the accounts' keys to the chain, and is not counted.
  for (let round = 0; round <= rounds; round++) {
    progress(`node: round ${round} of ${rounds}`);
    const txs = sendsOf(ground, round * each, each);
    if (round === 1) before = await folderBytes(folder);
    const cpu = processCpuMicros(node.pid);
    const elapsedMs = await senders.ask("send", { port, txs });
    await settled(port);
    const cpuMicros = processCpuMicros(node.pid) - cpu;
    if (round === 0) continue;
    figures.sends.push((count / elapsedMs) * 1_000);
    figures.sendMicros.push(cpuMicros / count);
    await measureStatus(load, { pid: node.pid, port }, bareAt, durationMs, figures);
    txBytes = txs.flat().reduce((sum, tx) => sum + tx.length, 0) / count;
  }
  return {
    figures,
    disk: { before, after: await folderBytes(folder) },
    rssBytes: processRssBytes(node.pid),
    bareRssBytes: processRssBytes(bare.pid),
    txBytes,
    count: count * rounds,
  };
}

type Side = readonly [value: number, unit: string];

const row = (name: string, title: string, ours: Side, reference: Side): Row => ({
  name: `chain.node-${name}`,
  title,
  ours: { value: ours[0], unit: ours[1] },
  reference: { value: reference[0], unit: reference[1] },
  ratioOf: "ours / reference",
});

const MEBIBYTE = 1_048_576;

/** A node as its users run it, `turnpike chain start`, as a process of its own. */
export async function nodeReport(options: BenchOptions): Promise<Report> {
  const { quick, progress } = options;
  const ground = makeGround({ accounts: ACCOUNTS, suppliers: 15, applications: 1 });
  await using folder = await scratchFolder();
  const home = await makeNodeHome(ground, folder.path);
  const times = quick ? 3 : 5;
  progress("node: starts");
  // The first start writes the compiled sources and the store; those that are counted find both.
  await starts(home.command, home.rpcPort, "status", 1);
  const warm = await starts(home.command, home.rpcPort, "status", times);
  const barePort = await freePort();
  const bareStarts = await starts(["-e", BARE_PROGRAM, String(barePort)], barePort, "", times);
  await using node = await startAnswering(home.command, home.rpcPort, "status");
  const { figures, disk, rssBytes, bareRssBytes, txBytes, count } = await loaded(ground, home, node, options);
  const verification = verificationMicros(ground, 4_000);
  const { sends, sendMicros, status, statusMicros, bareStatus, bareStatusMicros } = figures;
  return {
    rows: [
      row("sends", "node: sends answered a second", [median(sends), "/s"], [1e6 / verification, "/s"]),
      row("sends-cpu", "… CPU for one, to its block and index", [median(sendMicros), "µs"], [verification, "µs"]),
      row("status", "node: RPC status, a second", [median(status), "/s"], [median(bareStatus), "/s"]),
      row("status-cpu", "… CPU for one", [median(statusMicros), "µs"], [median(bareStatusMicros), "µs"]),
      row("memory", "node: memory after the load", [rssBytes / MEBIBYTE, "MiB"], [bareRssBytes / MEBIBYTE, "MiB"]),
      row("disk", "node: disk for one send", [(disk.after - disk.before) / count, "B"], [txBytes, "B"]),
      row("start", "node: start to first answer", [median(warm), "ms"], [median(bareStarts), "ms"]),
    ],
    notes: [
      `node: ${count.toLocaleString("en-US")} sends of ${ACCOUNTS} accounts on ${CONNECTIONS} connections, blocks of 1 s. References: one ${secp256k1Backend} verification a send; node:http with the same bytes, its memory and its start; the bytes of the transactions.`,
    ],
  };
}
