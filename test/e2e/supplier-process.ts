import assert from "node:assert/strict";
import { type ChildProcess, spawn } from "node:child_process";
import { once } from "node:events";
import { mkdtemp, rm, writeFile } from "node:fs/promises";
import { createServer } from "node:http";
import type { AddressInfo } from "node:net";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { createInterface } from "node:readline";
import { isRecord, systemClock } from "@turnpike/base";
import { ChainClient, PocketQueries } from "@turnpike/chain-client";
import { proof } from "@turnpike/proto";
import { decodeHttpResponsePayload, decodeRelayResponse, type SessionHeader } from "@turnpike/protocol";
import { eventually } from "@turnpike/testkit";
import {
  chainParty,
  jsonRpcPayload,
  signRelayRequest,
  startTestChain,
  type TestChain,
  type TestChainOptions,
} from "@turnpike/testkit/chain";
import { COMMAND_FILE, type Ran, runInProcess } from "../../apps/turnpike/test/run-command.ts";

/** Names of the operators. One process of the machine holds a key at a time: other tests have other names. */
export type Operators = readonly [string, ...string[]];

/** A chain whose blocks the test makes, and `turnpike supplier start` in a process of its own. */
export class SupplierProcess implements AsyncDisposable {
  readonly chain: TestChain;
  readonly client: ChainClient;
  readonly queries: PocketQueries;
  readonly #names: Operators;
  readonly #folder: string;
  readonly #stack: AsyncDisposableStack;
  #child: ChildProcess | undefined;
  #ready: { readonly urls: ReadonlyMap<string, string>; readonly metrics: string } | undefined;
  #calls = 0;

  private constructor(
    names: Operators,
    folder: string,
    chain: TestChain,
    client: ChainClient,
    stack: AsyncDisposableStack,
  ) {
    this.#names = names;
    this.#folder = folder;
    this.chain = chain;
    this.client = client;
    this.queries = new PocketQueries({ briefMs: 0 }, { client, clock: systemClock });
    this.#stack = stack;
  }

  /** Starts the chain, a back-end and the supplier. */
  static async start(names: Operators, options: TestChainOptions = {}): Promise<SupplierProcess> {
    await using stack = new AsyncDisposableStack();
    const suppliers = Object.fromEntries(names.map((name) => [name, { services: ["eth"] }]));
    const chain = stack.use(await startTestChain({ suppliers, ...options }));
    await chain.reach(2n);
    const folder = await mkdtemp(join(tmpdir(), "turnpike-supplier-process-"));
    stack.defer(() => rm(folder, { recursive: true, force: true }));
    let asked = 0;
    const backEnd = createServer((_, response) => response.end(`{"jsonrpc":"2.0","id":1,"result":${++asked}}`));
    backEnd.listen(0, "127.0.0.1");
    await once(backEnd, "listening");
    stack.defer(() => {
      backEnd.closeAllConnections();
      backEnd.close();
    });
    const keyFiles: string[] = [];
    for (const [at, name] of names.entries()) {
      const file = join(folder, `operator-${at}.json`);
      const privateKey = Buffer.from(chainParty(name).privateKey).toString("hex");
      await writeFile(file, JSON.stringify({ privateKey }), { mode: 0o600 });
      keyFiles.push(file);
    }
    const config = {
      supplier: {
        nodeUrl: chain.rpcUrl,
        stateFolder: join(folder, "relays"),
        keys: keyFiles.map((operatorKeyFile) => ({ operatorKeyFile, port: 0 })),
        services: { eth: { backends: { json_rpc: { url: urlOf(backEnd.address() as AddressInfo) } } } },
        metrics: { port: 0 },
      },
    };
    // JSON is YAML.
    await writeFile(join(folder, "turnpike.yaml"), JSON.stringify(config));
    const client = stack.use(new ChainClient({ url: chain.rpcUrl }, { clock: systemClock }));
    const rig = new SupplierProcess(names, folder, chain, client, stack.move());
    await rig.startSupplier();
    return rig;
  }

