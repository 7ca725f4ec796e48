import { resolve } from "node:path";
import { AppError, silentLog, systemClock } from "@turnpike/base";
import { readCatalogue } from "@turnpike/catalogue";
import { CHAIN_PROFILES, type ProfileName } from "@turnpike/chain";
import {
  addressesOf,
  askStart,
  ChainWatch,
  findIp,
  findTestnetPrograms,
  joinTestnet,
  localServices,
  nodeNamed,
  RunningTestnet,
  readTestnet,
  refuseRunner,
  runnerOf,
  sharedInput,
  shellText,
  stopTestnet,
  type Testnet,
  type TestnetLayout,
  type TestnetNode,
  testnetJson,
  testnetLayout,
  writeTestnet,
} from "@turnpike/devnet";
import { configOf } from "../../../cli/config-file.ts";
import { type CommandContext, outputOf } from "../../../cli/context.ts";
import { serve } from "../../../cli/lifecycle.ts";
import type { Output } from "../../../cli/output.ts";
import { OWN_COMMAND } from "../../../cli/own-command.ts";
import { catalogueOptions } from "../../../wiring/catalogue.ts";

export interface TestnetOptions {
  readonly json?: boolean;
  readonly home: string;
}

export interface TestnetWriteOptions extends TestnetOptions {
  readonly config?: string;
  readonly validators?: string;
  readonly hosts?: string;
  readonly chainId: string;
  readonly profile: ProfileName;
  readonly listen: string;
  readonly snapshotBlocks: string;
}

export interface TestnetJoinOptions extends TestnetWriteOptions {
  readonly host?: string;
  readonly rpc?: string;
}

export interface TestnetStartOptions extends TestnetOptions {
  readonly node?: string;
}

/** Time for all nodes to end. */
const STOP_MS = 30_000;
const SUPPLIER_URLS = ["http://127.0.0.1:8549", "http://127.0.0.1:8550"] as const;

function usage(message: string): AppError {
  return new AppError("USAGE", { message });
}

function whole(option: string, text: string, most: number): number {
  const value = /^\d{1,10}$/.test(text) ? Number(text) : -1;
  if (value < 0 || value > most) throw usage(`${option}: expected a number from 0 to ${most}.`);
  return value;
}

// What is no count is refused with those that are too small or too large.
const countOf = (text: string): number => (/^\d{1,10}$/.test(text) ? Number(text) : -1);
const listOf = (text: string): readonly string[] => text.split(",").map((part) => part.trim());

function sharedOf({ profile, listen, snapshotBlocks }: TestnetWriteOptions) {
  if (!/^[0-9a-fA-F.:]{2,45}$/.test(listen))
    throw usage("--listen: expected an address, such as 0.0.0.0 or 127.0.0.1.");
  const blocks = whole("--snapshot-blocks", snapshotBlocks, 1_000_000_000);
  return sharedInput({ listen, snapshotBlocks: blocks }, CHAIN_PROFILES[profile].blockIntervalMs);
}

function nodeLines({ nodes }: Testnet): readonly string[] {
  return nodes.map((node) => {
    const { rpc, rest, grpc } = addressesOf(node);
    return `${node.name.padEnd(7)} ${rpc}  ${rest}  ${grpc}`;
  });
}

/** Writes a testnet. @throws AppError USAGE, CHAIN_HOME when the folder has one */
export async function write(opts: TestnetWriteOptions, context: CommandContext): Promise<void> {
  const output = outputOf(opts);
  const home = resolve(opts.home);
  if (!/^[a-zA-Z0-9._-]{1,50}$/.test(opts.chainId)) {
    throw usage("--chain-id: expected 1 to 50 letters, digits, points, dashes and underscores.");
  }
  const { testnet, layout, accounts } = await writeTestnet({
    home,
    ...(opts.validators === undefined ? {} : { validators: countOf(opts.validators) }),
    ...(opts.hosts === undefined ? {} : { hosts: listOf(opts.hosts) }),
    ...sharedOf(opts),
    chainId: opts.chainId,
    profile: CHAIN_PROFILES[opts.profile],
    genesisTime: new Date(systemClock.nowMs()).toISOString(),
    services: localServices(readCatalogue(catalogueOptions(configOf(context, opts.config))).catalogue),
    supplierUrls: SUPPLIER_URLS,
  });
  output.result({ home, file: layout.file, keysFolder: layout.keysFolder, accounts, ...testnetJson(testnet) });
  output.line(`testnet ${layout.file}`);
  output.line(`keys    ${layout.keysFolder}`);
  for (const line of nodeLines(testnet)) output.line(line);
  if (testnet.place === "namespaces") {
    output.line(`Start it, as root, with npx turnpike chain testnet start --home ${shellText(opts.home)}`);
  } else {
    output.line("Copy each folder to its machine, and run there, in the folder:");
    output.line("  npx turnpike chain start");
    output.line("  cometbft start --home .");
  }
}

