import assert from "node:assert/strict";
import { suite, test } from "node:test";
import { type Log, silentLog } from "@turnpike/base";
import {
  type ChainProxy,
  type ChainQuestion,
  eventually,
  rpcAnswer,
  startChainProxy,
  startEvmUpstream,
} from "@turnpike/testkit";
import { chainParty, startTestChain } from "@turnpike/testkit/chain";
import {
  assertPaid,
  balanceRequest,
  type Economy,
  ETH,
  startEconomy,
  startRelay,
  startSessions,
} from "./economy-rig.ts";

const OPERATORS = ["patient one", "patient two"] as const;
const REQUESTS = 20;
/** Sessions of six blocks, with one block of grace: 1 to 6, 7 to 12, and so on. */
const SESSION_BLOCKS = 6n;

interface Scene extends AsyncDisposable {
  readonly economy: Economy;
  readonly proxy: ChainProxy;
  /** Causes of errors that the gateway logged. */
  readonly causes: readonly string[];
  /** First block of the session that the gateway uses; undefined: it uses none. */
  session(): bigint | undefined;
  /** Calls of clients, one after the other; each is answered. */
  ask(): Promise<void>;
  /** Holds that each relay that was answered is paid. */
  assertPaid(): Promise<void>;
}

async function startScene(): Promise<Scene> {
  await using stack = new AsyncDisposableStack();
  const node = stack.use(
    await startEvmUpstream((asked, response) => {
      response.end(rpcAnswer(asked, '"result":"0x5"'));
    }),
  );
  const causes: string[] = [];
  const log: Log = { ...silentLog, error: ({ cause }) => void causes.push(String(cause)) };
  let made: ChainProxy | undefined;
  const economy = stack.use(
    await startEconomy({
      operators: OPERATORS,
      backends: { json_rpc: { url: node.url } },
      log,
      proxy: async (nodeUrl) => {
        made = await startChainProxy(nodeUrl);
        return made;
      },
    }),
  );
  if (made === undefined) throw new TypeError("there is no proxy");
  const proxy = made;
  const relay = stack.use(await startRelay(economy));
  const owned = stack.move();
  return {
    economy,
    proxy,
    causes,
    session: () => economy.source.sessionsOf(ETH)[0]?.header.sessionStartBlockHeight,
    async ask() {
      for (let at = 0; at < REQUESTS; at++) {
        const outcome = await relay.send(balanceRequest());
        assert.ok(outcome.ok, JSON.stringify(outcome));
      }
    },
    assertPaid: () => assertPaid(economy, relay),
    [Symbol.asyncDispose]: () => owned.disposeAsync(),
  };
}

async function stepTo({ economy }: Scene, heightBlocks: bigint): Promise<void> {
  while (economy.chain.heightBlocks < heightBlocks) await economy.step();
}

/** Makes blocks until the gateway uses the session that begins at this height, which it must before that session ends. */
async function stepToSession(scene: Scene, startBlocks: bigint): Promise<void> {
  while (scene.session() !== startBlocks) {
    assert.ok(scene.economy.chain.heightBlocks < startBlocks + SESSION_BLOCKS - 1n, "not in this session");
    await scene.economy.step();
  }
}

/** The sessions of another process of the gateway, whose node names another account's key for an operator. */
async function startSessionsBehind(rpcUrl: string, operator: string) {
  await using stack = new AsyncDisposableStack();
  const proxy = stack.use(await startChainProxy(rpcUrl));
  const hexOf = (address: string): string => Buffer.from(address).toString("hex");
  const another = hexOf(chainParty("app").address);
  proxy.answerWith((asked, ask) => {
    const data = String(asked.params.data).replace(hexOf(operator), another);
    return pathOf(asked).endsWith("/Account") ? ask({ ...asked, params: { ...asked.params, data } }) : ask();
  });
  const { source } = stack.use(await startSessions(proxy.url));
  const owned = stack.move();
  return {
    proxy,
    suppliers: () => source.sessionsOf(ETH).flatMap((one) => one.suppliers.map((supplier) => supplier.operatorAddress)),
    [Symbol.asyncDispose]: () => owned.disposeAsync(),
  };
}

async function askNode(url: string, asked: ChainQuestion): Promise<Record<string, unknown>> {
  const body = JSON.stringify({ jsonrpc: "2.0", id: 1, ...asked });
  return (await (await fetch(url, { method: "POST", body })).json()) as Record<string, unknown>;
}

const pathOf = ({ params }: { readonly params: Readonly<Record<string, unknown>> }): string => String(params.path);