  /** Starts the process, and waits until it serves. */
  async startSupplier(): Promise<void> {
    const child = spawn(process.execPath, [COMMAND_FILE, "supplier", "start", "--json", "-c", this.#configFile], {
      cwd: this.#folder,
      env: {},
      stdio: ["ignore", "pipe", "ignore"],
    });
    this.#child = child;
    const [line] = (await once(createInterface({ input: child.stdout ?? assert.fail() }), "line")) as [string];
    const said: unknown = JSON.parse(line);
    assert.ok(isRecord(said) && said.ready === true && Array.isArray(said.operators), line);
    const operators = said.operators as readonly { readonly address: string; readonly url: string }[];
    this.#ready = {
      urls: new Map(operators.map(({ address, url }) => [address, url])),
      metrics: String(said.metrics).replace(/\/metrics$/, ""),
    };
  }

  /** Ends it as a loss of power of the process does. */
  async kill(signal: NodeJS.Signals = "SIGKILL"): Promise<void> {
    const child = this.#child;
    if (child === undefined || child.exitCode !== null || child.signalCode !== null) return;
    const ended = once(child, "exit");
    child.kill(signal);
    await ended;
  }

  get #configFile(): string {
    return join(this.#folder, "turnpike.yaml");
  }

  /** Runs a command with the supplier's configuration. */
  run(...args: readonly string[]): Promise<Ran> {
    return runInProcess([...args, "-c", this.#configFile]);
  }

  /** The session of now. */
  async header(): Promise<SessionHeader> {
    const found = await this.queries.session(chainParty("app").address, "eth", this.chain.heightBlocks);
    assert.ok(found.ok && found.value.header !== undefined);
    const { $typeName: _, ...header } = found.value.header;
    return header;
  }

  /** Sends a genuine relay to an operator, and resolves when its signed answer is here. */
  async relay(name: string, header: SessionHeader): Promise<void> {
    const { address } = chainParty(name);
    const payload = jsonRpcPayload(`{"jsonrpc":"2.0","id":${++this.#calls},"method":"eth_blockNumber"}`);
    const body = signRelayRequest(header, payload, { supplierOperatorAddress: address });
    const url = this.#ready?.urls.get(address) ?? assert.fail();
    const answer = await fetch(url, { method: "POST", body: Buffer.from(body), headers: { "Rpc-Type": "3" } });
    const bytes = new Uint8Array(await answer.arrayBuffer());
    assert.equal(answer.status, 200, Buffer.from(bytes).toString());
    const response = decodeRelayResponse(bytes) ?? assert.fail();
    assert.equal(response.signature.length, 64);
    assert.equal(decodeHttpResponsePayload(response.payload)?.statusCode, 200);
  }

  /** Waits until the supplier has worked after the newest block. */
  async worked(): Promise<void> {
    const { heightBlocks } = this.chain;
    const metrics = this.#ready?.metrics ?? assert.fail();
    await eventually(`the supplier's work after block ${heightBlocks}`, async () => {
      const text = await (await fetch(`${metrics}/metrics`)).text();
      const seen = [...text.matchAll(/^turnpike_supplier_claims_height_blocks\{[^}]*\} (\d+)$/gm)];
      return seen.length === this.#names.length && seen.every(([, at]) => BigInt(at ?? 0) >= heightBlocks);
    });
  }

  /** Makes a block, and waits until the supplier has worked after it. */
  async block(): Promise<void> {
    await this.chain.produce();
    await this.worked();
  }

  /** Claims that the chain has. */
  async claims(): Promise<readonly proof.Claim[]> {
    const { claims } = await this.client.ask(proof.Query.method.allClaims, {});
    return claims;
  }

  async upokt(name: string): Promise<bigint> {
    const found = await this.queries.balance(chainParty(name).address, { fresh: true });
    return found.ok ? found.value : assert.fail(found.text);
  }

  /** Stake of the application. */
  async stake(): Promise<bigint> {
    const found = await this.queries.application(chainParty("app").address, { fresh: true });
    return BigInt((found.ok ? found.value.stake?.amount : undefined) ?? assert.fail());
  }

  async [Symbol.asyncDispose](): Promise<void> {
    await this.kill();
    await this.#stack.disposeAsync();
  }
}

function urlOf({ port }: AddressInfo): string {
  return `http://127.0.0.1:${port}`;
}