/** Writes the folder of a node that joins. @throws AppError USAGE, CHAIN_HOME, CHAIN_UNREACHABLE, CHAIN_MISMATCH */
export async function join(opts: TestnetJoinOptions): Promise<void> {
  const output = outputOf(opts);
  const { node, folder, trusted, testnet } = await joinTestnet(
    {
      home: resolve(opts.home),
      shared: sharedOf(opts),
      ...(opts.host === undefined ? {} : { host: opts.host }),
      ...(opts.rpc === undefined ? {} : { rpcServers: listOf(opts.rpc) }),
    },
    { clock: systemClock },
  );
  output.result({ name: node.name, folder, ...addressesOf(node), trusted });
  output.line(`${node.name} in ${folder} trusts block ${trusted.heightBlocks}: ${trusted.hash}`);
  const here = `npx turnpike chain testnet start --node ${node.name} --home ${shellText(opts.home)}`;
  output.line(
    testnet.place === "namespaces"
      ? `Start it, as root, with ${here}`
      : "Copy the folder to its machine, and run there, in the folder: npx turnpike chain start, and cometbft start --home .",
  );
}

/**
 * Has other processes start again what is dead of the nodes that they run. Gives the nodes that no other process runs.
 * @throws AppError CHAIN_HOME when one of them runs, unless all that was left to do is done
 */
async function bringBack(
  layout: TestnetLayout,
  nodes: readonly TestnetNode[],
  output: Output,
): Promise<readonly TestnetNode[]> {
  const free: TestnetNode[] = [];
  const running: string[] = [];
  for (const node of nodes) {
    const { name } = node;
    const runner = await runnerOf(layout, name);
    if (runner === undefined) {
      free.push(node);
      continue;
    }
    const { pid } = runner;
    const onDead = (): void => output.line(`${name}: process ${pid} starts it again`);
    if (!(await askStart({ layout, node: name, pid }, { onDead }))) {
      running.push(name);
      continue;
    }
    const { rpc } = addressesOf(node);
    output.result({ node: name, startedAgainBy: pid, rpc });
    output.line(`${name}: runs again; ${rpc} answers`);
  }
  const isDone = free.length === 0 && running.length < nodes.length;
  for (const name of isDone ? [] : running) await refuseRunner(layout, name);
  return free;
}

/**
 * Runs the nodes of a testnet, each in its namespace, until a signal ends it. Nodes that another such process runs, and that
 * are dead, it starts again; when there are no others, the command ends then.
 */
export async function start(opts: TestnetStartOptions, context: CommandContext): Promise<void> {
  const output = outputOf(opts);
  const layout = testnetLayout(resolve(opts.home));
  const testnet = await readTestnet(layout);
  if (testnet.place === "hosts") {
    throw usage(
      `The nodes of ${layout.folder} are for machines of their own: run npx turnpike chain start and cometbft start there.`,
    );
  }
  const names = opts.node === undefined ? testnet.nodes.map(({ name }) => name) : listOf(opts.node);
  const wanted = names.map((name) => nodeNamed(testnet, name));
  await findIp();
  const nodes = await bringBack(layout, wanted, output);
  if (nodes.length === 0) return;
  const programs = await findTestnetPrograms(context.env);
  const onEvent = (event: string): void => {
    output.result({ event });
    output.line(event);
  };
  const modules = { programs, command: OWN_COMMAND, env: context.env, clock: systemClock, onEvent };
  // What happens is said on the output; a log would say it again.
  await serve(context, { log: silentLog }, async () => {
    const stack = new AsyncDisposableStack();
    stack.use(await RunningTestnet.start({ layout, names: nodes.map(({ name }) => name) }, modules));
    const watched = nodes.map((node) => ({ name: node.name, rpc: addressesOf(node).rpc }));
    stack.use(new ChainWatch({ nodes: () => watched }, modules));
    output.result({ ready: true, ...testnetJson({ ...testnet, nodes }) });
    for (const line of nodeLines({ ...testnet, nodes })) output.line(line);
    output.line(`logs    ${layout.logFile("node…", "turnpike")}, ${layout.logFile("node…", "cometbft")}`);
    output.line("Ctrl-C ends them, and takes their namespaces away.");
    return { drainMs: () => STOP_MS, [Symbol.asyncDispose]: () => stack.disposeAsync() };
  });
}

/** Ends everything of a testnet on this machine. */
export async function stop(opts: TestnetOptions): Promise<void> {
  const output = outputOf(opts);
  const layout = testnetLayout(resolve(opts.home));
  await readTestnet(layout);
  const found = await stopTestnet(layout, { ip: await findIp() });
  output.result({ home: layout.folder, ended: found });
  output.line(found.length === 0 ? "Nothing of it runs." : `Ended: ${found.join(", ")}.`);
}
