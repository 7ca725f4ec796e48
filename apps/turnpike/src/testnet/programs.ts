import { execFile } from "node:child_process";
import { promisify } from "node:util";
import { AppError, isRecord } from "@turnpike/base";
import type { Environment } from "@turnpike/config";
import type { IpCall } from "./network.ts";

const run = promisify(execFile);

/** Programs that a testnet in namespaces is run by. */
export interface TestnetPrograms {
  /** Of iproute2. */
  readonly ip: string;
  /** CometBFT 0.38. */
  readonly cometbft: string;
}

// Where it is for root; others have these folders not always in their PATH.
const IP_PLACES = ["ip", "/usr/sbin/ip", "/sbin/ip"];
const MOST_BYTES = 1_048_576;

async function answers(program: string, args: readonly string[]): Promise<string | undefined> {
  return run(program, [...args], { maxBuffer: MOST_BYTES }).then(
    ({ stdout }) => stdout,
    () => undefined,
  );
}

function missing(message: string): AppError {
  return new AppError("DEPENDENCY_MISSING", { message });
}

/** Calls `ip`. @throws AppError DEPENDENCY_MISSING with what it says */
export async function callIp(ip: string, call: IpCall): Promise<string> {
  try {
    return (await run(ip, [...call], { maxBuffer: MOST_BYTES })).stdout;
  } catch (cause) {
    const said = isRecord(cause) && typeof cause.stderr === "string" ? cause.stderr.trim() : String(cause);
    throw new AppError("DEPENDENCY_MISSING", { message: `ip ${call.join(" ")}: ${said}`, cause });
  }
}

/** The program `ip`. @throws AppError DEPENDENCY_MISSING when it is not there, or this is not Linux's root */
export async function findIp(): Promise<string> {
  if (process.platform !== "linux")
    throw missing("Namespaces of networks need Linux; run each node on its own machine.");
  if (process.getuid?.() !== 0) {
    throw missing("Namespaces of networks need root: call this command as root, or run each node on its own machine.");
  }
  for (const ip of IP_PLACES) if ((await answers(ip, ["-V"])) !== undefined) return ip;
  throw missing("The program ip is missing; install iproute2.");
}

/** CometBFT: COMETBFT, else `cometbft` in PATH. @throws AppError DEPENDENCY_MISSING when it is not there, or not 0.38 */
export async function findCometBft(env: Environment): Promise<string> {
  const program = env.COMETBFT ?? "cometbft";
  const version = (await answers(program, ["version"]))?.trim();
  if (version === undefined) {
    throw missing(`${program} is missing; install CometBFT 0.38, or name the program with COMETBFT.`);
  }
  if (!version.startsWith("0.38.")) throw missing(`${program} has version ${version}; CometBFT 0.38 is needed.`);
  return program;
}

/** Both programs, and the right to make namespaces. @throws AppError DEPENDENCY_MISSING */
export async function findTestnetPrograms(env: Environment): Promise<TestnetPrograms> {
  const ip = await findIp();
  const cometbft = await findCometBft(env);
  // Containers often have root without this right.
  const probe = `turnpike-probe-${process.pid}`;
  await callIp(ip, ["netns", "add", probe]).catch((cause: unknown) => {
    const said = cause instanceof Error ? cause.message : String(cause);
    throw missing(`This machine lets root make no namespaces of networks (${said}); run each node on its own machine.`);
  });
  await callIp(ip, ["netns", "delete", probe]);
  return { ip, cometbft };
}
