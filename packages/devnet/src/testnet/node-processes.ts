import { type ChildProcess, spawn } from "node:child_process";
import { once } from "node:events";
import { mkdir, open, readFile } from "node:fs/promises";
import { dirname, join } from "node:path";
import { setTimeout as delay } from "node:timers/promises";
import { AppError, type Clock, isAppError } from "@turnpike/base";
import { ChainClient } from "@turnpike/chain-client";
import type { Environment } from "@turnpike/config";
import { type ChildExit, childExit, endChild, endWithParent } from "@turnpike/localnet";
import { inNamespace } from "./network.ts";
import { addressesOf, type Testnet, type TestnetNode } from "./plan.ts";
import type { TestnetPrograms } from "./programs.ts";
import type { TestnetLayout } from "./testnet-file.ts";

export interface NodeModules {
  readonly programs: TestnetPrograms;
  /** The turnpike command: program and first arguments. */
  readonly command: readonly string[];
  readonly env: Environment;
  readonly clock: Clock;
  /** Called when a process ends by itself, with a text for the operator. */
  readonly onDeath: (text: string) => void;
}

type ProgramName = "turnpike" | "cometbft";

const READY_MS = 120_000;
const STOP_MS = 10_000;
const ASK_MS = 100;
const LAST_LINES = 4;

// A configuration of the environment would be every node's.
function plainEnvironment(env: Environment): Record<string, string> {
  const own = /^(TURNPIKE_|CMT)/;
  return Object.fromEntries(
    Object.entries(env).flatMap(([name, value]) => (value === undefined || own.test(name) ? [] : [[name, value]])),
  );
}

function exitText({ code, signal }: ChildExit): string {
  return signal === null ? `ended with code ${code ?? "unknown"}` : `was ended by ${signal}`;
}

/** Resolves with undefined when the application says that it serves, or with what it says instead. */
async function saysReady({ stdout }: ChildProcess): Promise<string | undefined> {
  if (stdout === null) throw new AppError("INTERNAL", { detail: { missing: "an output" } });
  const [part]: unknown[] = await once(stdout, "data");
  stdout.resume();
  const text = String(part).trim();
  return text.startsWith('{"ready":true') ? undefined : text;
}

/** The two processes of a node in its namespace: application and CometBFT. What they say goes to files. */
export class NodeProcesses {
  readonly #layout: TestnetLayout;
  readonly #testnet: Testnet;
  readonly #node: TestnetNode;
  readonly #modules: NodeModules;
  readonly #children = new Map<ProgramName, ChildProcess>();
  #isStopping = false;

  constructor(
    opts: { readonly layout: TestnetLayout; readonly testnet: Testnet; readonly node: TestnetNode },
    modules: NodeModules,
  ) {
    this.#layout = opts.layout;
    this.#testnet = opts.testnet;
    this.#node = opts.node;
    this.#modules = modules;
  }

  /**
   * Starts the application, then CometBFT; resolves when its RPC answers.
   * @throws AppError CHAIN_HOME when one of them ends meanwhile
   */
  async start(): Promise<void> {
    const folder = this.#layout.nodeFolder(this.#node.name);
    const { command, programs } = this.#modules;
    const config = join(folder, "turnpike.yaml");
    const start = ["chain", "start", "--home", folder, "--config", config, "--json"];
    const app = await this.#spawn("turnpike", [...command, ...start], "pipe");
    await this.#orDeath(["turnpike"], saysReady(app));
    await this.#spawn("cometbft", [programs.cometbft, "start", "--home", folder], "log");
    const given = new AbortController();
    try {
      await this.#orDeath(["turnpike", "cometbft"], this.#rpcAnswers(given.signal));
    } finally {
      given.abort();
    }
  }

  /** True when one of them has ended: without the other it is of no use. */
  get isDead(): boolean {
    return [...this.#children.values()].some(({ exitCode, signalCode }) => exitCode !== null || signalCode !== null);
  }

  /** Ends both in good order: first who asks, then who answers. */
  async stop(): Promise<void> {
    this.#isStopping = true;
    for (const name of ["cometbft", "turnpike"] as const) {
      const child = this.#children.get(name);
      if (child !== undefined) await endChild(child, "SIGTERM", STOP_MS);
    }
  }

  /** Ends one or both at once. */
  async kill(names: readonly ProgramName[] = ["cometbft", "turnpike"]): Promise<void> {
    this.#isStopping ||= names.length === 2;
    const children = names.flatMap((name) => this.#children.get(name) ?? []);
    for (const child of children) child.kill("SIGKILL");
    await Promise.all(children.map(childExit));
  }

  async #spawn(name: ProgramName, command: readonly string[], stdout: "pipe" | "log"): Promise<ChildProcess> {
    const file = this.#layout.logFile(this.#node.name, name);
    await mkdir(dirname(file), { recursive: true });
    const log = await open(file, "a", 0o600);
    try {
      // Who ended the node meanwhile found no process to end.
      if (this.#isStopping)
        throw new AppError("CHAIN_HOME", { message: `${this.#node.name} was ended as it started.` });
      const child = spawn(this.#modules.programs.ip, inNamespace(this.#testnet, this.#node, command), {
        cwd: this.#layout.nodeFolder(this.#node.name),
        env: plainEnvironment(this.#modules.env),
        stdio: ["ignore", stdout === "pipe" ? "pipe" : log.fd, log.fd],
        // A group of its own: Ctrl-C is for the command, which ends its nodes in good order.
        detached: true,
      });
      child.on("error", () => {});
      endWithParent(child);
      this.#children.set(name, child);
      void childExit(child).then((exit) => {
        if (this.#isStopping) return;
        this.#modules.onDeath(`${this.#node.name}: ${name} ${exitText(exit)}; its log is ${file}`);
      });
      return child;
    } finally {
      await log.close();
    }
  }

  /** Waits for something; fails when one of the processes ends meanwhile. */
  async #orDeath(names: readonly ProgramName[], waiting: Promise<string | undefined>): Promise<void> {
    const signal = AbortSignal.timeout(READY_MS);
    const [last = "turnpike"] = names.slice(-1);
    const fault = await Promise.race([
      waiting.then((text) => (text === undefined ? undefined : { name: last, text: `said ${text}` })),
      once(signal, "abort").then(() => ({ name: last, text: "did not answer in time" })),
      ...names.flatMap((name) => {
        const child = this.#children.get(name);
        return child === undefined ? [] : childExit(child).then((exit) => ({ name, text: exitText(exit) }));
      }),
    ]);
    if (fault === undefined) return;
    const file = this.#layout.logFile(this.#node.name, fault.name);
    const log = await readFile(file, "utf8").catch(() => "");
    const end = log.trim().split("\n").slice(-LAST_LINES).join("\n");
    await this.kill();
    const message = `${this.#node.name}: ${fault.name} ${fault.text}. Its log ${file} ends:\n${end}`;
    throw new AppError("CHAIN_HOME", { message });
  }

  async #rpcAnswers(signal: AbortSignal): Promise<undefined> {
    const { clock } = this.#modules;
    await using client = new ChainClient({ url: addressesOf(this.#node).rpc, timeoutMs: 2_000 }, { clock });
    while (!signal.aborted) {
      try {
        await client.status(signal);
        return undefined;
      } catch (error) {
        if (!isAppError(error) && !signal.aborted) throw error;
        await delay(ASK_MS);
      }
    }
    return undefined;
  }
}
