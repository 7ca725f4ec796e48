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
const ANSWER_MS = 10_000;
const MOST_SAID = 200;

const INSTALL = "install CometBFT 0.38 (go install github.com/cometbft/cometbft/cmd/cometbft@v0.38.19)";

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

/** What a program says to `version`, in one line: of its output, else of its complaint. Undefined when there is no such program. */
async function versionOf(program: string): Promise<string | undefined> {
  const options = { maxBuffer: MOST_BYTES, timeout: ANSWER_MS, killSignal: "SIGKILL" } as const;
  const said = await run(program, ["version"], options).catch((error: unknown) => {
    if (!isRecord(error)) return { stdout: "", stderr: "" };
    if (error.code === "ENOENT") return undefined;
    // Numbers are what it ended with; texts, such as EACCES, say why it did not begin.
    const reason = typeof error.code === "string" ? error.code : "";
    return { stdout: "", stderr: reason || (typeof error.stderr === "string" ? error.stderr : "") };
  });
  if (said === undefined) return undefined;
  const [line = ""] = (said.stdout.trim() || said.stderr.trim()).split("\n");
  return line.slice(0, MOST_SAID) || "nothing";
}

/** CometBFT: COMETBFT, else `cometbft` in PATH. @throws AppError DEPENDENCY_MISSING when it is not there, or not 0.38 */
export async function findCometBft(env: Environment): Promise<string> {
  const program = env.COMETBFT ?? "cometbft";
  const version = await versionOf(program);
  if (version === undefined) {
    throw missing(`${program} is missing; ${INSTALL}, or name the program with COMETBFT.`);
  }
  if (!/^v?0\.38\.\d/.test(version)) {
    throw missing(`${program} is not CometBFT 0.38: \`version\` said "${version}"; ${INSTALL}.`);
  }
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
