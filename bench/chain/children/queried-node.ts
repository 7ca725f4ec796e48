import { setTimeout as sleep } from "node:timers/promises";
import { silentLog, systemClock } from "@turnpike/base";
import { pocketMachine, ThreadedApplication } from "@turnpike/chain";
import { apiSurface, startRestServer } from "@turnpike/chain-api";
import { EmbeddedSource } from "@turnpike/chain-node";
import { bank, createMessage, packAny } from "@turnpike/proto";
import { serveParent } from "../../lib/child.ts";
import { type Account, type BenchNode, beginChain, makeGround, scratchFolder, signed, submitAll } from "../ground.ts";

/** Where a node is asked, and of what. */
export interface QueriedNode {
  readonly rest: number;
  /** Address of an account with coins. */
  readonly account: string;
  /** Base64 of a transaction of some 600 KB: what the REST server takes at most. */
  readonly largeTx: string;
}

/** Operations of this child: a node with its REST server, which makes blocks when it is asked to. */
export type QueriedNodeOperations = {
  /** @param threads whether queries run on threads of their own, as a node has them */
  readonly start: (params: { readonly threads: boolean }) => Promise<QueriedNode>;
  /** Makes blocks of sends and gives how long after its time each was there, in ms. */
  readonly blocks: (params: { readonly count: number; readonly txs: number }) => Promise<readonly number[]>;
  /** CPU of the thread that makes blocks since it began, in µs; other threads are not in it. */
  readonly threadMicros: (params: undefined) => Promise<number>;
};

const SUPPLIERS = 250;
const ACCOUNTS = 200;
const LARGE_MESSAGES = 4_500;
/** Between two blocks queries have the thread. */
const BREAK_MS = 150;

const owned = new AsyncDisposableStack();
let node: BenchNode | undefined;
let accounts: readonly Account[] = [];
let sequence = 0n;

function sendTx(i: number, messages: number): Uint8Array {
  const [from, to] = [accounts[i], accounts[(i + 1) % accounts.length]];
  if (from === undefined || to === undefined) return new Uint8Array(0);
  const message = createMessage(bank.MsgSendSchema, {
    fromAddress: from.signer.address,
    toAddress: to.signer.address,
    amount: [{ denom: "upokt", amount: "5" }],
  });
  const packed = packAny(bank.MsgSendSchema, message);
  return signed(packed, from, sequence, messages);
}

async function start({ threads }: { readonly threads: boolean }): Promise<QueriedNode> {
  const ground = makeGround({ accounts: ACCOUNTS + 1, suppliers: SUPPLIERS, applications: 1 });
  const folder = owned.use(await scratchFolder());
  node = owned.use(await beginChain(ground, folder.path));
  accounts = ground.accounts;
  for (let i = 0; i < 3; i++) await node.produceBlock();
  const source = new EmbeddedSource({ listenAddr: "tcp://0.0.0.0:26656", rpcAddr: () => "tcp://0.0.0.0:26657" }, node);
  const { modules } = pocketMachine({ gasPrices: [] });
  const application = threads
    ? owned.use(
        new ThreadedApplication(
          { folder: folder.path, gasPrices: [] },
          { application: node.application, log: silentLog },
        ),
      )
    : node.application;
  const servers = { application, source, log: silentLog, clock: systemClock };
  const api = { host: "127.0.0.1", port: 0, surface: apiSurface(modules), gasPrices: [], pruningKeepBlocks: 0n };
  const rest = owned.use(await startRestServer(api, servers));
  return {
    rest: rest.port,
    account: accounts[0]?.signer.address ?? "",
    // Of the account that sends nothing in blocks.
    largeTx: Buffer.from(sendTx(ACCOUNTS, LARGE_MESSAGES)).toString("base64"),
  };
}

async function blocks({ count, txs }: { readonly count: number; readonly txs: number }): Promise<readonly number[]> {
  const took: number[] = [];
  if (node === undefined) return took;
  for (let n = 0; n < count; n++) {
    submitAll(
      node,
      Array.from({ length: txs }, (_, i) => sendTx(i, 1)),
    );
    sequence++;
    const dueMs = performance.now() + BREAK_MS;
    await sleep(BREAK_MS);
    await node.produceBlock();
    took.push(performance.now() - dueMs);
  }
  return took;
}

async function threadMicros(): Promise<number> {
  const { user, system } = process.threadCpuUsage();
  return user + system;
}

serveParent<QueriedNodeOperations>({ start, blocks, threadMicros }, owned);
