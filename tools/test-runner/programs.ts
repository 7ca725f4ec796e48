import { spawnSync } from "node:child_process";

/** A program that some tests need and that npm cannot bring. */
export interface Program {
  readonly name: string;
  /** What is not tested without it. */
  readonly tests: string;
  /** True when it is there. */
  readonly isFound: () => boolean;
  /** False where it cannot be had, so that a skip is no failure in CI either; left out: it always can. */
  readonly isObtainable?: () => boolean;
}

const PROGRAMS: readonly Program[] = [
  {
    name: "redis-server",
    tests: "limits that several gateways share",
    isFound: () => spawnSync("redis-server", ["--version"]).status === 0,
  },
  {
    name: "nginx",
    tests: "the gateway behind nginx, as docs/operate/proxy.md sets it up, and nginx as a reader of odd requests",
    // Daemons are not on every PATH.
    isFound: () => ["nginx", "/usr/sbin/nginx"].some((path) => spawnSync(path, ["-v"]).status === 0),
  },
  {
    name: "chromium",
    tests: "what a web page reaches of the servers of this machine",
    isFound: () =>
      ["chromium", "chromium-browser", "google-chrome"].some((name) => spawnSync(name, ["--version"]).status === 0),
  },
  {
    name: "cometbft",
    tests: "the chain's application under CometBFT 0.38",
    isFound: () =>
      spawnSync(process.env.COMETBFT ?? "cometbft", ["version"], { encoding: "utf8" }).stdout?.startsWith("0.38.") ??
      false,
    // It is built from source.
    isObtainable: () => spawnSync("go", ["version"]).status === 0,
  },
  {
    name: "go",
    tests: "signatures, tries and relays beside the Go libraries of the network",
    isFound: () => spawnSync("go", ["version"]).status === 0,
    // It is a toolchain of hundreds of megabytes.
    isObtainable: () => false,
  },
  {
    name: "ip",
    tests: "four validators, each in a network namespace of its own",
    isFound: () => ["ip", "/usr/sbin/ip", "/sbin/ip"].some((path) => spawnSync(path, ["-V"]).status === 0),
    // Of iproute2; and only root may make namespaces.
    isObtainable: () => process.getuid?.() === 0 && spawnSync("apt-get", ["--version"]).status === 0,
  },
];

/** The programs that are not installed here. */
export function missingPrograms(): readonly Program[] {
  return PROGRAMS.filter((program) => !program.isFound());
}
