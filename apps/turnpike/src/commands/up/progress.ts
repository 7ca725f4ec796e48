import type { UpFile } from "@turnpike/devnet/files";
import type { UpProgress } from "@turnpike/devnet/up";

/** Where `up` writes. */
export interface Output {
  readonly isTTY?: boolean | undefined;
  write(text: string): unknown;
}

export interface ProgressOptions {
  /** One JSON line at the end and nothing else. */
  readonly json: boolean;
}

/** What `up` shows its user. */
interface Progress extends UpProgress {
  step(text: string): void;
}

const NAMES: Readonly<Record<string, string>> = {
  postgres: "PostgreSQL",
  anvil: "local EVM chain",
  chain: "protocol chain",
  "chain-setup": "protocol chain's prices",
  "port-splitter": "metrics and gRPC port",
  "evm-guard": "local EVM chain's guard",
  tools: "local services",
  migrate: "database tables",
  db: "management data",
  search: "web search",
  index: "search index",
};

function seconds(ms: number | undefined): string {
  return ms === undefined ? "" : ` (${(ms / 1000).toFixed(1)} s)`;
}

function shownChain({ faucet, ...rest }: UpFile["chain"]): object {
  return { ...rest, faucet: { address: faucet.address } };
}

/** Says on a terminal what happens; in a pipe only the addresses, `ready`, and what goes wrong. */
export function createProgress(options: ProgressOptions, modules: { output: Output; errors: Output }): Progress {
  const { output, errors } = modules;
  const isLively = output.isTTY === true && !options.json;
  const step = (text: string): void => {
    if (isLively) output.write(`  ${text}\n`);
  };
  const notice = (text: string): void => {
    errors.write(`${text}\n`);
  };
  return {
    step,
    notice,
    part: (event) => {
      const name = NAMES[event.part] ?? event.part;
      if (event.kind === "ready") step(`${name} ready${seconds(event.tookMs)}`);
      else if (event.kind === "stopped") step(`${name} stopped`);
      else if (event.kind === "failed") notice(event.text ?? `${name} failed`);
      else if (event.kind === "died") notice(`${name} ${event.text ?? "ended"}; starting it again`);
      else if (event.kind === "restarted") notice(`${name} is back${seconds(event.tookMs)}`);
    },
    ready: (up, upFile) => {
      if (options.json) {
        const { buyer, dbTokens: _, chain, ...rest } = up;
        output.write(
          `${JSON.stringify({ ready: true, upFile, ...rest, chain: shownChain(chain), buyer: { address: buyer.address } })}\n`,
        );
        return;
      }
      const lines = [
        ["gateway", up.gateway],
        ["metrics", `${up.metrics}/metrics`],
        ["facilitator", up.facilitator],
        ["management", up.db],
        ["web search", up.search],
        ["EVM chain", `${up.settlement.rpc} (${up.settlement.network})`],
        ["protocol chain", `${up.chain.rpc} (RPC), ${up.chain.rest} (REST), ${up.chain.grpc} (gRPC)`],
        ["faucet", up.chain.faucet.address],
        ["token", up.settlement.asset],
        ["paid to", up.settlement.payTo],
        ["buyer", up.buyer.address],
        ["services", up.services.join(", ")],
        ...(up.services.includes("eth") ? [["", "eth is the local chain here, not Ethereum's mainnet"]] : []),
        ["details", upFile],
      ];
      for (const [name, value] of lines) output.write(`${(name ?? "").padEnd(12)} ${value}\n`);
      if (isLively)
        output.write(`\nBuy a call:  npx turnpike pay eth '{"method":"eth_blockNumber"}'\nStop:        Ctrl-C\n\n`);
      output.write("ready\n");
    },
  };
}