suite("a gateway whose chain node is slow or lies", () => {
  test("while every answer is held back, relays of the session and of its grace are answered, and all are paid", async () => {
    await using scene = await startScene();
    const { economy, proxy } = scene;
    await stepTo(scene, 4n);
    proxy.hold();
    await economy.chain.produce();
    await eventually("an event that is held back", () => proxy.held > 0);
    await scene.ask();
    await economy.chain.reach(SESSION_BLOCKS + 1n);
    await scene.ask();
    assert.ok(proxy.held > 0, "the node has answered nothing meanwhile");
    assert.equal(economy.head.newest?.heightBlocks, 4n);
    proxy.release();
    await stepTo(scene, SESSION_BLOCKS + 2n);
    assert.equal(scene.session(), SESSION_BLOCKS + 1n);
    await scene.ask();
    await scene.assertPaid();
  });

  test("while the next session is not answered, the one before serves to the end of its grace, and the next once it is known", async () => {
    await using scene = await startScene();
    const { economy, proxy } = scene;
    await stepTo(scene, SESSION_BLOCKS);
    proxy.hold(({ method }) => method === "abci_query");
    await economy.chain.produce();
    await economy.head.waitFor(SESSION_BLOCKS + 1n);
    await eventually("a question for the next session", () => proxy.held > 0);
    await scene.ask();
    assert.equal(scene.session(), 1n);
    assert.ok(proxy.held > 0, "the node has answered nothing meanwhile");
    proxy.release();
    await economy.source.settled();
    assert.equal(scene.session(), SESSION_BLOCKS + 1n);
    await scene.ask();
    await scene.assertPaid();
  });

  test("the session before in place of the next one is recognised, and asked for again", async () => {
    await using scene = await startScene();
    const { economy, proxy } = scene;
    const past = new Map<string, Record<string, unknown>>();
    proxy.answerWith(async (asked, ask) => {
      const answer = await ask();
      past.set(pathOf(asked), answer);
      return answer;
    });
    await economy.queries.session(chainParty("app").address, "eth", 3n, { fresh: true });
    await stepTo(scene, SESSION_BLOCKS);
    proxy.answerWith(async (asked, ask) => (pathOf(asked).endsWith("/GetSession") && past.get(pathOf(asked))) || ask());
    await economy.step();
    await scene.ask();
    assert.equal(scene.session(), 1n, "within its grace");
    proxy.answerWith(undefined);
    await stepToSession(scene, SESSION_BLOCKS + 1n);
    await scene.ask();
    await scene.assertPaid();
  });

  test("parameters that do not fit a session are asked for again with it", async () => {
    await using scene = await startScene();
    const { economy, proxy } = scene;
    await using other = await startTestChain({ shared: { numBlocksPerSession: 1_000n } });
    await other.reach(SESSION_BLOCKS + 3n);
    await stepTo(scene, SESSION_BLOCKS);
    let lies = 0;
    proxy.answerWith(async (asked, ask) => {
      if (!pathOf(asked).endsWith("/ParamsAtHeight")) return ask();
      lies++;
      return askNode(other.rpcUrl, asked);
    });
    await economy.step();
    assert.ok(lies > 0);
    await scene.ask();
    proxy.answerWith(undefined);
    await stepToSession(scene, SESSION_BLOCKS + 1n);
    await scene.ask();
    await scene.assertPaid();
  });

  test("another key in place of a supplier's bans no supplier", async () => {
    await using scene = await startScene();
    const { economy } = scene;
    await stepTo(scene, 3n);
    const [operator] = OPERATORS.map((name) => chainParty(name).address);
    await using again = await startSessionsBehind(economy.chain.rpcUrl, operator ?? "");
    assert.deepEqual(again.suppliers(), [chainParty(OPERATORS[1]).address], "one whose key is another's is left out");
    again.proxy.answerWith(undefined);
    await eventually("both suppliers", async () => {
      await economy.step();
      return again.suppliers().length === OPERATORS.length;
    });
  });

  test("a node of another chain, which is higher, ends no session: its blocks are not followed", async () => {
    await using scene = await startScene();
    const { economy, proxy, causes } = scene;
    await using other = await startTestChain({ chainId: "pocket-other" });
    await other.reach(40n);
    await stepTo(scene, SESSION_BLOCKS - 1n);
    const seen: bigint[] = [];
    economy.head.onBlock(({ heightBlocks }) => seen.push(heightBlocks));
    proxy.moveTo(other.rpcUrl);
    await eventually("the other chain is noticed", () => causes.some((cause) => cause.includes("pocket-other")));
    await scene.ask();
    assert.equal(scene.session(), 1n);
    await economy.chain.reach(SESSION_BLOCKS + 1n);
    await scene.ask();
    proxy.moveTo(economy.chain.rpcUrl);
    await stepTo(scene, SESSION_BLOCKS + 3n);
    assert.equal(seen.at(-1), SESSION_BLOCKS + 3n);
    assert.ok(
      seen.every((height) => height <= SESSION_BLOCKS + 3n),
      `no block of the other chain: ${seen.join(" ")}`,
    );
    assert.equal(scene.session(), SESSION_BLOCKS + 1n);
    await scene.ask();
    await scene.assertPaid();
  });

  test("a node that is behind says nothing of the applications", async () => {
    await using scene = await startScene();
    const { economy, proxy } = scene;
    // Without applications, and of the height that it is asked at.
    await using other = await startTestChain({ applications: {} });
    await stepTo(scene, SESSION_BLOCKS);
    let asked = 0;
    proxy.answerWith(async (question, ask) => {
      if (!pathOf(question).endsWith("/AllApplications")) return ask();
      asked++;
      return askNode(other.rpcUrl, question);
    });
    const before = asked;
    while (asked < before + 2) await economy.step();
    proxy.answerWith(undefined);
    while (scene.session() !== 2n * SESSION_BLOCKS + 1n) {
      assert.ok(economy.chain.heightBlocks < 3n * SESSION_BLOCKS, "not in this session");
      assert.equal(economy.source.hasApplication(ETH), true);
      await economy.step();
    }
    await scene.ask();
    await scene.assertPaid();
  });
});
