import { mkdir, rm } from "node:fs/promises";
import { AppError, type Clock, writePidFile } from "@turnpike/base";
import type { Environment } from "@turnpike/config";

import { AskedStarts } from "./asked-starts.ts";
import { dropBridge, dropNode, ensureBridge, refuseRunner, runnerFile } from "./leftovers.ts";
import { linkTo, nodeUp } from "./network.ts";
import { NodeProcesses } from "./node-processes.ts";
import type { Testnet } from "./plan.ts";
import { callIp, type TestnetPrograms } from "./programs.ts";
import { nodeNamed, readTestnet, startCommandText, type TestnetLayout } from "./testnet-file.ts";

export interface TestnetModules {
  readonly programs: TestnetPrograms;
  /** The turnpike command, which runs the nodes: program and first arguments. */
  readonly command: readonly string[];
  /** The environment that the nodes' processes get. */
  readonly env: Environment;
  readonly clock: Clock;
  /** Called with what happens, as a text for the operator. */
  readonly onEvent: (text: string) => void;
}

/**
 * Nodes of a testnet on this machine, each in a network namespace of its own, with a cable that can be pulled. A node whose
 * process dies stays so until it is asked for ({@link RunningTestnet.startAgain}, askStart); the others go on.
 */
export class RunningTestnet implements AsyncDisposable {
  readonly #layout: TestnetLayout;
  readonly #modules: TestnetModules;
  readonly #running = new Map<string, NodeProcesses>();
  /** Nodes whose namespaces are ours to take away. */
  readonly #owned = new Set<string>();
  #testnet: Testnet;
  #asked: AskedStarts | undefined;
  #isClosing = false;

  private constructor(layout: TestnetLayout, testnet: Testnet, modules: TestnetModules) {
    this.#layout = layout;
    this.#testnet = testnet;
    this.#modules = modules;
  }

  /**
   * Starts nodes of a testnet: those that are named, or all.
   * @throws AppError CHAIN_HOME, USAGE, DEPENDENCY_MISSING
   */
  static async start(
    { layout, names }: { readonly layout: TestnetLayout; readonly names?: readonly string[] },
    modules: TestnetModules,
  ): Promise<RunningTestnet> {
    const testnet = await readTestnet(layout);
    const running = new RunningTestnet(layout, testnet, modules);
    const wanted = names ?? testnet.nodes.map(({ name }) => name);
    try {
      for (const name of wanted) await running.#lay(name);
      const results = await Promise.allSettled(wanted.map((name) => running.startNode(name)));
      const failed = results.find((result) => result.status === "rejected");
      if (failed !== undefined) throw failed.reason;
      running.#asked = new AskedStarts(
        { layout, nodes: running.#owned },
        { isDead: (name) => running.isDead(name), start: (name) => running.startAgain(name) },
      );
      return running;
    } catch (error) {
      await running[Symbol.asyncDispose]();
      throw error;
    }
  }

  /** The testnet with the nodes that joined, as in its file. */
  get testnet(): Testnet {
    return this.#testnet;
  }

  /** Starts a node that does not run, also one that has joined meanwhile. @throws AppError USAGE, CHAIN_HOME */
  async startNode(name: string): Promise<void> {
    if (this.#running.has(name)) return;
    await this.#lay(name);
    const node = nodeNamed(this.#testnet, name);
    const { onEvent } = this.#modules;
    const processes = new NodeProcesses(
      { layout: this.#layout, testnet: this.#testnet, node },
      {
        ...this.#modules,
        onDeath: (text) =>
          onEvent(`${text}; bring it back, in another terminal: ${startCommandText(this.#layout, name)}`),
      },
    );
    this.#running.set(name, processes);
    try {
      await processes.start();
    } catch (error) {
      this.#running.delete(name);
      throw error;
    }
  }

  /** True when one or both of a node's processes have ended, by whatever. */
  isDead(name: string): boolean {
    return this.#running.get(name)?.isDead !== false;
  }

  /** Starts a dead node anew: what is left of it is ended first. @throws AppError USAGE, CHAIN_HOME */
  async startAgain(name: string): Promise<void> {
    await this.stopNode(name);
    if (this.#isClosing) throw new AppError("CHAIN_HOME", { message: `${name} is not started: the testnet ends.` });
    await this.startNode(name);
    this.#modules.onEvent(`${name}: runs again`);
  }

  /** Ends a node in good order. Its namespace stays. */
  async stopNode(name: string): Promise<void> {
    const processes = this.#running.get(name);
    this.#running.delete(name);
    await processes?.stop();
  }

  /** Ends both processes of a node with SIGKILL. */
  async killNode(name: string): Promise<void> {
    const processes = this.#running.get(name);
    this.#running.delete(name);
    await processes?.kill();
  }

  /** Ends one process of a node with SIGKILL, as an accident would. */
  async killProgram(name: string, program: "turnpike" | "cometbft"): Promise<void> {
    await this.#running.get(name)?.kill([program]);
  }

  /** Pulls a node's cable: it runs, and reaches no other node. */
  async cutOff(name: string): Promise<void> {
    await callIp(this.#modules.programs.ip, linkTo(this.#testnet, nodeNamed(this.#testnet, name), "down"));
  }

  /** Puts the cable in again. */
  async reconnect(name: string): Promise<void> {
    await callIp(this.#modules.programs.ip, linkTo(this.#testnet, nodeNamed(this.#testnet, name), "up"));
  }

  async [Symbol.asyncDispose](): Promise<void> {
    const { programs } = this.#modules;
    this.#isClosing = true;
    const asked = this.#asked?.[Symbol.asyncDispose]();
    // First, so that a node that is being started gives up.
    await Promise.all([...this.#running.keys()].map((name) => this.stopNode(name)));
    await asked;
    for (const name of this.#owned) {
      await dropNode(this.#testnet, nodeNamed(this.#testnet, name), programs);
      await rm(runnerFile(this.#layout, name), { force: true });
    }
    this.#owned.clear();
    await dropBridge(this.#testnet, programs);
  }

  /** Makes a node's namespace and link, anew where a killed run left them. */
  async #lay(name: string): Promise<void> {
    if (this.#owned.has(name)) return;
    const { programs, onEvent } = this.#modules;
    const testnet = await readTestnet(this.#layout);
    this.#testnet = testnet;
    const node = nodeNamed(testnet, name);
    await refuseRunner(this.#layout, name);
    if (await dropNode(testnet, node, programs)) onEvent(`${name}: took away what an earlier run had left`);
    await mkdir(this.#layout.runFolder, { recursive: true });
    await writePidFile(runnerFile(this.#layout, name), process.pid);
    this.#owned.add(name);
    await ensureBridge(testnet, programs);
    for (const call of nodeUp(testnet, node)) await callIp(programs.ip, call);
  }
}
